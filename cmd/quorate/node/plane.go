package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// plane is a set of parts that start one by one and end together. The DNS plane
// and the control plane are two of them, so that one can end without the other.
type plane struct {
	ctx    context.Context
	cancel context.CancelFunc
	log    *slog.Logger
	wg     sync.WaitGroup

	mu     sync.Mutex // guards failed
	failed []error
}

func newPlane(ctx context.Context, log *slog.Logger) *plane {
	p := &plane{log: log}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// run starts a part. A panic ends that part only: what still works goes on
// working, and the log says what does not.
func (p *plane) run(name string, part func(context.Context) error) {
	p.wg.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				p.fail(fmt.Errorf("%s panicked: %v", name, r))
				p.log.Error("part of the node panicked and has stopped", keyPart, name, keyPanic, r, keyStack, string(debug.Stack()))
			}
		}()
		if err := part(p.ctx); err != nil && p.ctx.Err() == nil {
			p.fail(fmt.Errorf("%s: %w", name, err))
			p.log.Error("part of the node has stopped", keyPart, name, keyErr, err)
		}
	})
}

func (p *plane) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, err)
}

// stop ends every part and waits for it.
func (p *plane) stop() error {
	p.cancel()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.failed...)
}
