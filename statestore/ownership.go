package statestore

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
)

// Ownership is which side of a stateful service is active. It changes only by an
// applied spec that brings the service, by a cutover, and by a person who confirms
// the active side after a recovery.
type Ownership struct {
	Active     string    `json:"active"` // the one cluster it answers with
	Epoch      uint64    `json:"epoch"`  // only grows
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"` // log time
	Index      uint64    `json:"index"` // of the entry that made this epoch
	Cutover    string    `json:"cutover,omitempty"`

	Open string `json:"open,omitempty"` // id of the open cutover; empty: none

	// Next is the epoch the open cutover has reserved. From the entry that reserves
	// it on, nobody answers with Active. Zero: none is under way.
	Next uint64 `json:"next,omitempty"`

	// Unconfirmed says that a recovery may have lost the last move: each node answers
	// with what it last knew itself until a person names the active side.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// Moving reports whether a cutover has taken the active side out of answers.
func (o *Ownership) Moving() bool { return o != nil && o.Next > 0 }

// Ownership returns which side of the service is active; nil for a service that
// is stateless or not there.
func (st *State) Ownership(service string) *Ownership {
	if s, ok := st.Services[service]; ok {
		return s.Ownership
	}
	return nil
}

// Destinations returns the clusters the service could go to, best first.
func (st *State) Destinations(service string) []string {
	o := st.Ownership(service)
	if o == nil {
		return nil
	}
	return slices.DeleteFunc(st.Spec.Ordered(service), func(name string) bool { return name == o.Active })
}

// own replaces the service's ownership. Its answers may change with it.
func (st *State) own(service string, at entry, edit func(*Ownership)) {
	next := *st.Services[service]
	o := *next.Ownership
	edit(&o)
	next.Ownership = &o
	st.replaceService(service, &next)
	st.TableIndex = at.index
}

// nextEpoch uses up an epoch of the service: one that was never used before, and
// never will be again.
func (st *State) nextEpoch(service string) uint64 {
	epoch := st.Epochs[service] + 1
	st.Epochs = with(st.Epochs, service, epoch)
	return epoch
}

// checkStateful refuses a spec that would move a stateful service, or change one
// whose move is under way; it names all of them. A spec never moves anything: only
// a cutover that people approved does (G3).
func (st *State) checkStateful(spec *Spec) error {
	var broken []string
	add := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, name := range sortedKeys(st.Services) {
		o := st.Services[name].Ownership
		if o == nil {
			continue
		}
		if taker, host := st.NameTaken(spec, name); taker != "" {
			add("%s answers %s with %s, and %s would answer it with another cluster; move it first, or remove the service first", name, host, o.Active, taker)
		}
		open := st.OpenCutover(name)
		next, stays := spec.Services[name]
		switch {
		case !stays && open != nil:
			add("%s cannot go while %s is %s; decide it first", name, open.ID, open.Phase)
			continue
		case !stays:
			continue
		case next.Stateful == nil:
			add("%s cannot become stateless; remove the service first", name)
			continue
		case open != nil && open.Phase == Fencing && st.Spec.ServiceDigest(name) != spec.ServiceDigest(name):
			add("%s cannot change while %s is under way", name, open.ID)
			continue
		}
		candidates := spec.Candidates(name)
		if !slices.Contains(candidates, o.Active) {
			add("%s is active on %s, which must stay one of its clusters; move it first: quorate cutover propose %s", name, o.Active, name)
		}
		if open != nil && !slices.Contains(candidates, open.Destination) {
			add("%s is about to move to %s (%s), which must stay one of its clusters; reject that first", name, open.Destination, open.ID)
		}
	}
	if len(broken) > 0 {
		return refuse(ErrStateful, "stateful: %s", strings.Join(broken, "; "))
	}
	return nil
}

// NameTaken returns the service that under the spec would answer, with another
// cluster than the active one, a name that the stateful service answers now: for
// whoever asks for the name that is a move. Both are empty when there is none.
func (st *State) NameTaken(spec *Spec, service string) (taker, host string) {
	was, own := st.Spec.Services[service], st.Ownership(service)
	if was == nil || own == nil {
		return "", ""
	}
	for _, other := range sortedKeys(spec.Services) {
		s := spec.Services[other]
		if other == service || s.Zone != was.Zone || st.becomes(spec, other) == own.Active {
			continue
		}
		for _, n := range s.Names {
			if slices.ContainsFunc(was.Names, func(old string) bool { return strings.EqualFold(old, n) }) {
				return other, n
			}
		}
	}
	return "", ""
}

// becomes returns the active side that a service would have as it is in a spec;
// empty for a stateless one.
func (st *State) becomes(spec *Spec, name string) string {
	s := spec.Services[name]
	switch own := st.Ownership(name); {
	case s.Stateful == nil:
		return ""
	case own != nil:
		return own.Active
	}
	side, _ := st.FirstSide(spec, name)
	return side
}

// FirstSide returns the active side of a service that is new in a stateful one's
// place: where a service of that name was active when it was removed, else the
// preferred one. It is not certain where the old side is no candidate any more; a
// person has to say then where the service is.
func (st *State) FirstSide(spec *Spec, service string) (side string, certain bool) {
	old, was := st.Sides[service]
	if !was {
		return spec.Services[service].Stateful.Preferred, true
	}
	if slices.Contains(spec.Candidates(service), old) {
		return old, true
	}
	return spec.Services[service].Stateful.Preferred, false
}

// checkActive refuses a rotation of a stateful service that answers with anything
// but its active cluster. One that is made now names all of the cluster's
// endpoints of a family that are up, or all there are when none is.
func (st *State) checkActive(ch RotationChange, active string, how strictness) error {
	c, ok := st.Spec.Clusters[active]
	if !ok {
		return refuse(ErrStateful, "service %s: its active cluster %s is not there", ch.Service, active)
	}
	for _, f := range []struct {
		family string
		pool   Pool
		addrs  []netip.Addr
	}{{"v4", ch.V4, c.IPv4}, {"v6", ch.V6, c.IPv6}} {
		if f.pool.AllDown != "" {
			return refuse(ErrStateful, "service %s: rotation %s: says %s, a stateful service always answers with %s", ch.Service, f.family, f.pool.AllDown, active)
		}
		for _, sh := range f.pool.Shares {
			if sh.Cluster != active {
				return refuse(ErrStateful, "service %s: rotation %s: names %s, but %s is active; only a cutover that people approved moves it", ch.Service, f.family, sh.Cluster, active)
			}
		}
		if how != judged || len(f.pool.Shares) == 0 {
			continue // Emptiness is judged with that of every pool.
		}
		want := st.upOf(ch.Service, active, f.addrs)
		if len(want) == 0 {
			want = f.addrs
		}
		if got := f.pool.Shares[0].Endpoints; !sameAddrs(got, want) {
			return refuse(ErrStale, "service %s: rotation %s: names %v of %s, which should be %v", ch.Service, f.family, got, active, want)
		}
	}
	return nil
}

// upOf returns those of the cluster's addresses that are up for the service.
func (st *State) upOf(service, cluster string, addrs []netip.Addr) []netip.Addr {
	var up []netip.Addr
	for _, a := range addrs {
		ts := st.target(health.Target{Service: service, Cluster: cluster, Endpoint: a})
		if ts != nil && ts.Verdict.Side == health.Up {
			up = append(up, a)
		}
	}
	return up
}

func sameAddrs(a, b []netip.Addr) bool {
	sorted := func(s []netip.Addr) []netip.Addr { return slices.SortedFunc(slices.Values(s), netip.Addr.Compare) }
	return slices.Equal(sorted(a), sorted(b))
}
