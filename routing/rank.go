package routing

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/quorate/quorate/statestore"
)

// sharedPool prepares the answers of a stateless service.
func (m *maker) sharedPool(typ uint16, from statestore.Pool) pool {
	p := pool{typ: typ, clusters: max(1, m.spec.Answer.Clusters), limit: m.spec.Answer.Addresses}
	all := m.offers(typ)
	p.family = len(all) > 0
	if m.spec.Policy.Type == statestore.Failover || typ == TypeHTTPS {
		p.clusters = 1 // never a union of groups; and the hints of one record are one cluster's
	}
	if !p.family {
		p.plans = []plan{{kind: NoData, allDown: from.AllDown}}
		return p
	}
	if pl, ok := m.nobodyUp(&p, from.AllDown); ok {
		pl.allDown = from.AllDown
		p.plans = []plan{pl}
		return p
	}
	shares := from.Shares
	if len(shares) == 0 {
		shares, p.fallback = all, true
	}
	for _, sh := range shares {
		m.addPick(&p, sh, false)
	}
	m.makePlans(&p, all, from.AllDown)
	return p
}

// nobodyUp returns the answer of a mode that names no cluster; false for the others.
func (m *maker) nobodyUp(p *pool, mode statestore.AllDownMode) (plan, bool) {
	switch mode {
	case statestore.NoData:
		return plan{kind: NoData}, true
	case statestore.ServFail:
		return plan{kind: ServFail}, true
	case statestore.Sorry:
		set := m.set(p.typ, "", m.spec.OnAllDown.Sorry)
		if set == nil {
			return plan{kind: NoData, sorry: true}, true
		}
		p.picks = append(p.picks, pick{candidate: -1, set: set, out: true})
		one := []rank{{picks: []int{len(p.picks) - 1}, sums: []uint64{1}}}
		return plan{kind: NoError, sorry: true, first: one, then: one, simple: true}, true
	}
	return plan{}, false
}

// addPick prepares a cluster's answer, and returns its number or -1 where it has no
// address of the type.
func (m *maker) addPick(p *pool, sh statestore.Share, out bool) int {
	set := m.set(p.typ, sh.Cluster, sh.Endpoints)
	if set == nil {
		return -1
	}
	p.picks = append(p.picks, pick{
		clusters: []string{sh.Cluster}, candidate: m.view.candidate(sh.Cluster), weight: max(0, sh.Weight), spill: sh.Spill,
		seed: seed(m.name, sh.Cluster), set: set, out: out,
	})
	return len(p.picks) - 1
}

// makePlans makes the plan of each group of clients, equal ones once.
func (m *maker) makePlans(p *pool, all []statestore.Share, mode statestore.AllDownMode) {
	offered := make([]bool, len(m.view.candidates))
	for _, sh := range all {
		offered[m.view.candidate(sh.Cluster)] = true
	}
	in := len(p.picks)
	standIns := map[string]int{}
	byGroup := make([]uint32, len(m.view.list))
	numbers := map[string]uint32{}
	for i := range m.view.list {
		g := &m.view.list[i]
		var eligible []int
		for k := range in {
			if g.allows(p.picks[k].candidate) {
				eligible = append(eligible, k)
			}
		}
		pl := plan{kind: NoError, allDown: mode}
		if len(eligible) == 0 {
			pl = m.resident(p, g, all, standIns)
		} else {
			m.rankPlan(p, &pl, g, eligible, offered)
		}
		key := strconv.FormatBool(pl.out) + pl.key()
		n, ok := numbers[key]
		if !ok {
			n = uint32(len(p.plans))
			numbers[key] = n
			p.plans = append(p.plans, pl)
		}
		byGroup[i] = n
	}
	if len(p.plans) > 1 {
		p.byGroup = byGroup
	}
	p.divided = slices.ContainsFunc(p.plans, func(pl plan) bool { return pl.key() != p.plans[0].key() })
	p.sticky = m.spec.Policy.Sticky && slices.ContainsFunc(p.plans, func(pl plan) bool { return pl.kind == NoError && !pl.simple })
}

// resident is the plan of clients whom residency allows no cluster in rotation: what
// on_all_down says, of the allowed ones alone, and never another cluster.
func (m *maker) resident(p *pool, g *group, all []statestore.Share, standIns map[string]int) plan {
	mode := m.spec.OnAllDown.Mode
	pl, ok := m.nobodyUp(p, mode)
	pl.resident, pl.allDown = true, mode
	if ok {
		return pl
	}
	var eligible []int
	offered := make([]bool, len(m.view.candidates))
	for _, sh := range all {
		c := m.view.candidate(sh.Cluster)
		if !g.allows(c) {
			continue
		}
		i, made := standIns[sh.Cluster]
		if !made {
			i = m.addPick(p, sh, true)
			standIns[sh.Cluster] = i
		}
		if i >= 0 {
			eligible, offered[c] = append(eligible, i), true
		}
	}
	if len(eligible) == 0 {
		pl.kind = NoData // no allowed candidate has an address of the family
		return pl
	}
	pl.kind = NoError
	m.rankPlan(p, &pl, g, eligible, offered)
	return pl
}

// noTier is above every tier of affinity.
const noTier = math.MaxUint8 + 1

// rankPlan ranks the eligible picks for a group: lowest first, by affinity and then
// by policy. Those of no weight stand by: they are left out while there are others,
// however near they are, since they can take nothing or shall not. Where the best
// candidate of all is out, and for clients that spill over, spillover.order stands for
// the policy.
func (m *maker) rankPlan(p *pool, pl *plan, g *group, eligible []int, offered []bool) {
	weightless := func(i int) bool { return p.picks[i].weight == 0 }
	if slices.ContainsFunc(eligible, func(i int) bool { return !weightless(i) }) {
		eligible = slices.DeleteFunc(eligible, weightless)
	}
	ranks := m.measured(g, p.typ)
	level := func(candidate int, ranks []int64) [2]int64 {
		if candidate < 0 {
			return [2]int64{noTier, 0} // no candidate any more: after all that are
		}
		return [2]int64{g.tier(candidate), ranks[candidate]}
	}
	best := [2]int64{noTier + 1, 0}
	for c := range offered {
		if l := level(c, ranks); offered[c] && g.allows(c) && compareLevels(l, best) < 0 {
			best = l
		}
	}
	pl.out = !slices.ContainsFunc(eligible, func(i int) bool { return compareLevels(level(p.picks[i].candidate, ranks), best) <= 0 })
	order := ranks
	if s := m.spec.Policy.Spillover; s != nil && len(s.Order) > 0 {
		order = make([]int64, len(m.view.candidates))
		for c, name := range m.view.candidates {
			order[c] = int64(place(s.Order, name))
		}
	}
	rank := func(by []int64) []rank {
		return ranked(p, eligible, func(i int) [2]int64 { return level(p.picks[i].candidate, by) })
	}
	if pl.first = rank(ranks); pl.out {
		pl.first = rank(order)
	}
	pl.then = rank(order)
	one := pl.first[0].picks
	pl.simple = len(eligible) == 1 || (len(one) == 1 && p.picks[one[0]].spill == 0 && p.clusters == 1)
}

func compareLevels(a, b [2]int64) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

func (g *group) tier(candidate int) int64 {
	if g.tiers == nil {
		return 0
	}
	return int64(g.tiers[candidate])
}

// measured returns the group's ranks, those of policy latency by the round trips that
// were committed.
func (m *maker) measured(g *group, typ uint16) []int64 {
	rtt := m.latency[g.region]
	if m.spec.Policy.Type != statestore.Latency || len(rtt) == 0 {
		return g.ranks
	}
	ranks := slices.Clone(g.ranks)
	for c, name := range m.view.candidates {
		for _, addr := range addresses(m.sp.Clusters[name], typ) {
			if d, ok := rtt[addr]; ok {
				ranks[c] = min(ranks[c], int64(d))
			}
		}
	}
	return ranks
}

// ranked gathers picks of equal level.
func ranked(p *pool, eligible []int, level func(int) [2]int64) []rank {
	order := slices.Clone(eligible)
	slices.SortStableFunc(order, func(a, b int) int { return compareLevels(level(a), level(b)) })
	var out []rank
	for len(order) > 0 {
		n := 1
		for n < len(order) && level(order[n]) == level(order[0]) {
			n++
		}
		out = append(out, rankOf(p, order[:n:n]))
		order = order[n:]
	}
	return out
}

func rankOf(p *pool, picks []int) rank {
	r := rank{picks: picks, sums: make([]uint64, len(picks))}
	var total uint64
	for k, i := range picks {
		total += uint64(p.picks[i].weight)
		r.sums[k] = total
	}
	if total == 0 { // none has a weight: all have the same
		for k := range picks {
			r.sums[k] = uint64(k) + 1
		}
	}
	return r
}

// key is equal for plans that answer alike. The picks are of one pool.
func (pl *plan) key() string {
	b := append([]byte{byte(pl.kind)}, pl.allDown...)
	for _, on := range []bool{pl.sorry, pl.resident} {
		b = strconv.AppendBool(b, on)
	}
	for _, ranks := range [][]rank{pl.first, pl.then} {
		for _, r := range ranks {
			for _, i := range r.picks {
				b = append(strconv.AppendInt(b, int64(i), 10), ' ')
			}
			b = append(b, '|')
		}
		b = append(b, '/')
	}
	return string(b)
}
