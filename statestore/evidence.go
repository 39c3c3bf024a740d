package statestore

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
)

// SideOf returns the side of a cluster for a service: up when one of its
// endpoints is up, down when it has endpoints and all of them are down.
func (st *State) SideOf(service, cluster string) health.Side {
	c, ok := st.Spec.Clusters[cluster]
	if !ok {
		return health.Unknown
	}
	side := health.Down
	for _, addr := range c.Endpoints() {
		ts := st.target(health.Target{Service: service, Cluster: cluster, Endpoint: addr})
		switch {
		case ts == nil || ts.Verdict.Side == health.Unknown:
			side = health.Unknown
		case ts.Verdict.Side == health.Up:
			return health.Up
		}
	}
	if len(c.Endpoints()) == 0 {
		return health.Unknown
	}
	return side
}

// UpSince returns since when, in log time, the cluster has been up for the
// service: since its first endpoint that is up turned so. Not ok: none is up.
func (st *State) UpSince(service, cluster string) (since time.Time, ok bool) {
	for t, ts := range st.serviceTargets(service) {
		if t.Cluster == cluster && ts.Verdict.Side == health.Up && (!ok || ts.Verdict.Since.Before(since)) {
			since, ok = ts.Verdict.Since, true
		}
	}
	return since, ok
}

func (st *State) serviceTargets(service string) map[health.Target]*TargetState {
	if s, ok := st.Services[service]; ok {
		return s.Targets
	}
	return nil
}

// Unacknowledged returns the members that cannot be expected to acknowledge,
// sorted: those that observe and whose observer is silent or was never heard. One
// that is only set aside by an election still counts as reachable, so that a new
// leader alone voids no signature; the leader records its silence soon enough.
func (st *State) Unacknowledged() []string {
	names := []string{}
	for _, name := range sortedKeys(st.Members) {
		if !st.Members[name].Observes {
			continue
		}
		if o := st.Observers[health.ObserverID(name)]; o == nil || o.Silent {
			names = append(names, name)
		}
	}
	return names
}

// Facts returns what of the evidence the state itself knows, without gates, of
// moving the service to that cluster. The error is a Refusal that says why it
// cannot go there at all.
func (st *State) Facts(service string, kind CutoverKind, to string) (Evidence, error) {
	s, ok := st.Services[service]
	spec := st.Spec.Services[service]
	switch {
	case !ok || spec == nil:
		return Evidence{}, refuse(ErrNotFound, "service %s: not found", service)
	case spec.Stateful == nil || s.Ownership == nil:
		return Evidence{}, refuse(ErrInvalid, "service %s: is stateless and moves by itself; drain a cluster instead", service)
	case len(Gates(kind)) == 0:
		return Evidence{}, refuse(ErrInvalid, "service %s: a cutover is planned, emergency or failback, not %q", service, kind)
	case s.Ownership.Unconfirmed:
		return Evidence{}, refuseUnconfirmed(service)
	case to == s.Ownership.Active:
		return Evidence{}, refuse(ErrInvalid, "service %s: is on %s already", service, to)
	case !slices.Contains(st.Spec.Candidates(service), to):
		return Evidence{}, refuse(ErrInvalid, "service %s: %q is none of its clusters (%s)", service, to, list(st.Spec.Candidates(service)))
	case kind == Back && to != spec.Stateful.Preferred:
		return Evidence{}, refuse(ErrInvalid, "service %s: a failback goes to the preferred side %s, not to %s; propose a planned cutover", service, spec.Stateful.Preferred, to)
	}
	return Evidence{
		Service: service, Kind: kind, Source: s.Ownership.Active, Destination: to,
		Epoch: s.Ownership.Epoch, Generation: st.Generation,
		SourceSide: st.SideOf(service, s.Ownership.Active), DestinationSide: st.SideOf(service, to),
		Spec: st.Spec.ServiceDigest(service), Gates: []GateResult{}, Unacknowledged: st.Unacknowledged(),
	}, nil
}

// Gates returns the gates of a cutover of that kind, in order; none for a kind
// there is not.
func Gates(kind CutoverKind) []Gate {
	common := []Gate{GateDestination, GateLag, GateFenced, GateNodesAcknowledged}
	rest := []Gate{GateNoOther, GateNotFrozen, GateCooldown}
	switch kind {
	case Emergency:
		return slices.Concat([]Gate{GateSourceDown}, common, rest)
	case Planned:
		return slices.Concat(common, rest)
	case Back:
		return slices.Concat(common, []Gate{GateResync}, rest)
	}
	return nil
}

// Digest names the evidence: the first eight bytes of the SHA-256 of its JSON, in
// four groups.
func (e Evidence) Digest() string {
	data, err := json.Marshal(e.normal())
	if err != nil {
		return "" // Plain data always encodes, and no cutover has the empty digest.
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x-%x-%x-%x", sum[0:2], sum[2:4], sum[4:6], sum[6:8])
}

// normal returns the evidence with its lists present, so that an absent one and
// an empty one are the same evidence.
func (e Evidence) normal() Evidence {
	e.Gates = append([]GateResult{}, e.Gates...)
	e.Unacknowledged = append([]string{}, e.Unacknowledged...)
	return e
}

// Class returns the class of a gate; empty when the kind has no such gate.
func (e Evidence) Class(g Gate) GateClass {
	for _, r := range e.Gates {
		if r.Gate == g {
			return r.Class
		}
	}
	return ""
}

// Differences says in words what is another in next than in e, in the order in
// which evidence is shown; empty when nothing is.
func (e Evidence) Differences(next Evidence) []string {
	var out []string
	note := func(what, was, is string) {
		if was != is {
			out = append(out, fmt.Sprintf("%s: was %s, is %s", what, was, is))
		}
	}
	note("service", e.Service, next.Service)
	note("kind", string(e.Kind), string(next.Kind))
	note("source", e.Source, next.Source)
	note("destination", e.Destination, next.Destination)
	note("epoch", fmt.Sprint(e.Epoch), fmt.Sprint(next.Epoch))
	note("generation", fmt.Sprint(e.Generation), fmt.Sprint(next.Generation))
	note("source side", e.SourceSide.String(), next.SourceSide.String())
	note("destination side", e.DestinationSide.String(), next.DestinationSide.String())
	if e.Spec != next.Spec {
		out = append(out, "the service's effective spec was changed")
	}
	for _, g := range next.Gates {
		note(string(g.Gate), orNone(string(e.Class(g.Gate))), string(g.Class))
	}
	note("members that cannot acknowledge", orNone(strings.Join(e.Unacknowledged, ", ")), orNone(strings.Join(next.Unacknowledged, ", ")))
	return out
}

// sameFacts returns what differs between the evidence and what the state knows.
func (e Evidence) sameFacts(facts Evidence) []string {
	facts.Gates = e.Gates
	return e.Differences(facts)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func list(names []string) string { return orNone(strings.Join(names, ", ")) }

// refuseUnconfirmed says what a service wants first whose active side a recovery,
// or a removal, has left in doubt.
func refuseUnconfirmed(service string) error {
	return refuse(ErrUnconfirmed, "service %s: its active side is not confirmed; name it with: quorate thaw %s --active CLUSTER", service, service)
}
