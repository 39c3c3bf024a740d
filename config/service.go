package config

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func (b *specBuilder) services() {
	each(b.root, "services", func(name string, v *value) {
		s := &statestore.Service{Owner: get[string](v, "owner")}
		b.spec.Services[name] = s
		s.Zone = b.serviceZone(v)
		s.Names = []string{name}
		if v.set("names") {
			s.Names = list[string](v, "names")
		}
		b.once(v.child("names"))
		candidates := b.candidates(s, v)
		b.policy(s, v, candidates)
		b.quorum(s, v)
		b.serviceChecks(name, s, v, candidates)
		s.TTL = b.ttl(v)
		s.OnAllDown = b.onAllDown(v.child("on_all_down"))
		stale, answer := b.defaults.child("on_stale"), b.defaults.child("answer")
		s.OnStale = statestore.OnStale{
			After:  pick[statestore.Duration]("after", v.child("on_stale"), stale),
			Answer: statestore.StaleAnswer(pick[string]("answer", v.child("on_stale"), stale)),
		}
		s.Answer = statestore.Answer{
			Clusters:  pick[int]("clusters", v.child("answer"), answer),
			Addresses: pick[int]("addresses", v.child("answer"), answer),
		}
		b.placement(name, s, v, candidates)
		b.stateful(name, s, v, candidates)
		b.sloppyService(s, v)
		b.openEnded(v)
		b.serviceWarnings(s, v, candidates)
	})
}

func (b *specBuilder) serviceZone(v *value) string {
	zones := b.root.child("zones")
	if v.set("zone") {
		z := v.child("zone")
		name := get[string](v, "zone")
		if z.fine() && !b.known("zones", name) {
			b.errorf(z, "must be a zone, is %s", b.unknown("zones", name))
		}
		return name
	}
	switch {
	case zones == nil || len(zones.keys) == 0:
		return "" // reported at zones
	case len(zones.keys) > 1:
		b.c.errorf(v.at, join(v.path, "zone"), "must be set, is missing; zones are %s", joinNames(zones.keys))
		return ""
	}
	return zones.keys[0]
}

// candidates fills in the selector and returns the clusters it picks, sorted.
func (b *specBuilder) candidates(s *statestore.Service, v *value) []string {
	sel := v.child("clusters")
	s.Clusters = statestore.Selector{Match: get[string](sel, "match"), Only: list[string](sel, "only"), Exclude: list[string](sel, "exclude")}
	if sel == nil {
		return nil
	}
	for _, k := range []string{"only", "exclude"} {
		b.once(sel.child(k))
		for _, item := range itemsOf(sel.child(k)) {
			if n, ok := item.v.(string); ok && item.fine() && !b.known("clusters", n) {
				b.errorf(item, "must be a cluster, is %s", b.unknown("clusters", n))
			}
		}
	}
	if s.Clusters.Match != "" && sel.set("only") {
		b.errorf(sel.child("match"), "must not stand next to only, is %s", quote(s.Clusters.Match))
	}
	if only := sel.child("only"); only != nil && only.bad || sel.set("match") && sel.child("match").bad || sel.bad {
		return nil
	}
	match, err := labels.Parse(s.Clusters.Match)
	if err != nil {
		return nil // reported by the walk
	}
	var picked []string
	for _, n := range slices.Sorted(maps.Keys(b.spec.Clusters)) {
		c := b.spec.Clusters[n]
		if sel.set("only") && !slices.Contains(s.Clusters.Only, n) || slices.Contains(s.Clusters.Exclude, n) {
			continue
		}
		if match.Matches(labels.Set(c.Labels)) {
			picked = append(picked, n)
		}
	}
	if len(picked) == 0 && len(b.spec.Clusters) > 0 && !anyBad(sel.child("only")) {
		at := sel
		if !sel.given {
			at = v
		}
		b.c.errorf(at.at, join(v.path, "clusters"), "must pick at least one cluster, is none of %s", strings.Join(firstNames(b.root.child("clusters").keys), ", "))
	}
	return picked
}

func anyBad(v *value) bool {
	return slices.ContainsFunc(itemsOf(v), func(i *value) bool { return i.bad })
}

func (b *specBuilder) quorum(s *statestore.Service, v *value) {
	own, base := v.child("quorum"), b.defaults.child("quorum")
	s.Quorum = statestore.Quorum{
		Observers: pick[string]("observers", own, base),
		Down:      pick[statestore.Threshold]("down", own, base),
		Up:        pick[statestore.Threshold]("up", own, base),
		MinVotes:  pick[int]("min_votes", own, base),
	}
	// Plan refuses fewer regions than min_votes, so what is below a majority of those
	// never works.
	least := health.Majority(s.Quorum.MinVotes)
	for _, key := range []string{"down", "up"} {
		t := pick[statestore.Threshold](key, own, base)
		if at := givenAt(key, own, base); at.fine() && t > 0 && int(t) < least {
			b.errorf(at, "must be at least %d, a majority of min_votes %d, is %d", least, s.Quorum.MinVotes, t)
		}
	}
	if at := givenAt("min_votes", own, base); at.fine() && s.Quorum.MinVotes == 1 {
		b.c.warnf(at.at, at.path, "1 lets a single region decide alone what is down; two regions or more are meant")
	}
}

func (b *specBuilder) scopeOf(name string, s *statestore.Service, v *value) *scope {
	sc := &scope{name: name, zone: strings.TrimSuffix(s.Zone, "."), quorum: v.child("quorum")}
	if len(s.Names) > 0 {
		sc.name = s.Names[0]
	}
	return sc
}

func (b *specBuilder) serviceChecks(name string, s *statestore.Service, v *value, candidates []string) {
	sc := b.scopeOf(name, s, v)
	checks := v.child("checks")
	if v.set("check") && v.set("checks") {
		b.c.errorf(v.keyAt["check"], join(v.path, "check"), "must not stand next to checks, is a second declaration")
	}
	if ch := v.child("check"); v.set("check") && ch.fine() {
		if c := b.check(ch, "check", sc); c != nil {
			s.Checks.All = append(s.Checks.All, c)
		}
	}
	all := b.named(checks.child("all"), sc)
	anyOf := b.named(checks.child("any"), sc)
	s.Checks.All = append(s.Checks.All, all...)
	s.Checks.Any = append(s.Checks.Any, anyOf...)
	for _, item := range itemsOf(checks.child("any")) {
		for _, other := range itemsOf(checks.child("all")) {
			if item.fine() && other.fine() && item.text == other.text {
				b.errorf(item, "must stand in all or in any, is in both")
			}
		}
	}
	if v.set("check") || len(itemsOf(checks.child("all")))+len(itemsOf(checks.child("any"))) > 0 {
		return
	}
	for _, c := range candidates {
		if cl := b.root.child("clusters").child(c); !cl.set("check") {
			b.c.errorf(v.at, join(v.path, "check"), "must be set, is missing, and cluster %s has no check of its own", c)
			return
		}
	}
}

// named inlines the checks of a list of names.
func (b *specBuilder) named(v *value, sc *scope) []*statestore.Check {
	b.once(v)
	var out []*statestore.Check
	for _, item := range itemsOf(v) {
		n, ok := item.v.(string)
		if !ok || !item.fine() {
			continue
		}
		ch := b.root.child("checks").child(n)
		if ch == nil {
			b.errorf(item, "must be a check, is %s", b.unknown("checks", n))
			continue
		}
		if ch.bad {
			continue
		}
		if c := b.check(ch, n, sc); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// slowTTL is a TTL from which failing over is slow whatever is detected.
const slowTTL = 5 * time.Minute

func (b *specBuilder) serviceWarnings(s *statestore.Service, v *value, candidates []string) {
	at := v.child("ttl")
	if at == nil || !at.given {
		at = b.defaults.child("ttl")
	}
	if !at.fine() || !at.given {
		at = nil
	}
	if at != nil && s.TTL.Normal.D() > slowTTL {
		b.c.warnf(at.at, at.path, "%s keeps resolvers on a lost cluster that long; %s or less is usual", short(s.TTL.Normal.D()), short(slowTTL))
	}
	var slowest time.Duration
	for _, c := range slices.Concat(s.Checks.All, s.Checks.Any) {
		slowest = max(slowest, detection(c))
	}
	if at != nil && slowest > 10*s.TTL.Normal.D() && s.TTL.Normal > 0 {
		b.c.warnf(at.at, at.path, "%s is far below the %s a failure takes to be seen; a longer TTL costs nothing", short(s.TTL.Normal.D()), short(slowest))
	}
	if a := v.child("answer").child("clusters"); a.fine() && a.given && s.Answer.Clusters > 1 && s.Policy.Type == statestore.Failover {
		b.c.warnf(a.at, a.path, "failover answers with the first cluster alone, so %d has no effect", s.Answer.Clusters)
	}
	var four, six, without4, without6 []string
	for _, n := range candidates {
		c := b.spec.Clusters[n]
		if c.Hostname != "" {
			return // which families it has is not known here
		}
		if len(c.IPv4) > 0 {
			four = append(four, n)
		} else {
			without4 = append(without4, n)
		}
		if len(c.IPv6) > 0 {
			six = append(six, n)
		} else {
			without6 = append(without6, n)
		}
	}
	if len(four) > 0 && len(without4) > 0 && len(four) == 1 {
		b.c.warnf(v.at, v.path, "only cluster %s has ipv4: no other can take over for A", four[0])
	}
	if len(six) == 1 && len(without6) > 0 {
		b.c.warnf(v.at, v.path, "only cluster %s has ipv6: no other can take over for AAAA", six[0])
	}
	b.sorryFamilies(s, v, len(four) > 0, len(six) > 0)
}

// sorryFamilies warns of a family that clusters have and the sorry addresses lack.
func (b *specBuilder) sorryFamilies(s *statestore.Service, v *value, four, six bool) {
	if s.OnAllDown.Mode != statestore.Sorry || len(s.OnAllDown.Sorry) == 0 {
		return
	}
	at := v.child("on_all_down")
	if !at.fine() || !at.given {
		at = b.defaults.child("on_all_down")
	}
	if !at.fine() || !at.given {
		return
	}
	is4 := func(a netip.Addr) bool { return a.Is4() }
	if four && !slices.ContainsFunc(s.OnAllDown.Sorry, is4) {
		b.c.warnf(at.at, at.path, "sorry has no ipv4 address: A gets an empty answer then")
	}
	if six && !slices.ContainsFunc(s.OnAllDown.Sorry, func(a netip.Addr) bool { return !is4(a) }) {
		b.c.warnf(at.at, at.path, "sorry has no ipv6 address: AAAA gets an empty answer then")
	}
}
