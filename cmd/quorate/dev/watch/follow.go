package watch

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

// followEvery is how often each node is asked what is committed.
const followEvery = 100 * time.Millisecond

// follower reads from every node what is committed of the two services: the newest
// that any of them has is the truth, and a node that hears no leader is cut off.
type follower struct {
	stateless, stateful string
	clients             map[string]*client.Client
	truth               *Truth
	owner               *Owner

	mu       sync.Mutex // guards what follows
	held     map[string]bool
	rotation uint64 // the newest
	shares   string
	owns     apitype.Stateful // under the newest token
	index    uint64
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.poll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(followEvery):
		}
	}
}

// poll asks every node once.
func (f *follower) poll(ctx context.Context) {
	var wg sync.WaitGroup
	for node, c := range f.clients {
		wg.Go(func() {
			res, err := c.Services(ctx, "")
			if err != nil {
				if ctx.Err() == nil {
					f.stale(node, true)
				}
				return
			}
			f.stale(node, res.Meta.Stale)
			for _, s := range res.Items {
				switch {
				case s.Name == f.stateless:
					f.sawRotation(s)
				case s.Name == f.stateful && s.Stateful != nil:
					f.sawOwner(s, res.Meta.Index)
				}
			}
		})
	}
	wg.Wait()
}

// sawRotation notes what a node says of the stateless service.
func (f *follower) sawRotation(s apitype.Service) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Rotation < f.rotation {
		return
	}
	f.rotation, f.shares = s.Rotation, ""
	var addrs []netip.Addr
	for _, sh := range s.V4 {
		addrs = append(addrs, sh.Endpoints...)
		f.shares += fmt.Sprintf(" %s %.0f%%", sh.Cluster, sh.Percent)
	}
	f.truth.Commit(addrs, time.Now())
}

// sawOwner notes what a node says of the stateful service.
func (f *follower) sawOwner(s apitype.Service, index uint64) {
	claim := Claim{Token: Token{s.Stateful.Generation, s.Stateful.Epoch}, Index: index, Moving: s.Stateful.Moving}
	for _, sh := range s.V4 {
		if sh.Cluster == s.Stateful.Active {
			claim.Addrs = append(claim.Addrs, sh.Endpoints...)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	newer := claim.Compare(Token{f.owns.Generation, f.owns.Epoch})
	if newer > 0 || newer == 0 && index >= f.index {
		f.owns, f.index = *s.Stateful, index
	}
	f.owner.Commit(claim, time.Now())
}

// stale notes that node hears no leader, or does again: until then it keeps what
// it had, which is right.
func (f *follower) stale(node string, stale bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stale == f.held[node] {
		return
	}
	f.held[node] = stale
	now := time.Now()
	if stale {
		f.truth.Hold(node, now)
		f.owner.Hold(node, now)
	} else {
		f.truth.Release(node, now)
		f.owner.Release(node, now)
	}
}

// known reports whether any node has told of both services.
func (f *follower) known() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rotation > 0 && f.owns.Epoch > 0
}

// lines say what is committed of each service, in a few words.
func (f *follower) lines() (stateless, stateful string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stateful = fmt.Sprintf("committed: epoch %d %s", f.owns.Epoch, f.owns.Active)
	switch {
	case f.owns.Moving:
		stateful += ", moving"
	case f.owns.Open != "":
		stateful += ", " + f.owns.Open + " open"
	}
	return fmt.Sprintf("committed: rotation %d%s", f.rotation, f.shares), stateful
}
