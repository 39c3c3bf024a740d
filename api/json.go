package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// jsonFormat reads JSON strictly and writes it without HTML escapes.
func jsonFormat() huma.Format {
	return huma.Format{
		Marshal: func(w io.Writer, v any) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			return enc.Encode(v)
		},
		Unmarshal: unmarshalStrict,
	}
}

// unmarshalStrict decodes one JSON value and refuses unknown fields, a field
// given twice and anything behind the value. Errors of syntax start with
// "LINE:COLUMN: ".
func unmarshalStrict(data []byte, v any) error {
	if err := checkDuplicates(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return positioned(data, err, dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return positioned(data, errors.New("must be one JSON value, is followed by more"), dec.InputOffset())
	}
	return nil
}

// checkDuplicates refuses a key that an object holds twice, in whatever case, since
// the decoder takes it in any: two readers of such a body could each believe
// another one.
func checkDuplicates(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // a key comes next
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return positioned(data, err, dec.InputOffset())
		}
		top := len(stack) - 1
		switch t := tok.(type) {
		case json.Delim:
			switch t {
			case '{':
				stack = append(stack, level{keys: map[string]bool{}, key: true})
				continue
			case '[':
				stack = append(stack, level{})
				continue
			}
			stack = stack[:top]
			top--
		case string:
			if top >= 0 && stack[top].key {
				folded := strings.ToLower(t)
				if stack[top].keys[folded] {
					return positioned(data, fmt.Errorf("field %q must be given once, is given twice", t), dec.InputOffset())
				}
				stack[top].keys[folded] = true
				stack[top].key = false
				continue
			}
		}
		if top >= 0 && stack[top].keys != nil {
			stack[top].key = true
		}
	}
}

func positioned(data []byte, err error, offset int64) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	before := string(data[:min(int(offset), len(data))])
	line := strings.Count(before, "\n") + 1
	col := len(before) - strings.LastIndexByte(before, '\n')
	return fmt.Errorf("%d:%d: %w", line, max(col-1, 1), err)
}

// cutPosition splits what positioned wrote.
func cutPosition(msg string) (line, col int, rest string, ok bool) {
	n, err := fmt.Sscanf(msg, "%d:%d:", &line, &col)
	if err != nil || n != 2 {
		return 0, 0, msg, false
	}
	parts := strings.SplitN(msg, ":", 3)
	return line, col, strings.TrimPrefix(parts[2], " "), true
}
