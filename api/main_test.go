package api

import (
	"context"
	"flag"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// ctxt keeps the signatures of fakes on one line.
type ctxt = context.Context

func ctxCancel(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
