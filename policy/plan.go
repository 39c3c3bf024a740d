package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

// Plan returns what automation wants committed now, by kind and subject. An
// empty plan means that nothing is to be done. Time is the state's own log time.
//
// A rotation is proposed where the wanted one differs from the one in force and
// nobody froze the service. When taking clusters out would exceed the change
// budget, the rest of the plan is a freeze: many clusters lost at once is more
// often a fault of the checks than of the clusters, and a person has to look (G11).
//
// Stateful services are moved by nobody here: automation proposes a cutover of one
// whose active side is gone for long enough, and walks those that people approved.
func Plan(st *statestore.State, waits Waits) []Proposal {
	ended, carried := expiries(st)
	return inOrder(ended, rotations(st, carried), cutovers(st, waits))
}

// inOrder joins proposals and sorts them by kind and subject.
func inOrder(parts ...[]Proposal) []Proposal {
	plan := slices.Concat(parts...)
	slices.SortStableFunc(plan, func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(a.Command.Kind(), b.Command.Kind()), strings.Compare(a.Subject, b.Subject))
	})
	return plan
}

// expiries returns the ends of drains, overrides and freezes whose time is over, and
// the services whose rotations those ends carry.
func expiries(st *statestore.State) (plan []Proposal, carried map[string]bool) {
	carried = map[string]bool{}
	// A freeze holds answers still, and losses must pass the budget: such
	// rotations follow by themselves, when they may.
	carry := func(changes []statestore.RotationChange) []statestore.RotationChange {
		kept := slices.DeleteFunc(changes, func(rc statestore.RotationChange) bool {
			_, frozen := st.Frozen(rc.Service)
			ss := st.Services[rc.Service]
			return frozen || carried[rc.Service] || ss == nil || len(lost(st, rc, ss.Rotation)) > 0
		})
		for _, rc := range kept {
			carried[rc.Service] = true
		}
		return kept
	}
	for _, name := range sortedKeys(st.Clusters) {
		d := st.Clusters[name].Drain
		if d == nil || d.Until.IsZero() || d.Until.After(st.Now) {
			continue
		}
		plan = append(plan, Proposal{
			Subject: "clusters/" + name,
			Reason:  "drain ended at " + d.Until.UTC().Format(time.RFC3339),
			Command: statestore.UndrainCluster{Cluster: name, Expired: true, Reason: "the drain's time is over", Rotations: carry(UndrainRotations(st, name))},
		})
	}
	for _, service := range sortedKeys(st.Services) {
		o := st.Services[service].Override
		if o == nil || o.Until.IsZero() || o.Until.After(st.Now) {
			continue
		}
		plan = append(plan, Proposal{
			Subject: "services/" + service,
			Reason:  "override ended at " + o.Until.UTC().Format(time.RFC3339),
			Command: statestore.ClearOverride{Service: service, Expired: true, Reason: "the override's time is over", Rotations: carry(ClearOverrideRotations(st, service))},
		})
	}
	for _, service := range sortedKeys(st.Freezes) {
		f := st.Freezes[service]
		if f.Until.IsZero() || f.Until.After(st.Now) {
			continue
		}
		plan = append(plan, Proposal{
			Subject: freezeSubject(service),
			Reason:  "freeze ended at " + f.Until.UTC().Format(time.RFC3339),
			Command: statestore.ThawService{Service: service, Expired: true, Reason: "the freeze's time is over"},
		})
	}
	return plan, carried
}

// rotations returns the wanted rotations of services that are not frozen, and a
// freeze in place of those that the change budget does not cover.
func rotations(st *statestore.State, carried map[string]bool) []Proposal {
	var plan []Proposal
	causes := recentLosses(st)
	over := map[string]bool{}
	for _, service := range sortedKeys(st.Spec.Services) {
		ss := st.Services[service]
		if _, frozen := st.Frozen(service); frozen || carried[service] || ss == nil {
			continue
		}
		rc := Wanted(st, service)
		if sameRotation(rc, ss.Rotation) {
			continue
		}
		counted, covered := charge(st, causes, lost(st, rc, ss.Rotation))
		if !covered {
			maps.Copy(over, counted)
			continue
		}
		causes = counted
		plan = append(plan, Proposal{
			Subject: "services/" + service,
			Reason:  rc.Reason,
			Command: statestore.Rotate{RotationChange: rc, Basis: st.Basis(service)},
		})
	}
	if len(over) > 0 {
		plan = append(plan, BudgetFreeze(st, sortedKeys(over)))
	}
	return plan
}

// BudgetFreeze returns the freeze that asks a person, after automation would have
// taken clusters out beyond its budget.
func BudgetFreeze(st *statestore.State, clusters []string) Proposal {
	b := st.Spec.Safety.Changes
	reason := fmt.Sprintf("automation stopped: %s would be out within %s, the budget is %d; look, then thaw",
		strings.Join(clusters, ", "), b.Per, b.Causes)
	if len(clusters) == 0 {
		reason = fmt.Sprintf("automation stopped: more than %d clusters would be out within %s; look, then thaw", b.Causes, b.Per)
	}
	return Proposal{
		Subject: freezeSubject(""),
		Reason:  reason,
		Command: statestore.FreezeService{Reason: reason},
	}
}

// lost returns the clusters that the change takes out of a family, by name. One
// that is drained, or that makes way for the pinned one, leaves because a person said
// so and is no loss.
func lost(st *statestore.State, rc statestore.RotationChange, before statestore.Rotation) []string {
	var out []string
	pin := view{st: st, spec: st.Spec}.pinOf(rc.Service)
	for _, p := range []struct{ now, before statestore.Pool }{{rc.V4, before.V4}, {rc.V6, before.V6}} {
		if pin != nil && len(p.now.Shares) == 1 && p.now.Shares[0].Cluster == pin.Cluster && p.now.AllDown == "" {
			continue
		}
		for _, s := range p.before.Shares {
			stays := slices.ContainsFunc(p.now.Shares, func(n statestore.Share) bool { return n.Cluster == s.Cluster })
			cs := st.Clusters[s.Cluster]
			if !stays && cs != nil && !cs.Drain.Covers(rc.Service) {
				out = append(out, s.Cluster)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// recentLosses returns the clusters that count against the budget already.
func recentLosses(st *statestore.State) map[string]bool {
	recent := map[string]bool{}
	since := st.Now.Add(-st.Spec.Safety.Changes.Per.D())
	for _, l := range st.Losses {
		if l.At.After(since) {
			recent[l.Cluster] = true
		}
	}
	return recent
}

// charge adds lost clusters to the causes, and reports whether the change budget
// covers so many. What adds no cause is always covered.
func charge(st *statestore.State, causes map[string]bool, lost []string) (counted map[string]bool, covered bool) {
	counted = maps.Clone(causes)
	for _, c := range lost {
		counted[c] = true
	}
	budget := st.Spec.Safety.Changes.Causes
	return counted, budget <= 0 || len(counted) <= budget || len(counted) == len(causes)
}

func freezeSubject(service string) string {
	if service == "" {
		return "installation"
	}
	return "services/" + service
}

// sortedKeys returns m's keys in order: map order must never reach a result.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
