package statestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
)

const (
	// defaultRevisions are kept when the spec does not say how many.
	defaultRevisions = 200

	// maxRevisionText bounds the texts of all revisions, and with them the state.
	maxRevisionText = 32 << 20
)

// SpecDetail is Event.Detail of "spec.applied".
type SpecDetail struct {
	Revision  uint64           `json:"revision"`
	Reason    string           `json:"reason,omitempty"`
	Added     []string         `json:"added,omitempty"`   // such as "services/web"
	Removed   []string         `json:"removed,omitempty"` // likewise
	Changed   []string         `json:"changed,omitempty"` // likewise
	Rotations []RotationDetail `json:"rotations,omitempty"`
}

func (c ApplySpec) apply(st *State, at entry) (record, error) {
	if c.Spec == nil {
		return record{}, refuse(ErrInvalid, "spec: must not be missing")
	}
	if c.Base != st.Revision {
		return record{}, refuse(ErrStalePlan, "spec: was planned on revision %d, the current one is %d; plan again", c.Base, st.Revision)
	}
	accepted := c.Spec.filled().declared()
	spec := accepted.WithAddresses(st.Spec)
	if err := sameAddresses(c.Spec, spec); err != nil {
		return record{}, err
	}
	if err := checkSpec(spec); err != nil {
		return record{}, err
	}
	if err := st.checkStateful(spec); err != nil {
		return record{}, err
	}
	prior := *st
	st.Spec = spec
	st.Revision++
	st.Revisions = keepRevisions(st.Revisions, Revision{
		Number: st.Revision, Index: at.index, At: at.now, Author: at.meta.Actor,
		Reason: c.Reason, Source: c.Source, Spec: accepted,
	}, spec.Retention.Revisions)
	st.respec(&prior, at)
	details, err := st.installRotations(c.Rotations, at, prior.Spec)
	if err != nil {
		return record{}, err
	}
	if err := st.standing(); err != nil {
		return record{}, refuse(ErrEmptyRotation, "%s; the apply must carry a rotation for it", err)
	}
	if err := st.checkRemoval(&prior); err != nil {
		return record{}, err
	}
	if err := st.checkAnswered(&prior); err != nil {
		return record{}, err
	}
	st.TableIndex = at.index
	detail := SpecDetail{Revision: st.Revision, Reason: c.Reason, Rotations: details}
	compareSpecs(&detail, prior.Spec, spec)
	return record{
		kind: "spec.applied", subject: "config", detail: detail,
		text: withReason(fmt.Sprintf("revision %d applied: %s", st.Revision, detail.summary()), c.Reason),
	}, nil
}

// filled returns a copy in which every map that is written to by name exists.
func (sp *Spec) filled() *Spec {
	next := *sp
	fill(&next.Zones)
	fill(&next.Clusters)
	fill(&next.Services)
	if len(next.Access.Roles) == 0 {
		next.Access.Roles = BuiltinRoles()
	}
	return &next
}

// keepRevisions appends r and forgets the oldest over limit, and over
// maxRevisionText.
func keepRevisions(old []Revision, r Revision, limit int) []Revision {
	if limit <= 0 {
		limit = defaultRevisions
	}
	next := append(slices.Clone(old), r)
	first, text := len(next)-1, len(r.Source)
	for first > 0 && len(next)-first < limit && text+len(next[first-1].Source) <= maxRevisionText {
		first--
		text += len(next[first].Source)
	}
	return slices.Clone(next[first:])
}

// respec makes the running side fit the new spec: services, clusters and targets
// come and go, and a target keeps its votes and verdict unless it is probed in
// another way from now on.
func (st *State) respec(prior *State, at entry) {
	doors := make(map[string]bool, len(st.Spec.Clusters))
	for name := range st.Spec.Clusters {
		doors[name] = sameDoor(prior.Spec, st.Spec, name)
	}
	services := make(map[string]*ServiceState, len(st.Spec.Services))
	for _, name := range sortedKeys(st.Spec.Services) {
		next := &ServiceState{Targets: map[health.Target]*TargetState{}}
		old, existed := prior.Services[name]
		if existed {
			next.Rotation, next.Ownership = old.Rotation, old.Ownership
			next.Override = old.Override.under(st.Spec, name)
		}
		if s := st.Spec.Services[name].Stateful; s != nil && next.Ownership == nil {
			side, certain := st.FirstSide(st.Spec, name)
			next.Ownership = &Ownership{
				Active: side, Epoch: st.nextEpoch(name), Generation: st.Generation, Since: at.now, Index: at.index, Unconfirmed: !certain,
			}
			st.Sides = without(st.Sides, name)
		}
		same := existed && sameChecks(prior.Spec, st.Spec, name)
		for _, t := range st.Spec.ServiceTargets(name) {
			var was *TargetState
			if existed {
				was = old.Targets[t]
			}
			next.Targets[t] = carry(was, same && doors[t.Cluster] && sameHost(prior.Spec, st.Spec, name, t.Cluster), at)
		}
		services[name] = next
	}
	for _, name := range sortedKeys(prior.Services) {
		if own := prior.Services[name].Ownership; own != nil && services[name] == nil {
			st.Sides = with(st.Sides, name, own.Active)
		}
	}
	clusters := make(map[string]*ClusterState, len(st.Spec.Clusters))
	for name := range st.Spec.Clusters {
		next := &ClusterState{}
		old, existed := prior.Clusters[name]
		if existed {
			if sameReport(prior.Spec.Clusters[name], st.Spec.Clusters[name]) {
				next.Reported = old.Reported
			}
			next.Drain, next.DrainVersion = old.Drain.among(st.Spec.Services), old.DrainVersion
			if next.Drain != old.Drain {
				st.Versions++
				next.DrainVersion = st.Versions
			}
		}
		if targets := st.Spec.frontDoors(name); len(targets) > 0 {
			next.Targets = map[health.Target]*TargetState{}
			for _, t := range targets {
				var was *TargetState
				if existed {
					was = old.Targets[t]
				}
				next.Targets[t] = carry(was, doors[name], at)
			}
		}
		clusters[name] = next
	}
	st.Services, st.Clusters = services, clusters
	for _, name := range sortedKeys(st.Freezes) {
		if _, ok := services[name]; !ok && name != "" {
			st.Freezes = without(st.Freezes, name)
		}
	}
	var losses []Loss
	for _, l := range st.Losses {
		if _, ok := clusters[l.Cluster]; ok {
			losses = append(losses, l)
		}
	}
	st.Losses = losses
	st.forgetLatency()
	for _, name := range sortedKeys(st.Delivered) {
		if st.Spec.Notify.Receivers[name] == nil {
			st.Delivered = without(st.Delivered, name)
		}
	}
}

// among returns the drain as it stands for the services that are left. One that
// named only services that are gone ends: an empty list would mean all.
func (d *Drain) among(services map[string]*Service) *Drain {
	if d == nil || len(d.Services) == 0 {
		return d
	}
	left := slices.DeleteFunc(slices.Clone(d.Services), func(name string) bool {
		_, ok := services[name]
		return !ok
	})
	switch len(left) {
	case len(d.Services):
		return d
	case 0:
		return nil
	}
	next := *d
	next.Services = left
	return &next
}

// under returns the pin as it stands under the spec. One ends with its cluster's
// candidacy, and with the service's being stateless.
func (o *Override) under(sp *Spec, service string) *Override {
	if o == nil || sp.Services[service].Stateful != nil || !slices.Contains(sp.Candidates(service), o.Cluster) {
		return nil
	}
	return o
}

// carry returns a target's state under the new spec. Verdict numbers go on.
func carry(was *TargetState, same bool, at entry) *TargetState {
	switch {
	case was == nil:
		return &TargetState{Votes: map[health.ObserverID]health.Vote{}}
	case same:
		return was
	case was.Verdict.Number == 0:
		return &TargetState{Votes: map[health.ObserverID]health.Vote{}}
	}
	return &TargetState{
		Votes:   map[health.ObserverID]health.Vote{},
		Verdict: health.Verdict{Number: was.Verdict.Number + 1, Since: at.now, Index: at.index},
	}
}

// sameDoor reports whether a cluster is there under both specs, with the same
// front-door check.
func sameDoor(a, b *Spec, cluster string) bool {
	ca, cb := a.Clusters[cluster], b.Clusters[cluster]
	return ca != nil && cb != nil && (ca == cb || sameJSON(ca.Check, cb.Check))
}

// sameChecks reports whether a service is there under both specs and probed the
// same way.
func sameChecks(a, b *Spec, service string) bool {
	sa, sb := a.Services[service], b.Services[service]
	if sa == nil || sb == nil || sa.Zone != sb.Zone {
		return false
	}
	if sa == sb {
		return true // of the same spec, but for addresses
	}
	// The first name is what "{service}" stands for in a check.
	return slices.Equal(sa.Names[:min(1, len(sa.Names))], sb.Names[:min(1, len(sb.Names))]) && sameJSON(sa.Checks, sb.Checks)
}

// sameHost reports whether a cluster is probed under the same name for the service.
func sameHost(a, b *Spec, service, cluster string) bool {
	host := func(sp *Spec) string {
		if o := sp.Services[service].Overrides[cluster]; o != nil {
			return o.Host
		}
		return ""
	}
	return host(a) == host(b)
}

// sameReport reports whether a cluster's capacity is reported the same way, so that
// the last report still says what it said.
func sameReport(a, b *Cluster) bool {
	if a.CapacityFrom == nil || b.CapacityFrom == nil {
		return false
	}
	// A part of the declared capacity is another number when that one is.
	return a.Capacity == b.Capacity && sameJSON(a.CapacityFrom.HTTP, b.CapacityFrom.HTTP) &&
		sameJSON(a.CapacityFrom.Prometheus, b.CapacityFrom.Prometheus)
}

// sameJSON compares plain data by its encoding.
func sameJSON(a, b any) bool {
	ja, errA := json.Marshal(a)
	jb, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(ja, jb)
}

// standing returns an error for the first service that is left with a rotation that
// does not stand under the spec, or without one (G5).
func (st *State) standing() error {
	for _, name := range sortedKeys(st.Services) {
		r := st.Services[name].Rotation
		if err := st.checkPools(RotationChange{Service: name, V4: r.V4, V6: r.V6}, structural); err != nil {
			return err
		}
	}
	return nil
}

// checkRemoval refuses to take a cluster away from a service that would then be
// below the floor; it names all of them.
func (st *State) checkRemoval(prior *State) error {
	floor := st.Spec.Safety.MinServingClusters
	var broken []string
	for _, name := range sortedKeys(st.Services) {
		old, existed := prior.Services[name]
		if !existed {
			continue
		}
		serving := st.Serving(name)
		if len(serving) >= floor {
			continue
		}
		candidates := st.Spec.Candidates(name)
		was := prior.Serving(name)
		for _, cluster := range prior.Spec.Candidates(name) {
			// A cluster under another hostname has no address until that is resolved.
			if slices.Contains(candidates, cluster) && len(st.Spec.Clusters[cluster].Endpoints()) > 0 {
				continue
			}
			if slices.Contains(was, cluster) || old.Rotation.answersFrom(cluster) {
				broken = append(broken, fmt.Sprintf("%s would lose %s and be served by %d, the floor is %d (first: quorate drain %s)",
					name, cluster, len(serving), floor, cluster))
			}
		}
	}
	if len(broken) > 0 {
		return refuse(ErrFloor, "min_serving_clusters: %s", strings.Join(broken, "; "))
	}
	return nil
}

// checkAnswered refuses to leave a service that answers with nothing to answer, which
// a change of hostnames could: they have no address before they are resolved (G5).
func (st *State) checkAnswered(prior *State) error {
	var broken []string
	for _, name := range sortedKeys(st.Services) {
		old, existed := prior.Services[name]
		if !existed || len(old.Rotation.V4.Shares)+len(old.Rotation.V6.Shares) == 0 {
			continue
		}
		if len(st.Spec.ServiceTargets(name)) == 0 {
			broken = append(broken, fmt.Sprintf("%s would have no address until a hostname is resolved; add a cluster under the new hostname first", name))
		}
	}
	if len(broken) > 0 {
		return refuse(ErrEmptyRotation, "clusters: %s", strings.Join(broken, "; "))
	}
	return nil
}

// compareSpecs lists what came, went and changed, each sorted.
func compareSpecs(d *SpecDetail, a, b *Spec) {
	compareMaps(d, "clusters", a.Clusters, b.Clusters)
	compareMaps(d, "services", a.Services, b.Services)
	compareMaps(d, "zones", a.Zones, b.Zones)
	compareMaps(d, "regions", a.Regions, b.Regions)
	for _, part := range []struct {
		name string
		a, b any
	}{{"safety", a.Safety, b.Safety}, {"access", a.Access, b.Access}, {"retention", a.Retention, b.Retention}, {"notify", a.Notify, b.Notify}} {
		if !sameJSON(part.a, part.b) {
			d.Changed = append(d.Changed, part.name)
		}
	}
}

func compareMaps[V any](d *SpecDetail, kind string, a, b map[string]*V) {
	for _, name := range sortedKeys(a) {
		v, ok := b[name]
		switch {
		case !ok:
			d.Removed = append(d.Removed, kind+"/"+name)
		case !sameJSON(a[name], v):
			d.Changed = append(d.Changed, kind+"/"+name)
		}
	}
	for _, name := range sortedKeys(b) {
		if _, ok := a[name]; !ok {
			d.Added = append(d.Added, kind+"/"+name)
		}
	}
}

func (d SpecDetail) summary() string {
	return fmt.Sprintf("%d added, %d changed, %d removed", len(d.Added), len(d.Changed), len(d.Removed))
}
