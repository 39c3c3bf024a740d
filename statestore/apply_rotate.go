package statestore

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
)

// RotationDetail is Event.Detail of "rotation.changed", and part of that of the
// other events that carry rotations.
type RotationDetail struct {
	Service string   `json:"service"`
	Number  uint64   `json:"number"`
	Reason  string   `json:"reason"`
	V4      Pool     `json:"v4"`
	V6      Pool     `json:"v6"`
	Left    []string `json:"left,omitempty"`   // clusters that left
	Joined  []string `json:"joined,omitempty"` // clusters that came
}

func (c Rotate) apply(st *State, at entry) (record, error) {
	if _, ok := st.Services[c.Service]; !ok {
		return record{}, refuse(ErrNotFound, "service %s: not found", c.Service)
	}
	if f, ok := st.Frozen(c.Service); ok {
		return record{}, refuse(ErrFrozen, "service %s: automation is frozen by %s: %s", c.Service, f.By, f.Reason)
	}
	if err := st.checkBasis(c.Service, c.Basis); err != nil {
		return record{}, err
	}
	if err := st.checkPools(c.RotationChange, judged); err != nil {
		return record{}, err
	}
	if err := st.checkFloor(c.RotationChange); err != nil {
		return record{}, err
	}
	if err := st.chargeBudget(c.RotationChange, at); err != nil {
		return record{}, err
	}
	st.Services = maps.Clone(st.Services)
	detail, changed := st.installRotation(c.RotationChange, at, st.Spec)
	if !changed {
		return record{}, nil
	}
	return record{
		kind: "rotation.changed", subject: "services/" + c.Service,
		text: withReason(detail.text(), c.Reason), detail: detail,
	}, nil
}

// Basis returns what a conclusion about the service rests on now.
func (st *State) Basis(service string) Basis {
	b := Basis{
		Spec:     st.Spec.ServiceDigest(service),
		Verdicts: map[health.Target]uint64{},
		Drains:   map[string]uint64{},
		Freeze:   st.FreezeVersion(service),
	}
	stateful := false
	if s, ok := st.Services[service]; ok {
		b.Rotation = s.Rotation.Number
		for t, ts := range s.Targets {
			b.Verdicts[t] = ts.Verdict.Number
		}
		if s.Override != nil {
			b.Override = s.Override.Version
		}
		stateful = s.Ownership != nil
	}
	for _, name := range st.Spec.Candidates(service) {
		c, ok := st.Clusters[name]
		if !ok {
			continue
		}
		b.Drains[name] = c.DrainVersion
		// What a cluster can take says nothing about where a stateful service is.
		if c.Reported != nil && !stateful {
			b.Reports = with(b.Reports, name, c.Reported.Version)
		}
	}
	return b
}

// checkBasis compares exactly what the conclusion read, so that unrelated churn
// never starves it.
func (st *State) checkBasis(service string, got Basis) error {
	want := st.Basis(service)
	var differs string
	switch {
	case got.Spec != want.Spec:
		differs = "the service's effective spec"
	case got.Rotation != want.Rotation:
		differs = fmt.Sprintf("the rotation, which is number %d and not %d", want.Rotation, got.Rotation)
	case !maps.Equal(got.Verdicts, want.Verdicts):
		differs = "a verdict"
	case !maps.Equal(got.Drains, want.Drains):
		differs = "a drain"
	case got.Freeze != want.Freeze:
		differs = "a freeze"
	case got.Override != want.Override:
		differs = "an override"
	case !maps.Equal(got.Reports, want.Reports):
		differs = "a reported capacity"
	default:
		return nil
	}
	return refuse(ErrStale, "service %s: what this rests on has changed: %s", service, differs)
}

// strictness says how much of a rotation is held against the state.
type strictness int

const (
	structural strictness = iota // of the spec alone: an older rotation that still stands
	judged                       // and nothing in it drained or down: one that is made now
)

// checkPools refuses a rotation that names what is not there, or nothing (G5).
func (st *State) checkPools(ch RotationChange, how strictness) error {
	candidates := st.Spec.Candidates(ch.Service)
	if o := st.Ownership(ch.Service); o != nil {
		if err := st.checkActive(ch, o.Active, how); err != nil {
			return err
		}
		candidates = []string{o.Active}
	}
	if err := st.checkPool(ch.Service, "v4", ch.V4, candidates, func(c *Cluster) []netip.Addr { return c.IPv4 }, how); err != nil {
		return err
	}
	return st.checkPool(ch.Service, "v6", ch.V6, candidates, func(c *Cluster) []netip.Addr { return c.IPv6 }, how)
}

func (st *State) checkPool(service, family string, p Pool, candidates []string, addrs func(*Cluster) []netip.Addr, how strictness) error {
	s := st.Spec.Services[service]
	bad := func(format string, args ...any) error {
		return refuse(ErrInvalid, "service %s: rotation %s: %s", service, family, fmt.Sprintf(format, args...))
	}
	possible := slices.ContainsFunc(candidates, func(n string) bool { return len(addrs(st.Spec.Clusters[n])) > 0 })
	if p.AllDown != "" && p.AllDown != s.OnAllDown.Mode {
		return bad("says %s, the service's on_all_down is %s", p.AllDown, s.OnAllDown.Mode)
	}
	// Only a mode the owner chose answers without a cluster.
	bare := p.AllDown == NoData || p.AllDown == ServFail || p.AllDown == Sorry
	if len(p.Shares) == 0 && possible && !bare {
		return refuse(ErrEmptyRotation, "service %s: rotation %s: must not be empty, %s has an address", service, family, strings.Join(candidates, " or "))
	}
	weight := 0
	var seen []string
	for _, sh := range p.Shares {
		switch {
		case !slices.Contains(candidates, sh.Cluster):
			return bad("%s is no candidate", sh.Cluster)
		case slices.Contains(seen, sh.Cluster):
			return bad("%s is there twice", sh.Cluster)
		case sh.Weight < 0:
			return bad("%s has the weight %d", sh.Cluster, sh.Weight)
		case len(sh.Endpoints) == 0:
			return refuse(ErrEmptyRotation, "service %s: rotation %s: %s has no endpoint", service, family, sh.Cluster)
		}
		seen = append(seen, sh.Cluster)
		weight += sh.Weight
		for i, addr := range sh.Endpoints {
			if !slices.Contains(addrs(st.Spec.Clusters[sh.Cluster]), addr) {
				return bad("%s is no endpoint of %s", addr, sh.Cluster)
			}
			if slices.Contains(sh.Endpoints[:i], addr) {
				return bad("%s is there twice", addr)
			}
		}
		if how == judged && p.AllDown == "" && st.Ownership(service) == nil {
			if err := st.checkShare(service, family, sh); err != nil {
				return err
			}
		}
	}
	if s.Policy.Type == Weighted && len(p.Shares) > 0 && weight == 0 {
		return bad("no cluster has a weight")
	}
	if how == judged && p.AllDown != "" {
		for _, n := range candidates {
			if st.anyIs(health.Up, service, n, addrs) && !st.Clusters[n].Drain.Covers(service) {
				return refuse(ErrStale, "service %s: rotation %s: says %s, but %s is up", service, family, p.AllDown, n)
			}
		}
	}
	return nil
}

// checkShare refuses a share that answers with what is drained or down now.
func (st *State) checkShare(service, family string, sh Share) error {
	if st.Clusters[sh.Cluster].Drain.Covers(service) {
		return refuse(ErrStale, "service %s: rotation %s: %s is drained", service, family, sh.Cluster)
	}
	for _, addr := range sh.Endpoints {
		ts := st.target(health.Target{Service: service, Cluster: sh.Cluster, Endpoint: addr})
		if ts != nil && ts.Verdict.Side == health.Down {
			return refuse(ErrStale, "service %s: rotation %s: %s of %s is down", service, family, addr, sh.Cluster)
		}
	}
	return nil
}

// anyIs reports whether an address of the cluster has that verdict for the service.
func (st *State) anyIs(side health.Side, service, cluster string, addrs func(*Cluster) []netip.Addr) bool {
	return slices.ContainsFunc(addrs(st.Spec.Clusters[cluster]), func(a netip.Addr) bool {
		ts := st.target(health.Target{Service: service, Cluster: cluster, Endpoint: a})
		return ts != nil && ts.Verdict.Side == side
	})
}

// checkFloor refuses a rotation that takes out a cluster that is up and leaves
// fewer serving than the floor. One that is down serves nobody and may go (G11).
func (st *State) checkFloor(ch RotationChange) error {
	floor := max(st.Spec.Safety.MinServingClusters, 1)
	old := st.Services[ch.Service].Rotation
	for _, f := range []struct {
		family    string
		old, next Pool
		addrs     func(*Cluster) []netip.Addr
	}{
		{"v4", old.V4, ch.V4, func(c *Cluster) []netip.Addr { return c.IPv4 }},
		{"v6", old.V6, ch.V6, func(c *Cluster) []netip.Addr { return c.IPv6 }},
	} {
		up := func(cluster string) bool { return st.anyIs(health.Up, ch.Service, cluster, f.addrs) }
		taken := slices.ContainsFunc(f.old.Shares, func(sh Share) bool {
			return !f.next.has(sh.Cluster) && !st.Clusters[sh.Cluster].Drain.Covers(ch.Service) && up(sh.Cluster)
		})
		left := 0
		for _, sh := range f.next.Shares {
			if up(sh.Cluster) {
				left++
			}
		}
		if taken && left < floor {
			return refuse(ErrFloor, "service %s: rotation %s: would take out what is up and leave %d serving, the floor is %d", ch.Service, f.family, left, floor)
		}
	}
	return nil
}

// chargeBudget counts the clusters that automation takes out with this change. A
// cluster lost with all its services is one cause (G11).
func (st *State) chargeBudget(ch RotationChange, at entry) error {
	budget := st.Spec.Safety.Changes
	left, _ := difference(st.Services[ch.Service].Rotation, ch)
	// A drained cluster leaves because a person said so.
	left = slices.DeleteFunc(left, func(n string) bool {
		c, ok := st.Clusters[n]
		return !ok || c.Drain.Covers(ch.Service)
	})
	if len(left) == 0 {
		return nil
	}
	recent := slices.DeleteFunc(slices.Clone(st.Losses), func(l Loss) bool {
		return !at.now.Before(l.At.Add(budget.Per.D())) || slices.Contains(left, l.Cluster)
	})
	if causes := len(recent) + len(left); budget.Causes > 0 && causes > budget.Causes {
		names := make([]string, 0, causes)
		for _, l := range recent {
			names = append(names, l.Cluster)
		}
		return refuse(ErrBudget, "service %s: taking out %s would be %d clusters lost within %s (with %s), the budget is %d; freeze, look, and thaw",
			ch.Service, strings.Join(left, ", "), causes, budget.Per, strings.Join(append(names, left...), ", "), budget.Causes)
	}
	for _, n := range left {
		recent = append(recent, Loss{Cluster: n, At: at.now})
	}
	st.Losses = recent
	return nil
}

// difference returns the clusters that leave a pool, and those that come.
func difference(old Rotation, next RotationChange) (left, joined []string) {
	for _, p := range []struct{ old, next Pool }{{old.V4, next.V4}, {old.V6, next.V6}} {
		for _, sh := range p.old.Shares {
			if !p.next.has(sh.Cluster) {
				left = append(left, sh.Cluster)
			}
		}
		for _, sh := range p.next.Shares {
			if !p.old.has(sh.Cluster) {
				joined = append(joined, sh.Cluster)
			}
		}
	}
	slices.Sort(left)
	slices.Sort(joined)
	return slices.Compact(left), slices.Compact(joined)
}

func (p Pool) has(cluster string) bool {
	return slices.ContainsFunc(p.Shares, func(s Share) bool { return s.Cluster == cluster })
}

// Equal reports whether two pools answer the same.
func (p Pool) Equal(q Pool) bool {
	return p.AllDown == q.AllDown && slices.EqualFunc(p.Shares, q.Shares, func(a, b Share) bool {
		return a.Cluster == b.Cluster && a.Weight == b.Weight && a.Spill == b.Spill && slices.Equal(a.Endpoints, b.Endpoints)
	})
}

// installRotation makes the change the service's next rotation, unless it is
// the current one. It writes to st.Services, which must be the entry's own map.
// prior is the spec resolvers were answered from until now.
func (st *State) installRotation(ch RotationChange, at entry, prior *Spec) (RotationDetail, bool) {
	old := st.Services[ch.Service]
	if old.Rotation.Number > 0 && old.Rotation.V4.Equal(ch.V4) && old.Rotation.V6.Equal(ch.V6) {
		return RotationDetail{}, false
	}
	left, joined := difference(old.Rotation, ch)
	next := *old
	next.Rotation = Rotation{
		Number: old.Rotation.Number + 1, Index: at.index, At: at.now, By: at.meta.Actor, Reason: ch.Reason,
		V4: ch.V4, V6: ch.V6, Clears: at.now,
	}
	if s, ok := prior.Services[ch.Service]; ok && old.Rotation.Number > 0 {
		clears := at.now.Add(max(s.TTL.Normal.D(), s.TTL.Changing.D()))
		next.Rotation.Clears = latest(old.Rotation.Clears, clears)
	}
	st.Services[ch.Service] = &next
	st.TableIndex = at.index
	return RotationDetail{ch.Service, next.Rotation.Number, ch.Reason, ch.V4, ch.V6, left, joined}, true
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// installRotations checks and installs the rotations a person's command carries.
func (st *State) installRotations(changes []RotationChange, at entry, prior *Spec) ([]RotationDetail, error) {
	var details []RotationDetail
	seen := make(map[string]bool, len(changes))
	st.Services = maps.Clone(st.Services)
	for _, ch := range changes {
		if _, ok := st.Services[ch.Service]; !ok {
			return nil, refuse(ErrNotFound, "service %s: not found", ch.Service)
		}
		if seen[ch.Service] {
			return nil, refuse(ErrInvalid, "service %s: has two rotations", ch.Service)
		}
		seen[ch.Service] = true
		if err := st.checkPools(ch, judged); err != nil {
			return nil, err
		}
		if d, changed := st.installRotation(ch, at, prior); changed {
			details = append(details, d)
		}
	}
	return details, nil
}

// text says what the service answers now, in a line.
func (d RotationDetail) text() string {
	var parts []string
	for _, p := range []struct {
		family string
		pool   Pool
	}{{"v4", d.V4}, {"v6", d.V6}} {
		if len(p.pool.Shares) == 0 && p.pool.AllDown == "" {
			continue
		}
		var names []string
		for _, sh := range p.pool.Shares {
			names = append(names, fmt.Sprintf("%s %d", sh.Cluster, sh.Weight))
		}
		if p.pool.AllDown != "" {
			names = append(names, "("+string(p.pool.AllDown)+")")
		}
		parts = append(parts, p.family+" "+strings.Join(names, ", "))
	}
	return fmt.Sprintf("%s answers %s", d.Service, strings.Join(parts, "; "))
}
