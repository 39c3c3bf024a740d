package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// cutovers returns what automation does next about stateful services: propose
// where the active side is gone, and walk what is open. Each service gets one step
// a plan, since a step changes what the next one rests on.
func cutovers(st *statestore.State, waits Waits) []Proposal {
	var plan []Proposal
	for _, service := range sortedKeys(st.Services) {
		own := st.Services[service].Ownership
		if own == nil || st.Spec.Services[service] == nil || st.Spec.Services[service].Stateful == nil {
			continue
		}
		var cmd statestore.Command
		var reason string
		if co := st.Cutovers[own.Open]; co != nil {
			cmd, reason = step(st, co, waits)
		} else {
			cmd, reason = propose(st, service, own, waits)
		}
		if cmd != nil {
			plan = append(plan, Proposal{Subject: "services/" + service, Reason: reason, Command: cmd})
		}
	}
	return plan
}

// Unwell returns the stateful services whose active side is down, contested or
// unobserved, sorted: those that a proposal would be about if it lasts.
func Unwell(st *statestore.State) []string {
	var services []string
	for _, service := range sortedKeys(st.Services) {
		if own := st.Services[service].Ownership; own != nil && !own.Unconfirmed && unwell(st, service, own.Active) {
			services = append(services, service)
		}
	}
	return services
}

// unwell reports whether a quorum holds the cluster to be down, or no quorum holds
// it to be up. One that waits for its first verdict, or for that of a changed
// check, is not unwell: nobody has said anything about it yet.
func unwell(st *statestore.State, service, cluster string) bool {
	v, _, ok := tellingTarget(st, service, cluster)
	return ok && (v.Side == health.Down || v.Mark != health.Settled)
}

// propose returns the emergency that automation proposes by itself, or nil.
func propose(st *statestore.State, service string, own *statestore.Ownership, waits Waits) (statestore.Command, string) {
	stateful := st.Spec.Services[service].Stateful
	waited, waiting := waits.Down[service]
	if !waiting || waited < stateful.ProposeAfter.D() || own.Unconfirmed || !unwell(st, service, own.Active) {
		return nil, ""
	}
	if _, frozen := st.Frozen(service); frozen {
		return nil, ""
	}
	m := Move{Service: service, Kind: statestore.Emergency, Waited: waited}
	cmd, gates, blockers := Propose(st, m, statestore.Signer{})
	if len(blockers) > 0 || denied(st, service, own, stateful.Cooldown.D()) {
		return nil, ""
	}
	for _, g := range gates {
		if g.Name == statestore.GateCooldown && g.Class != statestore.Clean {
			return nil, ""
		}
		if g.Name == statestore.GateSourceDown {
			cmd.Reason = g.Why
		}
	}
	return cmd, cmd.Reason
}

// denied reports whether people have said no lately, and nothing has happened
// since: asking again at once would only teach them to click.
func denied(st *statestore.State, service string, own *statestore.Ownership, pause time.Duration) bool {
	last := st.LastCutover(service, func(*statestore.Cutover) bool { return true })
	if last == nil || last.Phase != statestore.Rejected && last.Phase != statestore.Aborted || st.Now.Sub(last.Decided) >= pause {
		return false
	}
	at, _, ok := tellingTarget(st, service, own.Active)
	return ok && !at.Since.After(last.Decided)
}

// step returns what automation does next with an open cutover, or nil.
func step(st *statestore.State, co *statestore.Cutover, waits Waits) (statestore.Command, string) {
	if co.Phase == statestore.Fencing {
		return publish(st, co, waits.Acknowledged[co.ID])
	}
	if !st.Now.Before(co.Expires) {
		reason := fmt.Sprintf("%s was not decided until %s", co.ID, co.Expires.UTC().Format(time.RFC3339))
		return statestore.CloseCutover{ID: co.ID, Version: co.Version, As: statestore.Expired, Reason: reason}, reason
	}
	if reason := st.CauseGone(co); reason != "" {
		return statestore.CloseCutover{ID: co.ID, Version: co.Version, As: statestore.Withdrawn, Reason: reason}, reason
	}
	evidence := Evidence(st, MoveOf(co))
	switch {
	case evidence.Digest() != co.Digest:
		return statestore.ReviseCutover{ID: co.ID, Version: co.Version, Evidence: evidence, Basis: st.Basis(co.Service)},
			"the evidence changed: " + strings.Join(co.Evidence.Differences(evidence), "; ")
	case co.Phase == statestore.Approved && st.Count(co).Approved() && !missing(waits.Unheard, co.Evidence.Unacknowledged):
		return statestore.BeginCutover{ID: co.ID, Version: co.Version, Evidence: evidence, Basis: st.Basis(co.Service)},
			co.ID + " is approved"
	}
	remind := st.Spec.Services[co.Service].Stateful.Approval.Remind
	if co.Reminded < len(remind) && st.Now.Sub(co.At) >= remind[co.Reminded].D() {
		return statestore.RemindCutover{ID: co.ID, Number: co.Reminded + 1}, co.ID + " still waits for people"
	}
	return nil, ""
}

// missing reports whether a member that was not heard lately is none of those
// that people know of.
func missing(unheard, known []string) bool {
	return slices.ContainsFunc(unheard, func(m string) bool { return !slices.Contains(known, m) })
}

// publish returns the command that makes the destination active, once nobody
// answers with the source any more and the destination is still as it was signed,
// or waived since.
func publish(st *statestore.State, co *statestore.Cutover, acknowledged []string) (statestore.Command, string) {
	if len(st.Waiting(co, acknowledged)) > 0 || Stuck(st, co) != "" {
		return nil, ""
	}
	members := slices.DeleteFunc(slices.Clone(acknowledged), func(m string) bool { return st.Members[m] == nil })
	slices.Sort(members)
	return statestore.PublishCutover{
		ID: co.ID, Version: co.Version, Acknowledged: slices.Compact(members),
		Rotation: ActiveRotation(st, co.Service, co.Destination),
	}, fmt.Sprintf("nobody answers %s with %s any more", co.Service, co.Source)
}

// Stuck says why a cutover that is under way cannot be published although every
// member has acknowledged: the destination is worse than people signed. It is
// empty when nothing but members is waited for.
func Stuck(st *statestore.State, co *statestore.Cutover) string {
	if co.Phase != statestore.Fencing {
		return ""
	}
	for _, g := range Gates(st, co) {
		if g.Name == statestore.GateDestination && !st.DestinationHolds(co) {
			return g.Why
		}
	}
	return ""
}

// ActiveRotation returns the rotation of a stateful service while the cluster is
// active: PublishCutover and ConfirmActive carry it.
func ActiveRotation(st *statestore.State, service, cluster string) statestore.RotationChange {
	rc := view{st: st, spec: st.Spec}.activeRotation(service, cluster)
	rc.Reason = cluster + " is active"
	return rc
}
