package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/apitype"
)

// maxLine bounds a line of a stream.
const maxLine = 4 << 20

// reconnect is how long a broken stream waits before it is opened again.
const reconnect = time.Second

// ErrReset is passed to a Follow's function when history between what it has seen
// and what is kept was cut. The stream goes on.
var ErrReset = errors.New("history was cut: some events are missing")

// Follow calls f with every event after q.After as it is committed, and again
// with ErrReset where some are missing. It reconnects, to the next address when
// one is gone, and resumes where it was. It returns when ctx is done (nil), when
// f returns an error (that one), or when a node refuses (a *ProblemError).
func (c *Client) Follow(ctx context.Context, q EventQuery, f func(apitype.Event, error) error) error {
	last := q.After
	for first := true; ; first = false {
		q.After = last
		err := c.follow(ctx, q, &last, f)
		var stop *stopError
		var p *ProblemError
		switch {
		case errors.As(err, &stop):
			return stop.err
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &p), first && err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnect):
		}
	}
}

// stopError carries what the caller's function returned.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

func (c *Client) follow(ctx context.Context, q EventQuery, last *uint64, f func(apitype.Event, error) error) error {
	v := q.values()
	v.Del("limit")
	v.Del("since")
	resp, shown, err := c.send(ctx, Request{Method: http.MethodGet, Path: "/events", Query: v}, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if *last == 0 {
		*last = meta(resp, shown).Index // where the stream starts
	}
	return ReadStream(resp.Body, func(m Message) error {
		if n, err := strconv.ParseUint(m.ID, 10, 64); err == nil {
			*last = n
		}
		if m.Event == "reset" {
			return stopped(f(apitype.Event{Index: *last}, ErrReset))
		}
		var ce struct {
			Data apitype.Event `json:"data"`
		}
		if err := json.Unmarshal(m.Data, &ce); err != nil {
			return fmt.Errorf("decode an event of %s: %w", shown, err)
		}
		return stopped(f(ce.Data, nil))
	})
}

func stopped(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

// Message is one server-sent event.
type Message struct {
	ID, Event string
	Data      []byte
}

// ReadStream reads server-sent events until r ends or f returns an error.
func ReadStream(r io.Reader, f func(Message) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxLine)
	var m Message
	var data [][]byte
	for sc.Scan() {
		line := sc.Bytes()
		if len(line) == 0 {
			if data != nil {
				m.Data = bytes.Join(data, []byte("\n"))
				if err := f(m); err != nil {
					return err
				}
			}
			m, data = Message{}, nil
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			m.ID = string(value)
		case "event":
			m.Event = string(value)
		case "data":
			data = append(data, bytes.Clone(value))
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("read a stream: %w", err)
	}
	return nil
}
