package node

import (
	"context"
	"errors"
	"time"
)

// damageError says that a file of this node cannot be used. It ends the control
// plane only: a node that has a table goes on answering from it (G5), as it does
// without quorum.
type damageError struct{ err error }

func (e damageError) Error() string { return e.err.Error() }
func (e damageError) Unwrap() error { return e.err }

// damaged wraps a non-nil error.
func damaged(err error) error {
	if err == nil {
		return nil
	}
	return damageError{err}
}

// answersAlone reports whether the node, whose control plane cannot be opened
// because of err, is to go on with DNS. What a person has to set right in
// node.yaml or on the host (a port in use, another name) ends the start instead.
func (n *Node) answersAlone(err error) bool {
	var damage damageError
	return errors.As(err, &damage) && n.Answers() && len(n.cfg.DNS.Listen) > 0
}

// aloneReminder is how often the log repeats why the node only answers DNS.
const aloneReminder = time.Minute

// runAlone answers DNS until ctx ends.
func (n *Node) runAlone(ctx context.Context) error {
	data := newPlane(context.WithoutCancel(ctx), n.log)
	data.run("tables", func(ctx context.Context) error {
		n.tables.run(ctx, n.view) // what was withheld at start, for a slow disk
		return nil
	})
	data.run("files", n.files.run)
	remind := time.NewTicker(aloneReminder)
	defer remind.Stop()
	for {
		n.log.Error("the node answers DNS from the last known good state and does nothing else",
			keyErr, n.alone, keyNext, "mend or restore the file and restart; or quorate members remove "+n.cfg.Name+", then join again in an empty data_dir")
		select {
		case <-ctx.Done():
			return errors.Join(data.stop(), n.answers.stop())
		case <-remind.C:
		}
	}
}
