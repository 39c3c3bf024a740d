package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Gates returns the conditions of a cutover, in the order in which they are shown.
// Until it has begun they are judged now. While it is under way all but the
// destination are as they were when it began, since nothing later turns it back;
// of one that has ended they are what was signed.
func Gates(st *statestore.State, co *statestore.Cutover) []Gate {
	var gates []Gate
	if co.Phase.Open() {
		gates = judge(st, MoveOf(co))
	}
	if !co.Phase.Open() || co.Phase == statestore.Fencing {
		now := gates
		gates = nil
		for _, r := range co.Evidence.Gates {
			g := Gate{Name: r.Gate, Class: r.Class, Why: "as it was signed"}
			if i := slices.IndexFunc(now, func(n Gate) bool { return n.Name == r.Gate }); i >= 0 && r.Gate == statestore.GateDestination {
				g = now[i]
			}
			gates = append(gates, g)
		}
	}
	needs(st, co.Service, gates)
	waived := waivers(st, co)
	for i := range gates {
		gates[i].Waived = waived[gates[i].Name]
	}
	return gates
}

// waivers returns who has waived each gate, in order of signing. While the cutover
// is open only those count who still may sign.
func waivers(st *statestore.State, co *statestore.Cutover) map[statestore.Gate][]string {
	waived := map[statestore.Gate][]string{}
	add := func(g statestore.Gate, s statestore.Signature) {
		if !slices.Contains(waived[g], s.Person) {
			waived[g] = append(waived[g], s.Person)
		}
	}
	if co.Phase.Open() {
		waived = st.Count(co).Waived
		for _, r := range co.Evidence.Gates {
			for _, s := range st.Waivers(co, r.Gate, "") {
				add(r.Gate, s)
			}
		}
		return waived
	}
	for _, s := range slices.Concat(co.Signatures, co.Waived) {
		for _, w := range s.Waivers {
			add(w.Gate, s)
		}
	}
	return waived
}

// MoveGates returns the conditions of a move that nobody has proposed yet.
func MoveGates(st *statestore.State, m Move) []Gate {
	gates := judge(st, destined(st, m))
	needs(st, m.Service, gates)
	return gates
}

// needs fills in how many people can waive what.
func needs(st *statestore.State, service string, gates []Gate) {
	var policy statestore.ApprovalPolicy
	if svc := st.Spec.Services[service]; svc != nil && svc.Stateful != nil {
		policy = svc.Stateful.Approval
	}
	for i, g := range gates {
		gates[i].Waivable = g.Name.Waivable()
		gates[i].Need = statestore.NeedWaivers(policy, g.Name, g.Class)
	}
}

// judge returns the classes of the move's gates now.
func judge(st *statestore.State, m Move) []Gate {
	ss, svc := st.Services[m.Service], st.Spec.Services[m.Service]
	if ss == nil || ss.Ownership == nil || svc == nil || svc.Stateful == nil {
		return nil
	}
	own := ss.Ownership
	var gates []Gate
	add := func(name statestore.Gate, class statestore.GateClass, age time.Duration, format string, args ...any) {
		gates = append(gates, Gate{Name: name, Class: class, Age: max(age, 0), Why: fmt.Sprintf(format, args...)})
	}
	if m.Kind == statestore.Emergency {
		gates = append(gates, sourceDown(st, m, own.Active))
	}
	gates = append(gates, destinationHealthy(st, m, svc.Stateful.Failback.HealthyFor.D()))
	add(statestore.GateLag, statestore.NotConfigured, 0, "no lag is measured: nobody knows how much %s is behind %s", m.To, own.Active)
	add(statestore.GateFenced, statestore.NotConfigured, 0, "no fence and no writer lease: G4 not enforced, nothing stops writes to %s", own.Active)
	if un := st.Unacknowledged(); len(un) > 0 {
		add(statestore.GateNodesAcknowledged, statestore.Blocked, 0,
			"cannot be expected to stop answering with %s: %s", own.Active, strings.Join(un, ", "))
	} else {
		add(statestore.GateNodesAcknowledged, statestore.Clean, 0, "all %d members are heard", len(st.Members))
	}
	if m.Kind == statestore.Back {
		add(statestore.GateResync, statestore.NotConfigured, 0, "nobody knows whether %s follows epoch %d", m.To, own.Epoch)
	}
	add(statestore.GateNoOther, statestore.Clean, 0, "no other cutover of %s is open", m.Service)
	if f, frozen := st.Frozen(m.Service); frozen {
		add(statestore.GateNotFrozen, statestore.Blocked, st.Now.Sub(f.At), "frozen by %s: %s", f.By, f.Reason)
	} else {
		add(statestore.GateNotFrozen, statestore.Clean, 0, "not frozen")
	}
	return append(gates, cooldown(st, m, svc.Stateful.Cooldown.D()))
}

// sourceDown judges whether a quorum says that the source is down.
func sourceDown(st *statestore.State, m Move, source string) Gate {
	g := Gate{Name: statestore.GateSourceDown, Class: statestore.Blocked}
	side := st.SideOf(m.Service, source)
	at, j, ok := tellingTarget(st, m.Service, source)
	if !ok {
		g.Why = source + " has no endpoint that is probed"
		return g
	}
	counts := fmt.Sprintf("%d of %d regions", max(j.Up, j.Down), j.Eligible)
	switch {
	case side == health.Down:
		g.Class = statestore.Clean
		g.Age = max(st.Now.Sub(at.Since), m.Waited) // log time stands still on a quiet log
		g.Why = fmt.Sprintf("%s is down by %d of %d regions for %s", source, j.Down, j.Eligible, round(g.Age))
	case at.Mark == health.Contested:
		g.Why = fmt.Sprintf("%s is contested: %d of %d regions say up, %d down, down needs %d", source, j.Up, j.Eligible, j.Down, j.Need.Down)
	case at.Mark == health.Unobserved:
		g.Why = fmt.Sprintf("%s is unobserved: only %s vote, down needs %d; it was %s", source, counts, j.Need.Down, side)
	case side == health.Unknown:
		g.Why = source + " has not been judged yet"
	default:
		g.Age = max(st.Now.Sub(at.Since), 0)
		g.Why = fmt.Sprintf("%s is up by %d of %d regions: a planned move needs no such waiver", source, j.Up, j.Eligible)
	}
	return g
}

// tellingTarget returns the verdict and the counts of the endpoint that says most
// about the cluster: one that is up and settled, else one that is up, else the one
// that went down last.
func tellingTarget(st *statestore.State, service, cluster string) (health.Verdict, health.Judgement, bool) {
	c := st.Spec.Clusters[cluster]
	if c == nil {
		return health.Verdict{}, health.Judgement{}, false
	}
	rank := func(v health.Verdict) int {
		switch {
		case v.Side == health.Up && v.Mark == health.Settled:
			return 3
		case v.Side == health.Up:
			return 2
		case v.Mark != health.Settled:
			return 1
		}
		return 0
	}
	var best health.Verdict
	var at health.Target
	found := false
	for _, a := range c.Endpoints() {
		t := health.Target{Service: service, Cluster: cluster, Endpoint: a}
		ts, ok := st.Target(t)
		if !ok {
			continue
		}
		v := ts.Verdict
		if !found || rank(v) > rank(best) || rank(v) == rank(best) && v.Side == health.Down && v.Since.After(best.Since) {
			best, at, found = v, t, true
		}
	}
	if !found {
		return best, health.Judgement{}, false
	}
	return best, health.Judge(best.Side, st.Ballots(at), st.Rule(at)), true
}

// destinationHealthy judges the side it goes to. A way back needs it to have been
// up for a while, in log time.
func destinationHealthy(st *statestore.State, m Move, healthyFor time.Duration) Gate {
	g := Gate{Name: statestore.GateDestination, Class: statestore.Blocked}
	if m.To == "" {
		g.Why = "there is no cluster to go to"
		return g
	}
	v := view{st: st, spec: st.Spec}
	side := st.SideOf(m.Service, m.To)
	at, _, _ := tellingTarget(st, m.Service, m.To)
	up := upFor(st, m.Service, m.To)
	switch {
	case v.drained(m.To, m.Service):
		g.Why = fmt.Sprintf("%s is drained: %s", m.To, st.Clusters[m.To].Drain.Reason)
	case side == health.Unknown:
		g.Class = statestore.UnknownGate
		g.Why = m.To + " has not been judged yet"
	case side != health.Up:
		g.Age = max(st.Now.Sub(at.Since), 0)
		g.Why = fmt.Sprintf("%s is down for %s", m.To, round(g.Age))
	case m.Kind == statestore.Back && up < healthyFor:
		g.Age = up
		g.Why = fmt.Sprintf("%s is up for %s, a failback needs %s", m.To, round(up), round(healthyFor))
	default:
		g.Class, g.Age = statestore.Clean, up
		g.Why = fmt.Sprintf("%s is up for %s", m.To, round(up))
		if m.Kind == statestore.Back {
			g.Why += ", a failback needs " + round(healthyFor)
		}
	}
	return g
}

// upFor returns for how long an endpoint of the cluster has been up, in log time.
func upFor(st *statestore.State, service, cluster string) time.Duration {
	since, up := st.UpSince(service, cluster)
	if !up {
		return 0
	}
	return max(st.Now.Sub(since), 0)
}

// cooldown judges whether the last move is long enough ago. Only a cutover that
// was done counts: one that was merely wanted leaves nothing behind.
func cooldown(st *statestore.State, m Move, pause time.Duration) Gate {
	g := Gate{Name: statestore.GateCooldown, Class: statestore.Clean}
	last := st.LastCutover(m.Service, func(co *statestore.Cutover) bool { return co.Phase == statestore.Done })
	since := time.Duration(0)
	if last != nil {
		since = max(st.Now.Sub(last.Decided), 0)
	}
	switch {
	case last == nil:
		g.Why = "it has not moved lately"
	case since >= pause:
		g.Why = fmt.Sprintf("%s was done %s ago, the cool-down is %s", last.ID, round(since), round(pause))
	case m.Kind == statestore.Back || m.Kind == statestore.Emergency && m.Automatic:
		g.Class = statestore.Blocked
		g.Why = fmt.Sprintf("%s was done only %s ago, the cool-down is %s", last.ID, round(since), round(pause))
	default:
		g.Why = "asked by a person"
	}
	return g
}

// round prints a duration as people read it: whole seconds.
func round(d time.Duration) string { return d.Round(time.Second).String() }
