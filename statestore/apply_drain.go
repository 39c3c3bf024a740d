package statestore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
)

// DrainDetail is Event.Detail of "cluster.drained" and "cluster.undrained".
type DrainDetail struct {
	Clusters  []string         `json:"clusters,omitempty"` // where there are several
	Services  []string         `json:"services,omitempty"` // empty: all
	Until     *time.Time       `json:"until,omitempty"`
	Reason    string           `json:"reason"`
	Rotations []RotationDetail `json:"rotations,omitempty"`
}

func (c DrainCluster) apply(st *State, at entry) (record, error) {
	detail, err := st.drain([]string{c.Cluster}, c.Services, c.For, c.Reason, c.Rotations, at)
	if err != nil {
		return record{}, err
	}
	return record{kind: "cluster.drained", subject: "clusters/" + c.Cluster, text: detail.text(c.Cluster), detail: detail}, nil
}

func (c DrainClusters) apply(st *State, at entry) (record, error) {
	if len(c.Clusters) == 0 {
		return record{}, refuse(ErrInvalid, "drain: must name a cluster")
	}
	for i, name := range c.Clusters[1:] {
		if name <= c.Clusters[i] {
			return record{}, refuse(ErrInvalid, "drain: clusters must be sorted and each there once, is %s", strings.Join(c.Clusters, ", "))
		}
	}
	detail, err := st.drain(c.Clusters, c.Services, c.For, c.Reason, c.Rotations, at)
	if err != nil {
		return record{}, err
	}
	detail.Clusters = c.Clusters
	return record{kind: "cluster.drained", subject: "clusters", text: detail.text(strings.Join(c.Clusters, ", ")), detail: detail}, nil
}

func (d DrainDetail) text(clusters string) string {
	of := "all services"
	if len(d.Services) > 0 {
		of = strings.Join(d.Services, ", ")
	}
	return fmt.Sprintf("%s drained of %s: %s", clusters, of, d.Reason)
}

// drain takes the clusters out, judged together, with the rotations that follow.
func (st *State) drain(clusters, of []string, lasts time.Duration, reason string, rotations []RotationChange, at entry) (DrainDetail, error) {
	what := clustersName(clusters)
	for _, name := range clusters {
		if _, ok := st.Clusters[name]; !ok {
			return DrainDetail{}, refuse(ErrNotFound, "cluster %s: not found", name)
		}
	}
	switch {
	case reason == "":
		return DrainDetail{}, refuse(ErrInvalid, "%s: a drain must have a reason", what)
	case lasts < 0:
		return DrainDetail{}, refuse(ErrInvalid, "%s: a drain must not last %s", what, lasts)
	}
	services := slices.Sorted(slices.Values(of))
	services = slices.Compact(services)
	for _, s := range services {
		if _, ok := st.Services[s]; !ok {
			return DrainDetail{}, refuse(ErrNotFound, "service %s: not found", s)
		}
	}
	drain := &Drain{Services: services, By: at.meta.Actor, Reason: reason, At: at.now, Until: until(at.now, lasts)}
	if err := st.checkDrain(clusters, drain); err != nil {
		return DrainDetail{}, err
	}
	for _, name := range clusters {
		st.setDrain(name, st.Clusters[name], drain)
	}
	details, err := st.installRotations(rotations, at, st.Spec)
	if err != nil {
		return DrainDetail{}, err
	}
	// What is drained must be out of every answer with this very entry, but for
	// stateful services: a drain only takes the cluster out as a destination.
	for _, name := range sortedKeys(st.Services) {
		if st.Services[name].Ownership != nil || !drain.Covers(name) {
			continue
		}
		for _, cluster := range clusters {
			if st.Services[name].Rotation.answersFrom(cluster) {
				return DrainDetail{}, refuse(ErrStale, "cluster %s: %s would go on answering with it; plan the drain again", cluster, name)
			}
		}
	}
	return DrainDetail{Services: services, Until: timeOrNil(drain.Until), Reason: reason, Rotations: details}, nil
}

// clustersName names one cluster or several at the head of a refusal.
func clustersName(names []string) string {
	if len(names) == 1 {
		return "cluster " + names[0]
	}
	return "clusters " + strings.Join(names, ", ")
}

// answersFrom reports whether the rotation hands out the cluster by choice: an
// all-down mode may fall back on it.
func (r Rotation) answersFrom(cluster string) bool {
	return r.V4.AllDown == "" && r.V4.has(cluster) || r.V6.AllDown == "" && r.V6.has(cluster)
}

// setDrain replaces the cluster's drain; nil ends it.
func (st *State) setDrain(name string, old *ClusterState, d *Drain) {
	st.Versions++
	next := *old
	next.Drain, next.DrainVersion = d, st.Versions
	st.Clusters = with(st.Clusters, name, &next)
}

// checkDrain counts what would be left without all of the clusters, and names every
// broken rule at once.
func (st *State) checkDrain(clusters []string, drain *Drain) error {
	drained := len(clusters)
	for name, c := range st.Clusters {
		if c.Drain != nil && !slices.Contains(clusters, name) {
			drained++
		}
	}
	limit := st.Spec.Safety.MaxDrained
	var broken []string
	if limit > 0 && drained > limit {
		broken = append(broken, fmt.Sprintf("max_drained: %d clusters would be drained, the limit is %d", drained, limit))
	}
	tooMany := len(broken) > 0
	floor := st.Spec.Safety.MinServingClusters
	for _, name := range sortedKeys(st.Services) {
		if st.Services[name].Ownership != nil || !drain.Covers(name) {
			continue
		}
		candidates, serving := st.Spec.Candidates(name), st.Serving(name)
		was := slices.ContainsFunc(clusters, func(n string) bool {
			return slices.Contains(candidates, n) && (slices.Contains(serving, n) || st.Services[name].Rotation.answersFrom(n))
		})
		left := len(slices.DeleteFunc(serving, func(n string) bool { return slices.Contains(clusters, n) }))
		if was && left < floor {
			broken = append(broken, fmt.Sprintf("min_serving_clusters: %s would be served by %d, the floor is %d", name, left, floor))
		}
	}
	switch {
	case len(broken) == 0:
		return nil
	case tooMany && len(broken) == 1:
		return refuse(ErrMaxDrained, "%s: %s", clustersName(clusters), broken[0])
	}
	return refuse(ErrFloor, "%s: %s", clustersName(clusters), strings.Join(broken, "; "))
}

// Serving returns the clusters that can serve the service now, sorted: its
// candidates that are not drained and have an endpoint that is up. Where none is
// up, those with an endpoint nobody has judged yet: they are what answers then.
func (st *State) Serving(service string) []string {
	var up, unjudged []string
	for _, name := range st.Spec.Candidates(service) {
		c, ok := st.Clusters[name]
		if !ok || c.Drain.Covers(service) {
			continue
		}
		switch {
		case st.anyIs(health.Up, service, name, (*Cluster).Endpoints):
			up = append(up, name)
		case st.anyIs(health.Unknown, service, name, (*Cluster).Endpoints):
			unjudged = append(unjudged, name)
		}
	}
	if len(up) == 0 {
		return unjudged
	}
	return up
}

func (c UndrainCluster) apply(st *State, at entry) (record, error) {
	old, ok := st.Clusters[c.Cluster]
	switch {
	case !ok:
		return record{}, refuse(ErrNotFound, "cluster %s: not found", c.Cluster)
	case old.Drain == nil:
		return record{}, refuse(ErrNotFound, "cluster %s: is not drained", c.Cluster)
	case c.Expired && !passed(at.now, old.Drain.Until):
		return record{}, refuse(ErrStale, "cluster %s: its drain has not ended yet", c.Cluster)
	}
	st.setDrain(c.Cluster, old, nil)
	details, err := st.installRotations(c.Rotations, at, st.Spec)
	if err != nil {
		return record{}, err
	}
	why := c.Reason
	if c.Expired && why == "" {
		why = "its end has come"
	}
	return record{
		kind: "cluster.undrained", subject: "clusters/" + c.Cluster, text: withReason(c.Cluster+" undrained", why),
		detail: DrainDetail{Services: old.Drain.Services, Reason: c.Reason, Rotations: details},
	}, nil
}

func (c FreezeService) apply(st *State, at entry) (record, error) {
	if _, ok := st.Services[c.Service]; !ok && c.Service != "" {
		return record{}, refuse(ErrNotFound, "service %s: not found", c.Service)
	}
	if c.Reason == "" || c.For < 0 {
		return record{}, refuse(ErrInvalid, "%s: a freeze must have a reason, and no negative life", freezeSubject(c.Service))
	}
	st.Versions++
	f := &Freeze{By: at.meta.Actor, Reason: c.Reason, At: at.now, Until: until(at.now, c.For), Version: st.Versions}
	st.Freezes = with(st.Freezes, c.Service, f)
	return record{
		kind: "service.frozen", subject: freezeSubject(c.Service), text: withReason(freezeName(c.Service)+" frozen", c.Reason),
		detail: map[string]any{"until": timeOrNil(f.Until), "reason": c.Reason},
	}, nil
}

func (c ThawService) apply(st *State, at entry) (record, error) {
	f, ok := st.Freezes[c.Service]
	switch {
	case !ok:
		if o := st.Ownership(c.Service); o != nil && o.Unconfirmed {
			return record{}, refuseUnconfirmed(c.Service) // --active was forgotten
		}
		return record{}, refuse(ErrNotFound, "%s: is not frozen", freezeSubject(c.Service))
	case c.Expired && !passed(at.now, f.Until):
		return record{}, refuse(ErrStale, "%s: its freeze has not ended yet", freezeSubject(c.Service))
	}
	st.Freezes = without(st.Freezes, c.Service)
	if c.Service == "" && !c.Expired {
		// A person has looked: with the old causes still counted, automation would
		// freeze again at its next step.
		st.Losses = nil
	}
	return record{
		kind: "service.thawed", subject: freezeSubject(c.Service), text: withReason(freezeName(c.Service)+" thawed", c.Reason),
		detail: map[string]any{"reason": c.Reason, "expired": c.Expired},
	}, nil
}

func freezeSubject(service string) string {
	if service == "" {
		return "installation"
	}
	return "services/" + service
}

func freezeName(service string) string {
	if service == "" {
		return "everything"
	}
	return service
}
