package statestore

import (
	"encoding/json"
	"errors"
	"fmt"
)

// duplicateKeys returns an error for JSON that is malformed or has an object
// with two equal keys, which encoding/json would let the last one win.
func duplicateKeys(data []byte) error {
	if !json.Valid(data) {
		return errors.New("malformed JSON")
	}
	// One set of keys for each open object, nil for an open array. The JSON is
	// valid, so a string is a key exactly when it follows { or , in an object.
	var open []map[string]struct{}
	key := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '{':
			open = append(open, map[string]struct{}{})
			key = true
		case '[':
			open = append(open, nil)
			key = false
		case '}', ']':
			open = open[:len(open)-1]
			key = false
		case ',':
			key = open[len(open)-1] != nil
		case ':':
			key = false
		case '"':
			start := i
			escaped := false
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					escaped = true
					i++
				}
			}
			if !key {
				continue
			}
			name := string(data[start+1 : i])
			if escaped {
				if err := json.Unmarshal(data[start:i+1], &name); err != nil {
					return err
				}
			}
			keys := open[len(open)-1]
			if _, seen := keys[name]; seen {
				return fmt.Errorf("duplicate key %q", name)
			}
			keys[name] = struct{}{}
		}
	}
	return nil
}
