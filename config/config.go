// Package config reads spec.yaml and node.yaml.
//
// Decoding is strict and driven by one declarative schema: unknown and duplicate
// keys, wrong types, values out of bounds and dangling references are all
// reported at once, each with file, line, column and path. What passes is
// normalised: defaults merged, checks inlined, names in one spelling. A key that
// this version knows but does nothing with is never dropped silently; it is a
// Note. The package touches no network, and of the disk only the files named.
package config

import (
	"slices"

	"github.com/quorate/quorate/statestore"
)

// MaxSpecSize and MaxNodeSize bound what is read, in bytes: all files of a spec
// together, and one node.yaml. The spec bound leaves room for some ten thousand
// services; both are far below what would hurt a node.
const (
	MaxSpecSize = 4 << 20
	MaxNodeSize = 256 << 10
)

// Result is a spec that passed.
type Result struct {
	// Spec is normalised and belongs to the caller. Keys named in Unused have
	// left no trace in it.
	Spec *statestore.Spec

	// Source is the text it was read from, comments included. ParseSpec reads it
	// again to the same Spec. Several files are joined, each after a line
	// "--- # file: NAME".
	Source string

	Unused   []Note // set keys without behaviour in this version: plan refuses them by name
	Warnings []Note // what works but is probably not meant
	Ignored  []Note // those of Warnings that say what of a zone_file is derived instead

	records []recordPlace
}

// LoadSpec reads a spec from files and directories. Of a directory all *.yaml
// files are read in order of name. Maps of several files merge deep; a scalar or
// list set in two files is an error that names both. A zone_file is read beside the
// file that names it, by zones, and becomes records. With an error the result is nil,
// and the errors are sorted by position.
func LoadSpec(paths []string, zones ZoneReader) (*Result, []FieldError) {
	sources, errs := readSources(paths, MaxSpecSize)
	if len(errs) > 0 {
		return nil, errs
	}
	sources, found := readZoneFiles(sources, zones)
	size := 0
	for _, t := range sources {
		if size += len(t.body); size > MaxSpecSize {
			return nil, []FieldError{sizeError(t.name, size, MaxSpecSize)}
		}
	}
	result, errs := parseSpec(sources)
	if len(found.errs) > 0 || len(errs) > 0 {
		known := found.errs
		for _, e := range errs { // a file that could not be read is one error
			if !slices.ContainsFunc(known, func(k FieldError) bool {
				return k.File == e.File && k.Line == e.Line && k.Col == e.Col && k.Path == e.Path
			}) {
				found.errs = append(found.errs, e)
			}
		}
		found.sorted()
		return nil, found.errs
	}
	found.sorted()
	result.Warnings = append(result.Warnings, found.warnings...)
	result.Ignored = found.warnings
	return result, nil
}

// ParseSpec reads a spec from memory: one document, or the joined form of
// Result.Source. It opens no file, so a zone_file is an error. The name stands for the file in errors.
func ParseSpec(name string, source []byte) (*Result, []FieldError) {
	if len(source) > MaxSpecSize {
		return nil, []FieldError{sizeError(name, len(source), MaxSpecSize)}
	}
	return parseSpec(splitSources(name, string(source)))
}

// LoadNode reads a node.yaml. With an error the node is nil. The notes are
// warnings; keys without behaviour are in Node.Unused, and a server that starts
// refuses those by name.
func LoadNode(path string) (*Node, []FieldError, []Note) {
	sources, errs := readSources([]string{path}, MaxNodeSize)
	if len(errs) > 0 {
		return nil, errs, nil
	}
	return parseNode(sources)
}

// ParseNode is LoadNode from memory.
func ParseNode(name string, source []byte) (*Node, []FieldError, []Note) {
	if len(source) > MaxNodeSize {
		return nil, []FieldError{sizeError(name, len(source), MaxNodeSize)}, nil
	}
	return parseNode([]*text{newText(name, string(source))})
}
