package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/quorate/dev/watch"
)

// WatchConfig says what to watch and where to tell.
type WatchConfig struct {
	DNS     map[string]string // node -> IP:PORT
	APIs    map[string]string // node -> URL
	Control string            // the demo's control socket
	Token   string
	Rate    int // queries a second to each node, for each name
	Out     io.Writer

	// Width is the terminal's, whose lines are then written over; nil: Out is none.
	Width func() int
}

const tellEvery = time.Second

// Watch asks every node of the demo for its services until ctx ends, checks every
// answer against what the nodes say was committed, writes to every database, and
// tells the counts every second. It returns an error when an answer was wrong or
// empty, or when two databases took writes at once.
func Watch(ctx context.Context, cfg WatchConfig) error {
	databases, err := Databases(ctx, cfg.Control)
	if err != nil {
		return err
	}
	s, err := watch.Watch(ctx, watch.SessionConfig{
		Zone: Zone, Stateless: webName, Stateful: ordersName,
		DNS: cfg.DNS, APIs: cfg.APIs, Databases: databases, Token: cfg.Token, Rate: cfg.Rate,
	})
	switch {
	case errors.Is(err, watch.ErrUnheard):
		return ErrNoDemo
	case err != nil:
		return err
	}
	again := time.NewTicker(tellEvery)
	defer again.Stop()
	back := ""
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-again.C:
			lines := s.Lines()
			if cfg.Width == nil {
				at := time.Now().UTC().Format("15:04:05Z")
				fmt.Fprintf(cfg.Out, "%s  %s\n", at, strings.Join(lines, "\n"+at+"  "))
				continue
			}
			fmt.Fprint(cfg.Out, back)
			width := cfg.Width()
			for _, line := range lines {
				// One that wraps would take two lines and be written over in part.
				if width > 0 && len(line) > width {
					line = line[:width]
				}
				fmt.Fprintf(cfg.Out, "\x1b[K%s\n", line)
			}
			back = fmt.Sprintf("\x1b[%dA", len(lines))
		}
	}
	s.Finish()
	for _, line := range s.Report() {
		fmt.Fprintln(cfg.Out, line)
	}
	return s.Verdict()
}
