package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// pinOf returns the pin of a stateless service; nil when there is none.
func (v view) pinOf(service string) *statestore.Override {
	svc := v.spec.Services[service]
	if svc == nil || svc.Stateful != nil {
		return nil
	}
	if o, overlaid := v.pins[service]; overlaid {
		return o
	}
	if ss := v.st.Services[service]; ss != nil {
		return ss.Override
	}
	return nil
}

// pinShares returns the pinned cluster's endpoints of a family that are up, as the
// one share of a pool. None when nothing is pinned, and when the pin has to yield: a
// person's decision never beats a verdict, nor a drain.
func (v view) pinShares(service string, family func(netip.Addr) bool) []statestore.Share {
	pin := v.pinOf(service)
	if pin == nil || v.drained(pin.Cluster, service) || !slices.Contains(v.spec.Candidates(service), pin.Cluster) {
		return nil
	}
	return v.shares([]string{pin.Cluster}, map[string]int{pin.Cluster: 1}, func(c string, a netip.Addr) bool {
		return family(a) && v.verdict(health.Target{Service: service, Cluster: c, Endpoint: a}).Side == health.Up
	})
}

// held reports whether a pin decides what the service answers in either family.
func (v view) held(service string) bool {
	return len(v.pinShares(service, netip.Addr.IsValid)) > 0
}

// pinEnds says why the service's pin does not outlive the view's spec; empty when it
// does, and when there is none.
func (v view) pinEnds(service string) string {
	svc, ss := v.spec.Services[service], v.st.Services[service]
	switch {
	case v.spec == v.st.Spec || svc == nil || ss == nil || ss.Override == nil:
		return ""
	case svc.Stateful != nil:
		return "the service becomes stateful"
	case !slices.Contains(v.spec.Candidates(service), ss.Override.Cluster):
		return ss.Override.Cluster + " is no candidate any more"
	}
	return ""
}

// pinYields says why the service's pin has no effect now; empty when it has, and
// when there is none.
func (v view) pinYields(service string) string {
	pin := v.pinOf(service)
	switch {
	case pin == nil || v.held(service):
		return ""
	case !slices.Contains(v.spec.Candidates(service), pin.Cluster):
		return pin.Cluster + " is no candidate any more"
	case v.drained(pin.Cluster, service):
		return pin.Cluster + " is drained"
	}
	return pin.Cluster + " is " + v.sideOf(service, pin.Cluster).String()
}

// sideOf returns what the verdicts on the cluster's endpoints say for the service.
func (v view) sideOf(service, cluster string) health.Side {
	st := *v.st
	st.Spec = v.spec
	return st.SideOf(service, cluster)
}

// OverrideNote says why the pin of a service has no effect now, such as "us is
// down"; empty when it has one, or when the service is not pinned.
func OverrideNote(st *statestore.State, service string) string {
	return view{st: st, spec: st.Spec}.pinYields(service)
}

// CheckOverride returns every rule that forbids pinning the service to the cluster.
// None can be waived: a pin to what does not answer would be an outage with a name.
func CheckOverride(st *statestore.State, service, cluster string) []Blocker {
	var blockers []Blocker
	block := func(rule, format string, args ...any) {
		blockers = append(blockers, Blocker{Rule: rule, Reason: fmt.Sprintf(format, args...)})
	}
	svc := st.Spec.Services[service]
	if svc == nil {
		block(RuleUnknownService, "there is no service %s", service)
	}
	if st.Spec.Clusters[cluster] == nil {
		block(RuleUnknownCluster, "there is no cluster %s", cluster)
	}
	if len(blockers) > 0 {
		return blockers
	}
	if svc.Stateful != nil {
		block(RuleOverrideStateful, "%s is stateful and moves by a cutover only: quorate cutover propose %s --to %s --planned", service, service, cluster)
		return blockers
	}
	candidates := st.Spec.Candidates(service)
	if !slices.Contains(candidates, cluster) {
		block(RuleOverrideCandidate, "%s is no candidate of %s; its candidates are %s", cluster, service, strings.Join(candidates, ", "))
		return blockers
	}
	v := view{st: st, spec: st.Spec}
	if v.drained(cluster, service) {
		block(RuleOverrideDrained, "%s is drained for %s; bring it back first: quorate undrain %s", cluster, service, cluster)
	}
	if side := v.sideOf(service, cluster); side != health.Up {
		block(RuleOverrideUp, "%s has no endpoint that is up for %s, it is %s", cluster, service, side)
	}
	return blockers
}

// OverrideRotations returns the rotations that OverrideService has to carry.
func OverrideRotations(st *statestore.State, service, cluster string) []statestore.RotationChange {
	return pinnedView(st, service, cluster).changed(service)
}

// ClearOverrideRotations returns the rotations that ClearOverride has to carry.
func ClearOverrideRotations(st *statestore.State, service string) []statestore.RotationChange {
	return unpinnedView(st, service).changed(service)
}

// OverrideImpact returns what pinning the service to the cluster does to its answers.
func OverrideImpact(st *statestore.State, service, cluster string) []Impact {
	if st.Spec.Services[service] == nil || st.Spec.Clusters[cluster] == nil {
		return nil
	}
	return pinnedView(st, service, cluster).impacts([]string{service})
}

// ClearOverrideImpact returns what ending the service's pin does to its answers.
func ClearOverrideImpact(st *statestore.State, service string) []Impact {
	if st.Spec.Services[service] == nil {
		return nil
	}
	return unpinnedView(st, service).impacts([]string{service})
}

func pinnedView(st *statestore.State, service, cluster string) view {
	pin := &statestore.Override{Cluster: cluster, At: st.Now, By: "a person", Reason: "as asked"}
	return view{st: st, spec: st.Spec, pins: map[string]*statestore.Override{service: pin}}
}

func unpinnedView(st *statestore.State, service string) view {
	return view{st: st, spec: st.Spec, pins: map[string]*statestore.Override{service: nil}}
}

// changed returns the service's rotation where it is another than that in force.
func (v view) changed(service string) []statestore.RotationChange {
	if v.spec.Services[service] == nil {
		return nil
	}
	rc := v.rotation(service)
	if sameRotation(rc, v.last(service)) {
		return nil
	}
	if pin, overlaid := v.pins[service]; overlaid {
		rc.Reason = "the pin has ended"
		if pin != nil {
			rc.Reason = "pinned to " + pin.Cluster
		}
	}
	return []statestore.RotationChange{rc}
}
