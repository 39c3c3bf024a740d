package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/theory/jsonpath"
)

// expectation is an HTTPExpect ready to be used.
type expectation struct {
	*HTTPExpect
	body   *regexp.Regexp // nil: anything
	header []headerPattern
	json   []jsonValue
}

type headerPattern struct {
	name    string
	pattern *regexp.Regexp
}

type jsonValue struct {
	text string // of the path, as it was written
	path *jsonpath.Path
	want string
}

// newExpectation compiles e, or says what of it cannot be.
func newExpectation(e *HTTPExpect) (*expectation, error) {
	x := &expectation{HTTPExpect: e}
	var err error
	if e.BodyRegex != "" {
		if x.body, err = regexp.Compile(e.BodyRegex); err != nil {
			return nil, fmt.Errorf("body_regex: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Header)) {
		re, err := regexp.Compile(e.Header[name])
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		x.header = append(x.header, headerPattern{http.CanonicalHeaderKey(name), re})
	}
	for _, path := range slices.Sorted(maps.Keys(e.JSON)) {
		p, err := jsonpath.Parse(path)
		if err != nil {
			return nil, fmt.Errorf("json %s: %w", path, err)
		}
		x.json = append(x.json, jsonValue{path, p, e.JSON[path]})
	}
	return x, nil
}

// judge reads the body of resp into buf and returns what is wrong with it all.
func (x *expectation) judge(ctx context.Context, resp *response, buf *buffer, start time.Time, rec *recorder) error {
	rec.start("match")
	if !expected(x.Status, resp.code) {
		return &badError{ReasonStatus, fmt.Sprintf("status %d", resp.code), "status " + rangesText(x.Status)}
	}
	for _, h := range x.header {
		if err := h.match(resp.header); err != nil {
			return err
		}
	}
	// Read also when nothing is matched: an endpoint that sends headers and then
	// hangs is not well. After 101 follows another protocol and no body.
	rec.start("read")
	if resp.code != http.StatusSwitchingProtocols {
		if err := x.read(ctx, resp, buf); err != nil {
			return err
		}
	}
	took := time.Since(start)
	if rec != nil {
		rec.ok(fmt.Sprintf("%d bytes", len(buf.body)))
	}
	rec.start("match")
	if err := x.match(buf.body); err != nil {
		return err
	}
	if x.MaxLatency > 0 && took > x.MaxLatency {
		return &badError{
			ReasonLatency, fmt.Sprintf("it took %s", took.Round(100*time.Microsecond)), fmt.Sprintf("at most %s", x.MaxLatency),
		}
	}
	if rec != nil {
		rec.ok(fmt.Sprintf("status %d, all as expected", resp.code))
	}
	return nil
}

// read reads the body as far as it counts.
func (x *expectation) read(ctx context.Context, resp *response, buf *buffer) error {
	if x.MaxBody > 0 && resp.length > int64(x.MaxBody) {
		return &badError{ReasonBody, fmt.Sprintf("a body of %d bytes", resp.length), fmt.Sprintf("at most %d", x.MaxBody)}
	}
	limit := maxBody
	if x.MaxBody > 0 {
		limit = min(limit, x.MaxBody) + 1 // one more tells that there is more
	}
	for len(buf.body) < limit {
		buf.body = slices.Grow(buf.body, min(512, limit-len(buf.body)))
		n, err := resp.body.Read(buf.body[len(buf.body):min(cap(buf.body), limit)])
		buf.body = buf.body[:len(buf.body)+n]
		switch {
		case errors.Is(err, io.EOF):
			resp.ended = true
			return x.short(buf)
		case err != nil && classify(ctx, err) == ReasonTimeout:
			return fmt.Errorf("read body after %d bytes: %w", len(buf.body), err)
		case err != nil:
			return &badError{ReasonBody, fmt.Sprintf("read body after %d bytes: %v", len(buf.body), err), "a body that ends"}
		}
	}
	return x.short(buf)
}

// short returns what is wrong with the length of what was read.
func (x *expectation) short(buf *buffer) error {
	if x.MaxBody > 0 && len(buf.body) > min(maxBody, x.MaxBody) {
		return &badError{ReasonBody, fmt.Sprintf("a body of more than %d bytes", x.MaxBody), fmt.Sprintf("at most %d", x.MaxBody)}
	}
	return nil
}

// match returns what is wrong with the body.
func (x *expectation) match(body []byte) error {
	if x.body != nil && !x.body.Match(body) {
		return &badError{ReasonBody, fmt.Sprintf("body does not match, begins: %.120s", body), fmt.Sprintf("%.120s", x.body)}
	}
	if len(x.json) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // so that 1.10 is told apart from 1.1, as it is written
	var doc any
	err := d.Decode(&doc)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the document")
		}
	}
	if err != nil {
		return &badError{ReasonBody, fmt.Sprintf("body is no JSON (%v), begins: %.80s", err, body), "a JSON document"}
	}
	for _, v := range x.json {
		if err := v.match(doc); err != nil {
			return err
		}
	}
	return nil
}

// match returns what is wrong with the values at the path.
func (v *jsonValue) match(doc any) error {
	want := fmt.Sprintf("%s is %.120s", v.text, v.want)
	found := v.path.Select(doc)
	if len(found) == 0 {
		return &badError{ReasonBody, fmt.Sprintf("body has no %s", v.text), want}
	}
	for _, f := range found {
		if text, scalar := scalarText(f); !scalar || text != v.want {
			return &badError{ReasonBody, fmt.Sprintf("%s is %.80s", v.text, text), want}
		}
	}
	return nil
}

// scalarText returns a JSON value as text, and whether it is a scalar.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	case nil:
		return "null", true
	case []any:
		return "an array", false
	}
	return "an object", false
}

// match returns what is wrong with the values of the header.
func (h *headerPattern) match(header http.Header) error {
	values := header[h.name]
	if slices.ContainsFunc(values, h.pattern.MatchString) {
		return nil
	}
	want := fmt.Sprintf("%s: %.120s", h.name, h.pattern)
	if len(values) == 0 {
		return &badError{ReasonBody, "no header " + h.name, want}
	}
	return &badError{ReasonBody, fmt.Sprintf("header %s does not match, is: %.120s", h.name, strings.Join(values, ", ")), want}
}

// rangesText writes ranges for people.
func rangesText(ranges []StatusRange) string {
	if len(ranges) == 0 {
		return "200-299"
	}
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", r.Low)
		if r.High != r.Low {
			fmt.Fprintf(&b, "-%d", r.High)
		}
	}
	return b.String()
}
