package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// document is the part of OpenAPI that the tests read.
type document struct {
	Paths      map[string]map[string]*docOperation `json:"paths"`
	Components struct {
		Schemas map[string]*docSchema `json:"schemas"`
	} `json:"components"`
}

type docOperation struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema *docSchema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type docSchema struct {
	Ref        string                `json:"$ref"`
	Type       any                   `json:"type"` // a name or several
	Properties map[string]*docSchema `json:"properties"`
	Required   []string              `json:"required"`
	Items      *docSchema            `json:"items"`
	Enum       []any                 `json:"enum"`
	Additional any                   `json:"additionalProperties"`
}

func (r *rig) openAPI() document {
	r.t.Helper()
	var d document
	require.NoError(r.t, json.Unmarshal(r.server.OpenAPI(), &d))
	return d
}

// check lists where v does not fit the schema.
func (d document) check(at string, s *docSchema, v any) []string {
	if s.Ref != "" {
		target := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if target == nil {
			return []string{at + ": dangling " + s.Ref}
		}
		return d.check(at, target, v)
	}
	if !fits(s.Type, v) {
		return []string{fmt.Sprintf("%s: must be %v, is %T", at, s.Type, v)}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return []string{fmt.Sprintf("%s: must be one of %v, is %v", at, s.Enum, v)}
	}
	var out []string
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			out = append(out, d.check(fmt.Sprintf("%s/%d", at, i), s.Items, item)...)
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				out = append(out, at+"/"+name+": is missing")
			}
		}
		for name, value := range v {
			switch p := s.Properties[name]; {
			case p != nil:
				out = append(out, d.check(at+"/"+name, p, value)...)
			case s.Properties != nil && s.Additional == false:
				out = append(out, at+"/"+name+": is not in the document")
			}
		}
	}
	return out
}

func fits(kind, v any) bool {
	switch k := kind.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(k, func(k any) bool { return fits(k, v) })
	case string:
		switch v := v.(type) {
		case nil:
			return k == "null"
		case bool:
			return k == "boolean"
		case string:
			return k == "string"
		case float64:
			return k == "number" || k == "integer" && v == float64(int64(v))
		case []any:
			return k == "array"
		case map[string]any:
			return k == "object"
		}
	}
	return false
}
