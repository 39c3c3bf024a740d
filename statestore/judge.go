package statestore

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/health"
)

// voter is an observer whose votes a target's verdict counts.
type voter struct {
	observer health.ObserverID
	region   string
}

// electorate returns the observers that service's selector picks, by name: every
// one for a front door (empty service). Members that do not probe are none.
func (st *State) electorate(service string) []voter {
	selector := ""
	if service != "" {
		s, ok := st.Spec.Services[service]
		if !ok {
			return nil
		}
		selector = s.Quorum.Observers
	}
	return st.voters(selector)
}

func (st *State) voters(selector string) []voter {
	picks, err := parseSelector(selector)
	if err != nil {
		return nil // ApplySpec refuses such a selector.
	}
	var vs []voter
	for name, m := range st.Members {
		if m.Observes && picks(m.LabelSet()) {
			vs = append(vs, voter{health.ObserverID(name), m.Region})
		}
	}
	slices.SortFunc(vs, func(a, b voter) int { return cmp.Compare(a.observer, b.observer) })
	return vs
}

// Eligible returns the regions whose votes count for a service, sorted: those
// with a member that probes and that the service's observers selector matches,
// silent or not. For a front door, pass the empty name.
func (st *State) Eligible(service string) []string { return regionsOf(st.electorate(service)) }

func regionsOf(vs []voter) []string {
	regions := make([]string, 0, len(vs))
	for _, v := range vs {
		regions = append(regions, v.region)
	}
	slices.Sort(regions)
	return slices.Compact(regions)
}

// Rule returns how many regions a verdict on t needs.
func (st *State) Rule(t health.Target) health.Rule {
	return st.rule(t.Service, len(st.Eligible(t.Service)))
}

func (st *State) rule(service string, eligible int) health.Rule {
	var q Quorum // a front door's: majority both ways
	if s, ok := st.Spec.Services[service]; ok {
		q = s.Quorum
	}
	return health.Rule{Up: q.Up.Regions(eligible), Down: q.Down.Regions(eligible)}
}

// Regions returns how many of the eligible regions the threshold asks for.
func (t Threshold) Regions(eligible int) int {
	switch t {
	case ThresholdMajority:
		return health.Majority(eligible)
	case ThresholdAll:
		return eligible
	default:
		return int(t)
	}
}

// Ballots returns what each configured observer contributes to the verdict on t,
// by observer. One that is silent, unconfirmed or has not voted is Unknown.
func (st *State) Ballots(t health.Target) []health.Ballot {
	return st.ballots(st.electorate(t.Service), st.target(t))
}

func (st *State) ballots(vs []voter, ts *TargetState) []health.Ballot {
	bs := make([]health.Ballot, len(vs))
	for i, v := range vs {
		bs[i] = health.Ballot{Observer: v.observer, Region: v.region}
		if ts == nil || !st.Observers[v.observer].Counts() {
			continue
		}
		vote := ts.Votes[v.observer]
		bs[i].Side, bs[i].Reason = vote.Side, vote.Reason
		if vote.Side == health.Up {
			bs[i].Degraded = vote.Degraded
		}
	}
	return bs
}

// Degraded returns why a target that is up is not well, as a majority of the
// eligible regions see it: "latency" or "cert". It is shown to people and decides
// nothing. Empty: it is well, or not up.
func (st *State) Degraded(t health.Target) string {
	ts := st.target(t)
	if ts == nil || ts.Verdict.Side != health.Up {
		return ""
	}
	return health.Degraded(st.ballots(st.electorate(t.Service), ts))
}

// Target returns the state of t and whether it is configured.
func (st *State) Target(t health.Target) (*TargetState, bool) {
	ts := st.target(t)
	return ts, ts != nil
}

func (st *State) target(t health.Target) *TargetState {
	if t.FrontDoor() {
		if c, ok := st.Clusters[t.Cluster]; ok {
			return c.Targets[t]
		}
		return nil
	}
	if s, ok := st.Services[t.Service]; ok {
		return s.Targets[t]
	}
	return nil
}

// Suspect reports whether a target of the service is suspect: its verdict is
// contested, or a vote contradicts it. Resolvers are then given the shorter TTL.
// Votes count here whether confirmed to this term or not, so that an election
// alone changes no answer; those of a silent observer do not.
func (st *State) Suspect(service string) bool {
	s, ok := st.Services[service]
	return ok && s.suspect(st.Observers)
}

func (s *ServiceState) suspect(observers map[health.ObserverID]*Observer) bool {
	for _, ts := range s.Targets {
		if ts.suspect(observers) {
			return true
		}
	}
	return false
}

func (ts *TargetState) suspect(observers map[health.ObserverID]*Observer) bool {
	if ts.Verdict.Mark == health.Contested {
		return true
	}
	for id, v := range ts.Votes {
		if v.Side == health.Unknown || ts.Verdict.Side == health.Unknown || v.Side == ts.Verdict.Side {
			continue
		}
		if o := observers[id]; o != nil && !o.Silent {
			return true
		}
	}
	return false
}

// Frozen returns the freeze that stops automation for the service, its own or
// that of everything. It lasts until a thaw is committed, which automation does
// once its end has come.
func (st *State) Frozen(service string) (*Freeze, bool) {
	if f, ok := st.Freezes[service]; ok {
		return f, true
	}
	f, ok := st.Freezes[""]
	return f, ok
}

// FreezeVersion returns a number that is another one whenever the freezes on the
// service are others; zero when there are none.
func (st *State) FreezeVersion(service string) uint64 {
	var v uint64
	for _, name := range []string{"", service} {
		if f, ok := st.Freezes[name]; ok {
			v = max(v, f.Version)
		}
	}
	return v
}

// LabelSet returns the labels a selector sees: the member's own, and "region"
// and "name" unless it sets them itself.
func (m *Member) LabelSet() map[string]string {
	set := map[string]string{"region": m.Region, "name": m.Name}
	for k, v := range m.Labels {
		set[k] = v
	}
	return set
}
