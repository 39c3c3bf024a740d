package probe

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// kindred finds, among the probes of the plan before, the one that asked the same
// of the same endpoint on another schedule or with another warning. What that one
// has seen still holds: who raises fall while everything flaps must not make every
// observer start from nothing.
type kindred struct {
	of map[ProbeID]*probeState

	at map[netip.Addr][]*probeState           // nil: not needed yet
	by map[netip.Addr]map[ProbeID]*probeState // of the endpoints that were asked for
}

// find returns such a probe, or nil.
func (k *kindred) find(p Probe) *probeState {
	if k.at == nil {
		k.at, k.by = map[netip.Addr][]*probeState{}, map[netip.Addr]map[ProbeID]*probeState{}
		for _, s := range k.of {
			k.at[s.probe.Endpoint] = append(k.at[s.probe.Endpoint], s)
		}
	}
	there := k.at[p.Endpoint]
	if len(there) == 0 {
		return nil
	}
	by := k.by[p.Endpoint]
	if by == nil {
		// The one that has completed last counts; which one must not depend on map order.
		slices.SortFunc(there, func(a, b *probeState) int {
			return cmp.Or(a.completed.Compare(b.completed), strings.Compare(string(a.probe.ID), string(b.probe.ID)))
		})
		by = make(map[ProbeID]*probeState, len(there))
		for _, s := range there {
			by[probeID(s.probe.Check.asked(), p.Endpoint)] = s
		}
		k.by[p.Endpoint] = by
	}
	return by[probeID(p.Check.asked(), p.Endpoint)]
}

// asked returns the check without its schedule and without what it warns of.
func (c Check) asked() Check {
	c.Interval, c.Timeout, c.Recheck, c.Fall, c.Rise = 0, 0, 0, 0, 0
	c.HTTP, c.HTTPS = c.HTTP.unwarned(), c.HTTPS.unwarned()
	if c.TLS != nil {
		t := *c.TLS
		t.Warn = Warn{}
		c.TLS = &t
	}
	return c
}

func (h *HTTPCheck) unwarned() *HTTPCheck {
	if h == nil {
		return nil
	}
	next := *h
	next.Warn = Warn{}
	return &next
}

// inherit makes s go on from what before has seen. A run of contrary results begins
// anew: how many it takes may be another number now.
func (p *Prober) inherit(s, before *probeState) {
	side := before.h
	s.h.side, s.h.sure, s.h.why, s.h.bad = side.side, side.sure, side.why, side.bad
	s.completed, s.unmeasured, s.failing = before.completed, before.unmeasured, before.failing
	s.certExpiry = before.certExpiry
	s.degraded.is = before.degraded.is
	p.mu.Lock()
	defer p.mu.Unlock()
	s.samples = before.samples.clone()
}
