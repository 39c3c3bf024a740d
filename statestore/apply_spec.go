package statestore

import (
	"fmt"
	"slices"
	"strings"
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

// standing returns why a rotation does not stand under the spec, for the first
// service that has such a one.
func (st *State) standing() error {
	for _, name := range sortedKeys(st.Services) {
		if err := st.Stands(name); err != nil {
			return err
		}
	}
	return nil
}

// Stands returns why the service's rotation does not stand under the spec: it names
// what is not there, or nothing (G5). Nil: it stands.
func (st *State) Stands(service string) error {
	r := st.Services[service].Rotation
	return st.checkPools(RotationChange{Service: service, V4: r.V4, V6: r.V6}, structural)
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
		if !Same(part.a, part.b) {
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
		case !Same(a[name], v):
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
