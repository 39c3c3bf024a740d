package statestore

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// A large entry is compressed: a spec of ten thousand services and their rotations
// is 5 MB of JSON and a twentieth of that on the wire, where on a slow link it would
// otherwise hold up what comes after it for longer than an election takes. Small
// ones stay readable with ordinary tools.
const (
	compressedFormat = 2 // a format byte, a kind byte, and the JSON compressed (RFC 1951)

	// compressFrom is the JSON that is worth it, in bytes: above what votes and
	// rotations of a usual installation need.
	compressFrom = 64 << 10
)

// MaxEntry bounds a log entry, in bytes: one append of 64 such entries still fits the
// transport's deadline on a slow link in pieces. A spec and its text are one entry.
const MaxEntry = 4 << 20

// MaxContent bounds the JSON of an entry, in bytes, however little of it is left when
// it is compressed: every node holds it, and what it decodes to, at once.
const MaxContent = 24 << 20

// ErrTooLarge is what no entry can hold.
var ErrTooLarge = errors.New("too large for a log entry")

// framed returns the entry of an entry's JSON.
func framed(kind Kind, content []byte) ([]byte, error) {
	if len(content) > MaxContent {
		return nil, fmt.Errorf("%d bytes, at most %d: %w", len(content), MaxContent, ErrTooLarge)
	}
	if len(content) < compressFrom {
		return append([]byte{entryFormat, byte(kind)}, content...), nil
	}
	var out bytes.Buffer
	out.Write([]byte{compressedFormat, byte(kind)})
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() > MaxEntry {
		return nil, fmt.Errorf("%d bytes compressed, at most %d: %w", out.Len(), MaxEntry, ErrTooLarge)
	}
	return out.Bytes(), nil
}

// content returns the JSON of an entry of two bytes or more.
func content(data []byte) ([]byte, error) {
	switch data[0] {
	case entryFormat:
		return data[2:], nil
	case compressedFormat:
	default:
		return nil, fmt.Errorf("entry format %d", data[0])
	}
	packed := bytes.NewReader(data[2:])
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(packed), MaxContent+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("compressed entry: %w", err)
	case len(plain) > MaxContent:
		return nil, fmt.Errorf("compressed entry of more than %d bytes", MaxContent)
	case packed.Len() > 0:
		return nil, errors.New("data after the compressed entry")
	}
	return plain, nil
}
