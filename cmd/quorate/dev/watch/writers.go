package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/cmd/quorate/dev/database"
)

const (
	// writeEvery is the time between two rounds of writes.
	writeEvery = 200 * time.Millisecond

	// writeTimeout is for a database that is cut off; one that is down refuses at once.
	writeTimeout = time.Second
)

// Writers writes to every database of a service, round after round, and counts how
// many accept at once.
//
// A round asks one after the other, so that two may accept in it although one took
// over from the other in between. Those that did are asked again: one that accepts
// before and after another has accepted does so at the same time as it.
type Writers struct {
	databases map[string]string // cluster -> URL
	http      *http.Client

	mu     sync.Mutex // guards counts
	counts WriterCounts
}

// WriterCounts are what the databases did.
type WriterCounts struct {
	Writes   int      // that were answered
	Accepted int      // of them
	Now      []string // clusters that accept
	Most     []string // the most that ever did at once
	At       time.Time
	Refusals map[string]string // cluster -> why it does not accept

	Token  database.Token // of the last accepted write
	Rows   int            // on the active side
	Behind int            // rows that would be lost with the active side now
	Lost   int            // rows that moves have lost
}

// NewWriters returns writers to the databases at these URLs, one a cluster.
func NewWriters(databases map[string]string) *Writers {
	return &Writers{
		databases: databases,
		http:      &http.Client{Timeout: writeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
		counts:    WriterCounts{Refusals: map[string]string{}},
	}
}

// Run writes until ctx ends.
func (w *Writers) Run(ctx context.Context) {
	defer w.http.CloseIdleConnections()
	again := time.NewTicker(writeEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		w.round(ctx)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// round writes to each database, and to those that accept once more if they are
// several.
func (w *Writers) round(ctx context.Context) {
	first := w.writeTo(ctx, slices.Sorted(maps.Keys(w.databases)))
	accept := first
	if len(first) > 1 {
		accept = w.writeTo(ctx, first)
		// The last one may have taken over from all before it, which then refuse.
		// Any other that accepts again did so while the last one did.
		if last := first[len(first)-1]; len(accept) > 0 && !slices.Contains(accept, last) {
			accept = append(accept, last)
		}
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Now = accept
	if len(accept) > len(w.counts.Most) {
		w.counts.Most, w.counts.At = accept, time.Now()
	}
}

// writeTo writes to clusters in order and returns those that accepted.
func (w *Writers) writeTo(ctx context.Context, clusters []string) []string {
	var accepted []string
	for _, c := range clusters {
		r, err := w.write(ctx, w.databases[c])
		if ctx.Err() != nil {
			return nil
		}
		if w.note(c, r, err) {
			accepted = append(accepted, c)
		}
	}
	return accepted
}

// note counts one write and reports whether it was accepted.
func (w *Writers) note(cluster string, r database.Receipt, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.counts
	if err != nil {
		c.Refusals[cluster] = "does not answer"
		return false
	}
	c.Writes++
	c.Rows, c.Behind, c.Lost = r.Rows, r.Behind, r.Lost
	if !r.Accepted {
		c.Refusals[cluster] = r.Why
		return false
	}
	c.Accepted++
	c.Token = r.Token
	delete(c.Refusals, cluster)
	return true
}

func (w *Writers) write(ctx context.Context, url string) (database.Receipt, error) {
	var r database.Receipt
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/write", bytes.NewReader(nil))
	if err != nil {
		return r, err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return r, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusConflict {
		return r, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return r, json.Unmarshal(body, &r)
}

// Counts returns what the databases did so far.
func (w *Writers) Counts() WriterCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	c.Refusals = maps.Clone(c.Refusals)
	return c
}

// Line is the counts in a line for people.
func (c WriterCounts) Line() string {
	now := "none"
	if len(c.Now) > 0 {
		now = fmt.Sprintf("%d (%s)", len(c.Now), strings.Join(c.Now, ", "))
	}
	line := fmt.Sprintf("writers now %s, most at once %d, rows %d, not replicated %d", now, len(c.Most), c.Rows, c.Behind)
	if c.Lost > 0 {
		line += fmt.Sprintf(", lost in moves %d", c.Lost)
	}
	if len(c.Most) > 1 {
		line += fmt.Sprintf("   TWO WRITERS at %s: %s", c.At.UTC().Format("15:04:05.000Z"), strings.Join(c.Most, ", "))
	}
	return line
}
