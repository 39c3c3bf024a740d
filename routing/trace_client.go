package routing

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// client tells who asks and where that is.
func (t Trace) client() Step {
	who := t.query.Client.String()
	named := t.query.Client.IsValid() && !t.query.Client.IsUnspecified()
	switch {
	case t.query.Subnet.IsValid() && !named:
		who = fmt.Sprintf("any resolver (ECS %s)", t.query.Subnet)
	case t.query.Subnet.IsValid():
		who += fmt.Sprintf(" (ECS %s)", t.query.Subnet)
	case !named:
		who = "any client (no address given)"
	default:
		who += " (query source; no ECS)"
	}
	s := Step{Step: "client", Text: who + t.whereabouts()}
	var notes []string
	switch {
	case t.service == nil || t.staleDecided():
	case t.service.side != nil:
		notes = append(notes, "a stateful service answers every client alike")
	case t.pool == nil || !t.pool.divided && !t.pool.sticky:
		notes = append(notes, t.alike())
	}
	if c := t.class(); c.country+c.continent != "" {
		notes = append(notes, "geo file "+t.table.Geo())
	}
	s.Note = strings.Join(notes, "; ")
	return s
}

// alike says why nobody is told apart.
func (t Trace) alike() string {
	if t.pool == nil || t.service.view.groups == nil {
		return fmt.Sprintf("policy %s answers every client alike", t.service.policy)
	}
	return fmt.Sprintf("policy %s answers every client alike with this rotation", t.service.policy)
}

func (t Trace) class() class {
	return t.table.clients.classes[t.table.clients.find(&t.query).class()]
}

// whereabouts are the steps from the address to its region.
func (t Trace) whereabouts() string {
	if !clientAddr(&t.query).IsValid() || clientAddr(&t.query) == netip.IPv4Unspecified() {
		return ""
	}
	c := t.class()
	var b strings.Builder
	add := func(format, what string) {
		if what != "" {
			fmt.Fprintf(&b, " -> "+format, what)
		}
	}
	add("cluster %s", c.cluster)
	add("%s", c.country)
	add("%s", c.continent)
	add("region %s", c.region)
	if b.Len() == 0 && t.table.Geo() != "" {
		return " -> not in geo file " + t.table.Geo()
	}
	return b.String()
}

// pinned tells the override in force, or that it yields.
func (t Trace) pinned(in []string) []string {
	run := t.table.state.Services[t.service.name]
	if run == nil || run.Override == nil {
		return nil
	}
	o := run.Override
	text := fmt.Sprintf("pinned to %s by %s", o.Cluster, o.By)
	if len(in) != 1 || in[0] != o.Cluster {
		text += ", without effect"
	}
	return []string{text}
}

// standingPick is a cluster in rotation as people read it: with its weight where
// weights decide, and what goes on from it.
func (t Trace) standingPick(p pick) string {
	s := strings.Join(p.clusters, " ")
	if t.service.policy == statestore.Weighted {
		s = fmt.Sprintf("%s %d", s, p.weight)
	}
	if p.weight == 0 && t.weighty() {
		s += " (stands by)"
	}
	if p.spill > 0 {
		s += fmt.Sprintf(" (spills %d%%)", p.spill)
	}
	return s
}

// weighty reports whether a cluster in rotation has a weight: those without stand by.
func (t Trace) weighty() bool {
	return slices.ContainsFunc(t.pool.picks, func(p pick) bool { return !p.out && p.weight > 0 })
}

// ranking tells which clusters come first for this client, and who was left out. A
// service that ranks everybody alike, by its order or by weight, has no such step.
func (t Trace) ranking() []Step {
	if t.pool == nil || t.service.side != nil || !t.pool.family || !t.special() {
		return nil
	}
	g := t.group()
	s := Step{Step: "rank", Text: "none"}
	var ranks, notes []string
	for _, r := range t.plan.first {
		var names []string
		for _, i := range r.picks {
			names = append(names, t.pool.picks[i].clusters...)
		}
		if len(names) > 0 {
			ranks = append(ranks, strings.Join(names, " = "))
		}
	}
	if len(ranks) > 0 {
		s.Text = strings.Join(ranks, ", then ")
		notes = append(notes, t.rankedBy(g))
	}
	notes = append(notes, t.forbidden(g)...)
	s.Note = strings.Join(notes, "; ")
	return []Step{s}
}

// special reports whether something beside order and weight has a say.
func (t Trace) special() bool {
	spec := t.table.state.Spec.Services[t.service.name]
	spill := slices.ContainsFunc(t.pool.picks, func(p pick) bool { return p.spill > 0 })
	reordered := t.plan.out && spec.Policy.Spillover != nil && len(spec.Policy.Spillover.Order) > 0
	return spec.ByClient() || t.pool.sticky || spill || reordered
}

func (t Trace) group() *group {
	v := t.service.view
	return &v.list[v.groupOf(t.table.clients.find(&t.query).class())]
}

// rankedBy says by what the lowest rank is the lowest.
func (t Trace) rankedBy(g *group) string {
	spec := t.table.state.Spec.Services[t.service.name]
	c := t.class()
	var parts []string
	inRotation, isOut := "is in rotation", "is out"
	if t.weighty() && slices.ContainsFunc(t.pool.picks, func(p pick) bool { return !p.out && p.weight == 0 }) {
		inRotation, isOut = "is in rotation with a weight", "is out or stands by"
	}
	switch {
	case spec.Policy.Affinity != statestore.NoAffinity && c.cluster == "" && c.region == "":
		if spec.Policy.Type != statestore.Geo { // which says so itself
			parts = append(parts, "affinity "+string(spec.Policy.Affinity)+": nobody knows where the client is")
		}
	case spec.Policy.Affinity == statestore.LocalAffinity:
		parts = append(parts, "affinity local: "+[]string{"its own cluster", "its own region", "no cluster of its own or its region " + inRotation}[t.lowestTier(g)])
	case spec.Policy.Affinity == statestore.RemoteAffinity:
		parts = append(parts, "affinity remote: "+[]string{"outside its region", "only its own region is left", "only its own cluster is left"}[t.lowestTier(g)])
	}
	if t.plan.out && spec.Policy.Spillover != nil && len(spec.Policy.Spillover.Order) > 0 {
		return strings.Join(append(parts, "its best cluster "+isOut+": spillover.order"), "; ")
	}
	switch spec.Policy.Type {
	case statestore.Geo:
		parts = append(parts, t.byPlace(g, c))
	case statestore.Latency:
		parts = append(parts, t.byLatency(c))
	case statestore.Failover:
		parts = append(parts, "by order")
	case statestore.Weighted:
		parts = append(parts, "by weight")
	}
	return strings.Join(parts, "; ")
}

// lowestTier is the affinity tier of the first rank.
func (t Trace) lowestTier(g *group) int64 {
	if i := t.pool.picks[t.plan.first[0].picks[0]].candidate; i >= 0 {
		return g.tier(i)
	}
	return 2
}

// byPlace says how policy geo came to its first rank.
func (t Trace) byPlace(g *group, c class) string {
	i := t.pool.picks[t.plan.first[0].picks[0]].candidate
	switch {
	case i >= 0 && g.ranks[i] == ofCountry:
		return "policy.map gives it " + c.country
	case i >= 0 && g.ranks[i] == ofContinent:
		return "policy.map gives it " + c.continent
	case c.region == "":
		return "nobody knows where the client is: all are as near"
	}
	return "nearest to region " + c.region
}

// byLatency says what was measured from the client's region.
func (t Trace) byLatency(c class) string {
	rtt := t.table.state.Latency[c.region]
	var shown []string
	for _, r := range t.plan.first {
		for _, i := range r.picks {
			p := t.pool.picks[i]
			best := statestore.Duration(-1)
			for _, cluster := range p.clusters {
				for _, a := range addresses(t.table.state.Spec.Clusters[cluster], t.pool.typ) {
					if d, ok := rtt[a]; ok && (best < 0 || d < best) {
						best = d
					}
				}
				if best >= 0 {
					shown = append(shown, cluster+" "+best.String())
				}
			}
		}
	}
	if len(shown) == 0 {
		return "nothing measured from the client's region: nearest first"
	}
	return fmt.Sprintf("round trip from %s: %s", c.region, strings.Join(shown, ", "))
}

// forbidden names the candidates that residency leaves out.
func (t Trace) forbidden(g *group) []string {
	if g.allowed == nil {
		return nil
	}
	var out []string
	for i, name := range t.service.view.candidates {
		if !g.allowed[i] {
			out = append(out, name)
		}
	}
	var notes []string
	if len(out) > 0 {
		notes = append(notes, fmt.Sprintf("residency %s leaves out %s", strings.Join(g.rules, " and "), strings.Join(out, ", ")))
	}
	if t.plan.resident {
		notes = append(notes, fmt.Sprintf("no cluster that residency allows is in rotation: on_all_down %s, of those alone", t.plan.allDown))
	}
	return notes
}

// chosenWhy gives the reason of a stateless service's answer in a few words.
func (t Trace) chosenWhy() string {
	a, pl := t.answer, t.plan
	switch {
	case pl.sorry && a.Kind == NoError:
		return "the sorry address of on_all_down"
	case a.Kind == NoData && pl.resident && pl.allDown != statestore.NoData && !pl.sorry:
		return "no cluster that residency allows has an " + t.familyName() + " address"
	case a.Kind != NoError:
		return "on_all_down: " + string(pl.allDown)
	}
	names := strings.Join(a.Clusters, " and ")
	lowest := pl.first[0].picks
	first := slices.ContainsFunc(lowest, func(i int) bool { return t.pool.picks[i].clusters[0] == a.Clusters[0] })
	switch {
	case pl.resident:
		return names + " by residency"
	case !first:
		return names + ": this client spills over"
	case t.pool.sticky && len(lowest) > 1:
		return fmt.Sprintf("%s: its network (/%d) sticks to it", names, stickyBits(clientAddr(&t.query)))
	case len(lowest) >= len(a.Clusters) && len(lowest) > 1:
		return names + " drawn by weight"
	case len(a.Clusters) > 1:
		return names + " in the order of their ranks"
	case t.service.policy == statestore.Failover && !t.special():
		return names + " is the first in order that is in rotation"
	case t.inRotation() == 1:
		return names + " is the only cluster in rotation"
	}
	return names + " has the lowest rank"
}

func (t Trace) inRotation() (n int) {
	for _, p := range t.pool.picks {
		if !p.out {
			n++
		}
	}
	return n
}
