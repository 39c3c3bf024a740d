package statestore

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
)

// OverrideDetail is Event.Detail of "service.overridden" and
// "service.override_ended".
type OverrideDetail struct {
	Cluster   string           `json:"cluster"`
	Until     *time.Time       `json:"until,omitempty"`
	Expired   bool             `json:"expired,omitempty"` // it ended by itself
	Reason    string           `json:"reason"`
	Rotations []RotationDetail `json:"rotations,omitempty"`
}

func (c OverrideService) apply(st *State, at entry) (record, error) {
	if err := st.checkOverride(c); err != nil {
		return record{}, err
	}
	st.Versions++
	pin := &Override{
		Cluster: c.Cluster, By: at.meta.Actor, Reason: c.Reason,
		At: at.now, Until: until(at.now, c.For), Version: st.Versions,
	}
	st.setOverride(c.Service, pin, at)
	details, err := st.installRotations(c.Rotations, at, st.Spec)
	if err != nil {
		return record{}, err
	}
	// The pin must be what is answered with this very entry.
	r := st.Services[c.Service].Rotation
	if err := st.checkPin(RotationChange{Service: c.Service, V4: r.V4, V6: r.V6}); err != nil {
		return record{}, refuse(ErrStale, "%s; plan the override again", err)
	}
	return record{
		kind: "service.overridden", subject: "services/" + c.Service,
		text:   fmt.Sprintf("%s pinned to %s: %s", c.Service, c.Cluster, c.Reason),
		detail: OverrideDetail{Cluster: c.Cluster, Until: timeOrNil(pin.Until), Reason: c.Reason, Rotations: details},
	}, nil
}

// checkOverride refuses a pin of what cannot be pinned, or to what cannot answer.
func (st *State) checkOverride(c OverrideService) error {
	s, ok := st.Services[c.Service]
	switch {
	case !ok:
		return refuse(ErrNotFound, "service %s: not found", c.Service)
	case s.Ownership != nil:
		return refuse(ErrStateful, "service %s: is stateful and cannot be pinned; move it: quorate cutover propose %s", c.Service, c.Service)
	case c.Reason == "":
		return refuse(ErrInvalid, "service %s: an override must have a reason", c.Service)
	case c.For < 0:
		return refuse(ErrInvalid, "service %s: an override must not last %s", c.Service, c.For)
	}
	state, ok := st.Clusters[c.Cluster]
	switch {
	case !ok:
		return refuse(ErrNotFound, "cluster %s: not found", c.Cluster)
	case !slices.Contains(st.Spec.Candidates(c.Service), c.Cluster):
		return refuse(ErrInvalid, "service %s: %s is no candidate", c.Service, c.Cluster)
	case state.Drain.Covers(c.Service):
		return refuse(ErrStale, "service %s: %s is drained; undrain it first: quorate undrain %s", c.Service, c.Cluster, c.Cluster)
	case st.SideOf(c.Service, c.Cluster) != health.Up:
		return refuse(ErrStale, "service %s: %s is %s; it can be pinned to what is up only", c.Service, c.Cluster, st.SideOf(c.Service, c.Cluster))
	}
	return checkOwnRotations(c.Service, c.Rotations)
}

func (c ClearOverride) apply(st *State, at entry) (record, error) {
	s, ok := st.Services[c.Service]
	switch {
	case !ok:
		return record{}, refuse(ErrNotFound, "service %s: not found", c.Service)
	case s.Override == nil:
		return record{}, refuse(ErrNotFound, "service %s: is not pinned", c.Service)
	case c.Expired && !passed(at.now, s.Override.Until):
		return record{}, refuse(ErrStale, "service %s: its override has not ended yet", c.Service)
	}
	if err := checkOwnRotations(c.Service, c.Rotations); err != nil {
		return record{}, err
	}
	st.setOverride(c.Service, nil, at)
	details, err := st.installRotations(c.Rotations, at, st.Spec)
	if err != nil {
		return record{}, err
	}
	why := c.Reason
	if c.Expired && why == "" {
		why = "its end has come"
	}
	return record{
		kind: "service.override_ended", subject: "services/" + c.Service,
		text:   withReason(fmt.Sprintf("%s not pinned to %s any more", c.Service, s.Override.Cluster), why),
		detail: OverrideDetail{Cluster: s.Override.Cluster, Expired: c.Expired, Reason: c.Reason, Rotations: details},
	}, nil
}

// checkOwnRotations refuses rotations of other services than the one that a command
// is about.
func checkOwnRotations(service string, changes []RotationChange) error {
	for _, ch := range changes {
		if ch.Service != service {
			return refuse(ErrInvalid, "service %s: must not carry a rotation of %s", service, ch.Service)
		}
	}
	return nil
}

// setOverride replaces the service's pin; nil ends it. What explains the answers is
// another then, whether the rotation is or not.
func (st *State) setOverride(service string, o *Override, at entry) {
	next := *st.Services[service]
	next.Override = o
	st.replaceService(service, &next)
	st.TableIndex = at.index
}

// pinned returns the cluster that a person has pinned the service to, while that can
// be kept in the family: it is not drained and has an endpoint up there. Else the
// policy answers in that family, since a pin must not empty an answer (G5). Empty:
// the policy decides.
func (st *State) pinned(service string, addrs func(*Cluster) []netip.Addr) string {
	s, ok := st.Services[service]
	if !ok || s.Override == nil {
		return ""
	}
	cluster := s.Override.Cluster
	if c := st.Clusters[cluster]; c == nil || c.Drain.Covers(service) || !st.anyIs(health.Up, service, cluster, addrs) {
		return ""
	}
	return cluster
}

// checkPin refuses a rotation that undoes a person's pin while it can be kept.
func (st *State) checkPin(ch RotationChange) error {
	for _, f := range families(Rotation{}, ch) {
		pin := st.pinned(ch.Service, f.addrs)
		if pin == "" || f.next.only(pin) {
			continue
		}
		return refuse(ErrStale, "service %s: rotation %s: must name %s and nothing else, %s has pinned it there",
			ch.Service, f.name, pin, st.Services[ch.Service].Override.By)
	}
	return nil
}

// only reports whether the pool answers with that cluster by choice, and no other.
func (p Pool) only(cluster string) bool {
	return p.AllDown == "" && len(p.Shares) == 1 && p.Shares[0].Cluster == cluster
}
