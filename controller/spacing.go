package controller

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

const (
	// spaceBurst is how many entries about one cluster come as soon as they are due:
	// a change, its correction and the next one.
	spaceBurst = 3

	// resolveEvery and capacityEvery space those after them. A name whose addresses go
	// round, and a capacity that swings, would else write an entry every second, for
	// ever, and no address would be probed for long enough to have a verdict.
	resolveEvery  = 30 * time.Second
	capacityEvery = 10 * time.Second
)

// spacing bounds how often measurements become entries, by kind and cluster. Only
// the deciding loop touches it.
type spacing map[string]*allowance

// allowance is what is left of spaceBurst.
type allowance struct {
	left  int
	since time.Duration // when the next of it began to come back
	last  string        // what it was spent on last: to try that again costs nothing
}

// wait returns how long p has to wait; zero: it may be committed now.
func (s spacing) wait(st *statestore.State, p policy.Proposal, now time.Duration) time.Duration {
	every := capacityEvery
	switch cmd := p.Command.(type) {
	case statestore.ReportCapacity:
	case statestore.ResolveCluster:
		every = resolveEvery
		if c := st.Spec.Clusters[cmd.Cluster]; c != nil && len(c.Endpoints()) == 0 {
			return 0 // whatever it is, it is better than nothing
		}
	default:
		return 0
	}
	key, what := fmt.Sprint(p.Command.Kind(), p.Subject), keyOf(p)
	a := s[key]
	if a == nil {
		a = &allowance{left: spaceBurst, since: now}
		s[key] = a
	}
	if back := int((now - a.since) / every); back > 0 {
		a.left, a.since = min(a.left+back, spaceBurst), a.since+time.Duration(back)*every
	}
	switch {
	case a.last == what:
		return 0
	case a.left == 0:
		return a.since + every - now
	case a.left == spaceBurst:
		a.since = now
	}
	a.left, a.last = a.left-1, what
	return 0
}

// forget drops what says nothing any more.
func (s spacing) forget(now time.Duration) {
	for key, a := range s {
		if now-a.since >= (spaceBurst+1)*resolveEvery {
			delete(s, key)
		}
	}
}
