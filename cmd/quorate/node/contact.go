package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// contactEvery is how often a node notes that it hears a leader.
const contactEvery = time.Second

// contact keeps across restarts when this node last heard a leader: how old an
// answer is does not start anew with the process (I11). It is the time of change of
// an empty file, so that noting it is no write that a full disk could refuse or
// that has to be waited for.
type contact struct {
	path    string
	before  time.Duration // unheard when the process began
	started time.Time

	began  time.Time   // when this process began to listen for one; set before age is asked
	heard  atomic.Bool // a leader, by this process
	failed bool        // noting it, which was said
}

// openContact reads what an earlier run noted. A first run, and one whose clock was
// set back since, has nothing to add.
func openContact(path string, now time.Time) *contact {
	c := &contact{path: path, started: now, began: now}
	if info, err := os.Stat(path); err == nil {
		c.before = max(0, now.Sub(info.ModTime()))
	}
	return c
}

// opened says that from now on the process listens for a leader.
func (c *contact) opened(now time.Time) { c.began = now }

// age is the time since a leader was heard, given how long this process has not
// heard one.
func (c *contact) age(unheard time.Duration, now time.Time) time.Duration {
	if !c.heard.Load() {
		if unheard >= now.Sub(c.began) {
			return c.before + c.began.Sub(c.started) + unheard
		}
		c.heard.Store(true)
	}
	return unheard
}

// run notes what this node hears until ctx ends.
func (c *contact) run(ctx context.Context, unheard func() time.Duration, log *slog.Logger) {
	for ctx.Err() == nil {
		now := time.Now()
		if age := c.age(unheard(), now); age < 2*contactEvery {
			err := c.note(now.Add(-age))
			if err != nil && !c.failed {
				log.Warn("a restart will not know when a leader was last heard", keyErr, err)
			}
			c.failed = err != nil
		}
		sleep(ctx, contactEvery)
	}
}

func (c *contact) note(at time.Time) error {
	err := os.Chtimes(c.path, at, at)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.WriteFile(c.path, nil, 0o600); err == nil {
			err = os.Chtimes(c.path, at, at)
		}
	}
	return err
}
