package statestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An entry is a format byte, a kind byte and strict JSON {"meta":…,"body":…}.
// JSON because volume is low and a log must be readable with ordinary tools; large
// entries are compressed (compress.go).
const (
	entryFormat = 1
	skippable   = 0x80 // top bit of a kind: nodes that do not know it skip it
)

// errSkipped marks an entry of an unknown kind that may be skipped.
var errSkipped = errors.New("skippable log entry of an unknown kind")

// envelope is the JSON of an entry.
type envelope struct {
	Meta Meta            `json:"meta"`
	Body json.RawMessage `json:"body"`
}

// Encode returns the log entry for cmd; what fits none is ErrTooLarge.
func Encode(cmd Command, m Meta) ([]byte, error) {
	body, err := json.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("encode command of kind %d: %w", cmd.Kind(), err)
	}
	m.Issued, m.Wall = m.Issued.UTC(), m.Wall.UTC()
	data, err := json.Marshal(envelope{m, body})
	if err != nil {
		return nil, fmt.Errorf("encode command of kind %d: %w", cmd.Kind(), err)
	}
	entry, err := framed(cmd.Kind(), data)
	if err != nil {
		return nil, fmt.Errorf("encode command of kind %d: %w", cmd.Kind(), err)
	}
	return entry, nil
}

// Decode reads a log entry. Unknown fields, duplicate keys and trailing data are
// errors, and so is every unknown format or kind; all wrap ErrUndecodable.
func Decode(data []byte) (Command, Meta, error) {
	cmd, m, _, err := decode(data)
	if errors.Is(err, errSkipped) {
		err = fmt.Errorf("kind %d: %w", data[1], ErrUndecodable)
	}
	return cmd, m, err
}

// decode also returns the body, for its digest, and errSkipped with a valid Meta
// for an unknown kind that may be skipped.
func decode(data []byte) (Command, Meta, []byte, error) {
	undecodable := func(format string, args ...any) (Command, Meta, []byte, error) {
		return nil, Meta{}, nil, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrUndecodable)
	}
	if len(data) < 2 {
		return undecodable("entry of %d bytes", len(data))
	}
	plain, err := content(data)
	if err != nil {
		return undecodable("%v", err)
	}
	kind := Kind(data[1])
	var env envelope
	if err := strictJSON(plain, &env); err != nil {
		return undecodable("kind %d: %v", kind, err)
	}
	cmd, ok := newCommand(kind)
	if !ok {
		if kind&skippable != 0 {
			return nil, env.Meta, nil, errSkipped
		}
		return undecodable("unknown kind %d", kind)
	}
	if err := unmarshalStrict(env.Body, cmd); err != nil {
		return undecodable("kind %d: %v", kind, err)
	}
	return deref(cmd), env.Meta, env.Body, nil
}

// strictJSON decodes one JSON value and nothing else.
func strictJSON(data []byte, into any) error {
	if err := duplicateKeys(data); err != nil {
		return err
	}
	return unmarshalStrict(data, into)
}

func unmarshalStrict(data []byte, into any) error {
	if len(data) == 0 || data[0] != '{' {
		return errors.New("no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data after the JSON value")
	}
	return nil
}
