package statestore

import (
	"fmt"
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
	if err := st.checkFrozen(c.Service); err != nil {
		return record{}, err
	}
	if err := st.checkBasis(c.Service, c.Basis); err != nil {
		return record{}, err
	}
	if err := st.checkPools(c.RotationChange, judged); err != nil {
		return record{}, err
	}
	if err := st.checkBounds(c.RotationChange, at); err != nil {
		return record{}, err
	}
	st.renewServices()
	detail, changed := st.installRotation(c.RotationChange, at, st.Spec)
	if !changed {
		return record{}, nil
	}
	return record{
		kind: "rotation.changed", subject: "services/" + c.Service,
		text: withReason(detail.text(), c.Reason), detail: detail,
	}, nil
}

// checkFrozen refuses what automation concludes of a service that a person froze.
func (st *State) checkFrozen(service string) error {
	if f, ok := st.Frozen(service); ok {
		return refuse(ErrFrozen, "service %s: automation is frozen by %s: %s", service, f.By, f.Reason)
	}
	return nil
}

// checkBounds refuses a rotation of automation's that breaks a bound, and charges
// the budget for the others (G11).
func (st *State) checkBounds(ch RotationChange, at entry) error {
	if err := st.checkFloor(ch); err != nil {
		return err
	}
	return st.chargeBudget(ch, at)
}

// family is one address family of a rotation, as it was and as it is to be.
type family struct {
	name      string
	old, next Pool
	addrs     func(*Cluster) []netip.Addr
}

func families(old Rotation, ch RotationChange) []family {
	return []family{{"v4", old.V4, ch.V4, ipv4}, {"v6", old.V6, ch.V6, ipv6}}
}

// checkFloor refuses a rotation that takes out a cluster that is up and leaves
// fewer serving than the floor. One that is down serves nobody and may go (G11).
func (st *State) checkFloor(ch RotationChange) error {
	floor := max(st.Spec.Safety.MinServingClusters, 1)
	old := st.Services[ch.Service].Rotation
	for _, f := range families(old, ch) {
		if st.pinned(ch.Service, f.addrs) != "" {
			continue // A person has narrowed it to one, knowingly.
		}
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
			return refuse(ErrFloor, "service %s: rotation %s: would take out what is up and leave %d serving, the floor is %d", ch.Service, f.name, left, floor)
		}
	}
	return nil
}

// chargeBudget counts the clusters that automation takes out with this change. A
// cluster lost with all its services is one cause (G11).
func (st *State) chargeBudget(ch RotationChange, at entry) error {
	budget := st.Spec.Safety.Changes
	left := st.losses(ch)
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

// losses returns the clusters that automation would take out with the change. What
// is drained leaves because a person said so, and what is left out for a pin too.
func (st *State) losses(ch RotationChange) []string {
	var lost []string
	for _, f := range families(st.Services[ch.Service].Rotation, ch) {
		if st.pinned(ch.Service, f.addrs) != "" {
			continue
		}
		for _, sh := range f.old.Shares {
			if c, ok := st.Clusters[sh.Cluster]; ok && !f.next.has(sh.Cluster) && !c.Drain.Covers(ch.Service) {
				lost = append(lost, sh.Cluster)
			}
		}
	}
	slices.Sort(lost)
	return slices.Compact(lost)
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

// installRotation makes the change the service's next rotation, unless it is
// the current one. The services must be the entry's own (renewServices).
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
		clears := at.now.Add(s.LongestTTL())
		next.Rotation.Clears = latest(old.Rotation.Clears, clears)
	}
	st.putService(ch.Service, &next)
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
	st.renewServices()
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
