package api

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// Everything in this file turns one immutable State into what people see of it.

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// verdictView returns a target's verdict and how the regions vote now.
func verdictView(st *statestore.State, t health.Target, v health.Verdict) apitype.Verdict {
	j := health.Judge(v.Side, st.Ballots(t), st.Rule(t))
	degraded := ""
	if v.Side == health.Up {
		degraded = st.Degraded(t)
	}
	return apitype.Verdict{
		Number: v.Number, Side: v.Side, Mark: v.Mark, Since: v.Since, Index: v.Index,
		Up: j.Up, Down: j.Down, Eligible: j.Eligible,
		NeedUp: j.Need.Up, NeedDown: j.Need.Down,
		Deciding: v.Deciding, Degraded: degraded,
	}
}

// votesView returns a target with each observer's vote.
func votesView(st *statestore.State, t health.Target, ts *statestore.TargetState) apitype.TargetVotes {
	out := apitype.TargetVotes{
		Target: t.String(), Service: t.Service, Cluster: t.Cluster, Endpoint: t.Endpoint,
		Verdict: verdictView(st, t, ts.Verdict),
		Votes:   []apitype.Vote{},
	}
	ballots := slices.Clone(st.Ballots(t))
	slices.SortFunc(ballots, func(a, b health.Ballot) int { return cmp.Compare(a.Observer, b.Observer) })
	for _, b := range ballots {
		v := apitype.Vote{Observer: string(b.Observer), Region: b.Region}
		if said, ok := ts.Votes[b.Observer]; ok {
			v.Side, v.Reason, v.Since, v.Degraded = said.Side, said.Reason, said.Since, said.Degraded
		} else {
			v.Note = "no vote yet"
		}
		if o := st.Observers[b.Observer]; !o.Counts() {
			v.Note = observerState(o)
		}
		v.Counts = v.Note == ""
		out.Votes = append(out.Votes, v)
	}
	return out
}

// observerState names why an observer's votes do not count.
func observerState(o *statestore.Observer) string {
	switch {
	case o == nil:
		return "no vote yet"
	case o.Silent:
		return "silent"
	case !o.Confirmed:
		return "unconfirmed"
	}
	return "counted"
}

// targetsView returns targets in their order, those of one cluster if it is named.
func targetsView(st *statestore.State, targets map[health.Target]*statestore.TargetState, cluster string) []apitype.TargetVotes {
	out := []apitype.TargetVotes{}
	for _, t := range slices.SortedFunc(maps.Keys(targets), health.CompareTargets) {
		if cluster == "" || t.Cluster == cluster {
			out = append(out, votesView(st, t, targets[t]))
		}
	}
	return out
}

// serviceSummary returns what a service answers now.
func serviceSummary(st *statestore.State, now time.Time, name string) apitype.ServiceSummary {
	svc, ss := st.Spec.Services[name], st.Services[name]
	out := apitype.ServiceSummary{
		Name: name, Kind: "stateless", Policy: string(svc.Policy.Type),
		Names: []string{}, V4: []apitype.Share{}, V6: []apitype.Share{}, Notes: []string{},
		ByClient: svc.ByClient(), Override: overrideView(st, name), Degraded: degradedView(degradedOf(st, name)),
	}
	for _, n := range svc.Names {
		out.Names = append(out.Names, fqdn(n, svc.Zone))
	}
	if svc.Stateful != nil {
		out.Kind, out.Stateful = "stateful", statefulView(st, name)
	}
	if ss == nil {
		return out
	}
	r := ss.Rotation
	out.Rotation, out.RotationAt = r.Number, r.At
	if now.Before(r.Clears) {
		out.ClearsAt = r.Clears
	}
	out.V4 = shares(st, name, r.V4, netip.Addr.Is4)
	out.V6 = shares(st, name, r.V6, netip.Addr.Is6)
	if ss.Ownership.Moving() { // nobody answers with the rotation until the next one
		withhold(out.V4)
		withhold(out.V6)
	}
	out.AllDownV4, out.AllDownV6 = string(r.V4.AllDown), string(r.V6.AllDown)
	for _, c := range st.Spec.Candidates(name) {
		out.TargetsTotal++
		if clusterSide(ss.Targets, c) == health.Up {
			out.TargetsUp++
		}
	}
	f, frozen := st.Frozen(name)
	out.Frozen = frozen
	out.Notes = notes(st, name, r, f)
	return out
}

func withhold(shares []apitype.Share) {
	for i := range shares {
		shares[i].Percent, shares[i].Endpoints = 0, []netip.Addr{}
	}
}

// notes are what stands out of a service, the gravest first.
func notes(st *statestore.State, name string, r statestore.Rotation, f *statestore.Freeze) []string {
	out := orEmpty(statefulNotes(st, name))
	if mode := cmp.Or(r.V4.AllDown, r.V6.AllDown); mode != "" {
		out = append(out, "NO CANDIDATE IS UP: "+string(mode))
	}
	ss := st.Services[name]
	for _, c := range st.Spec.Candidates(name) {
		if d := st.Clusters[c]; d != nil && d.Drain.Covers(name) {
			out = append(out, c+" drained by "+d.Drain.By)
			continue
		}
		switch v := worst(ss.Targets, c); {
		case v.Side == health.Down && ss.Ownership != nil && c == ss.Ownership.Active && st.SideOf(name, c) == health.Down:
			out = slices.Insert(out, 0, "ACTIVE SIDE DOWN since "+clock(v.Since)+", held for approval")
		case v.Side == health.Down && ss.Ownership != nil:
			out = append(out, c+" down since "+clock(v.Since))
		case v.Side == health.Down && answers(r, c):
			out = append(out, c+" down since "+clock(v.Since)+", still in answers")
		case v.Side == health.Down:
			out = append(out, c+" out since "+clock(v.Since))
		case v.Mark == health.Contested:
			out = append(out, c+" contested")
		case v.Mark == health.Unobserved:
			out = append(out, c+" unobserved")
		case v.Number == 0 && st.Spec.Clusters[c] != nil && len(st.Spec.Clusters[c].Endpoints()) == 0:
			out = append(out, c+" has no address yet")
		case v.Number == 0:
			out = append(out, c+" not judged yet")
		}
	}
	out = append(out, placementNotes(st, name, r)...)
	if f != nil {
		out = append(out, "frozen by "+f.By)
	}
	return out
}

// answers reports whether the rotation names the cluster.
func answers(r statestore.Rotation, cluster string) bool {
	named := func(s statestore.Share) bool { return s.Cluster == cluster }
	return slices.ContainsFunc(r.V4.Shares, named) || slices.ContainsFunc(r.V6.Shares, named)
}

// clock shows a time of today's timeline as people say it.
func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

func fqdn(name, zone string) string {
	if name == "@" {
		return zone
	}
	return name + "." + zone
}

// shares returns the part of one family's answers of every candidate that has an
// endpoint of the family.
func shares(st *statestore.State, name string, pool statestore.Pool, family func(netip.Addr) bool) []apitype.Share {
	svc := st.Spec.Services[name]
	percent := map[string]float64{}
	for _, s := range policy.Shares(svc, pool, statestore.Pool{}) {
		percent[s.Cluster] = s.Percent
	}
	endpoints := map[string][]netip.Addr{}
	order := []string{}
	for _, s := range pool.Shares {
		order = append(order, s.Cluster)
		endpoints[s.Cluster] = s.Endpoints
	}
	for _, c := range st.Spec.Ordered(name) {
		if !slices.Contains(order, c) && slices.ContainsFunc(st.Spec.Clusters[c].Endpoints(), family) {
			order = append(order, c)
		}
	}
	out := make([]apitype.Share, 0, len(order))
	for _, c := range order {
		s := apitype.Share{Cluster: c, Percent: percent[c], Endpoints: endpoints[c]}
		if s.Endpoints == nil {
			s.Endpoints = []netip.Addr{}
		}
		if ss := st.Services[name]; ss != nil {
			s.Verdict = clusterSideOf(ss.Targets, c, family)
		}
		out = append(out, s)
	}
	return out
}

// clusterSide is up when any endpoint of the cluster is, and else the worst of them.
func clusterSide(targets map[health.Target]*statestore.TargetState, cluster string) health.Side {
	return clusterSideOf(targets, cluster, func(netip.Addr) bool { return true })
}

func clusterSideOf(targets map[health.Target]*statestore.TargetState, cluster string, family func(netip.Addr) bool) health.Side {
	side := health.Unknown
	for t, ts := range targets {
		if t.Cluster != cluster || !family(t.Endpoint) {
			continue
		}
		switch ts.Verdict.Side {
		case health.Up:
			return health.Up
		case health.Down:
			side = health.Down
		}
	}
	return side
}

// worst returns the verdict of the cluster that most needs to be seen: down, then
// marked, then the oldest.
func worst(targets map[health.Target]*statestore.TargetState, cluster string) health.Verdict {
	rank := func(v health.Verdict) int {
		switch {
		case v.Side == health.Down:
			return 3
		case v.Mark != health.Settled:
			return 2
		case v.Side == health.Unknown:
			return 1
		}
		return 0
	}
	var out health.Verdict
	first := true
	for _, t := range slices.SortedFunc(maps.Keys(targets), health.CompareTargets) {
		if t.Cluster != cluster {
			continue
		}
		if v := targets[t].Verdict; first || rank(v) > rank(out) {
			out, first = v, false
		}
	}
	return out
}

// clusterSummary returns a cluster and how it does.
func clusterSummary(st *statestore.State, name string) apitype.ClusterSummary {
	c := st.Spec.Clusters[name]
	out := apitype.ClusterSummary{Name: name, Region: c.Region, Hostname: c.Hostname, Capacity: c.Capacity}
	for _, s := range servicesOf(st, name) {
		out.ServicesTotal++
		if ss := st.Services[s]; ss != nil && clusterSide(ss.Targets, name) == health.Up {
			out.ServicesUp++
		}
	}
	cs := st.Clusters[name]
	if cs == nil {
		return out
	}
	out.Drain = drainView(cs.Drain)
	if cs.Reported != nil {
		out.Reported = &cs.Reported.Capacity
	}
	for _, t := range slices.SortedFunc(maps.Keys(cs.Targets), health.CompareTargets) {
		v := verdictView(st, t, cs.Targets[t].Verdict)
		if out.FrontDoor == nil || v.Side == health.Down {
			out.FrontDoor = &v
		}
	}
	return out
}

func drainView(d *statestore.Drain) *apitype.Drain {
	if d == nil {
		return nil
	}
	services := d.Services
	if services == nil {
		services = []string{}
	}
	return &apitype.Drain{Services: services, By: d.By, Reason: d.Reason, At: d.At, Until: d.Until}
}

// servicesOf returns the services that the cluster is a candidate of.
func servicesOf(st *statestore.State, cluster string) []string {
	out := []string{}
	for _, s := range sortedKeys(st.Spec.Services) {
		if slices.Contains(st.Spec.Candidates(s), cluster) {
			out = append(out, s)
		}
	}
	return out
}

func percents(shares []policy.ClusterShare) []apitype.Percent {
	out := make([]apitype.Percent, 0, len(shares))
	for _, s := range shares {
		out = append(out, apitype.Percent{Cluster: s.Cluster, Percent: s.Percent})
	}
	return out
}

func impactsView(impacts []policy.Impact) []apitype.Impact {
	out := make([]apitype.Impact, 0, len(impacts))
	for _, im := range impacts {
		out = append(out, apitype.Impact{
			Service: im.Service, Before: percents(im.Before), After: percents(im.After),
			Moves: im.Moves, ClearsSeconds: im.Clears.Seconds(), Warnings: orEmpty(im.Warnings),
		})
	}
	return out
}

func blockersView(blockers []policy.Blocker) []apitype.Blocker {
	out := make([]apitype.Blocker, 0, len(blockers))
	for _, b := range blockers {
		out = append(out, apitype.Blocker{Rule: b.Rule, Reason: b.Reason, Waivable: b.Waivable})
	}
	return out
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func eventView(e statestore.Event) apitype.Event {
	return apitype.Event{
		Index: e.Index, At: e.At, Wall: e.Wall, Actor: e.Actor, Type: e.Type,
		Subject: e.Subject, Text: e.Text, Detail: e.Detail, Hash: e.Hash,
	}
}

func tokenView(st *statestore.State, t *statestore.Token) apitype.Token {
	return apitype.Token{
		ID: t.ID, User: t.User, Groups: orEmpty(t.Groups), Roles: orEmpty(st.RolesOf(t.ID, t.Groups)), Minter: t.Minter, Root: t.Root,
		At: t.At, Expires: t.Expires, Sources: orEmpty(t.Sources),
	}
}
