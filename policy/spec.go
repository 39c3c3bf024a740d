package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// CheckSpec returns every rule that forbids applying spec to st, and what a
// person should know before. What a spec says in itself (names, ranges, cross
// references) package config has checked already; here stands what only the
// running installation knows.
func CheckSpec(st *statestore.State, spec *statestore.Spec) Findings {
	var f Findings
	next := *st // Eligible and Rule read Spec and Members only
	next.Spec = spec
	if len(st.Members) == 0 {
		f.block(RuleObservers, "no member is recorded yet: the first leader records them, seconds after it is elected; wait until `quorate members` lists them, then try again")
	} else {
		for _, service := range sortedKeys(spec.Services) {
			f.quorum(&next, service)
		}
		f.nameServers(&next)
	}
	f.removals(st, spec, f.floor(st, spec))
	f.stateful(st, spec)
	f.placement(st, spec)
	f.signing(st, spec)
	f.identity(st.Spec, spec)
	if len(f.Blockers) == 0 {
		f.refused(st, spec)
	}
	return f
}

// refused adds what Apply itself would say, should no rule here know it: a plan that
// looks good must not fail when it is applied.
func (f *Findings) refused(st *statestore.State, spec *statestore.Spec) {
	if err := st.Try(statestore.ApplySpec{Base: st.Revision, Spec: spec, Rotations: Rotations(st, spec, nil, nil)}); err != nil {
		f.block(RuleRefused, "%v", err)
	}
}

func (f *Findings) block(rule, format string, args ...any) {
	f.Blockers = append(f.Blockers, Blocker{Rule: rule, Reason: fmt.Sprintf(format, args...)})
}

// warn adds a warning once: services that share a fault share the line.
func (f *Findings) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(f.Warnings, w) {
		f.Warnings = append(f.Warnings, w)
	}
}

// quorum checks that the eligible regions can decide about the service.
func (f *Findings) quorum(next *statestore.State, service string) {
	svc := next.Spec.Services[service]
	regions := next.Eligible(service)
	n, q := len(regions), svc.Quorum
	names := strings.Join(regions, ", ")
	switch {
	case n == 0:
		f.block(RuleObservers, "services.%s.quorum.observers: no member matches %q, so nobody would vote on it", service, q.Observers)
		return
	case n < q.MinVotes:
		f.block(RuleMinVotes, "services.%s.quorum.min_votes: %d regions must be able to vote, %d can (%s); join nodes in other regions, or set min_votes: %d",
			service, q.MinVotes, n, names, n)
	case n == 1:
		f.warn("one eligible region (%s): a lone point of view decides, and its own network trouble looks like everybody's; join nodes in two other regions", names)
	case n == 2:
		f.warn("two eligible regions (%s) cannot decide the loss of either; join a third node anywhere", names)
	}
	for _, t := range []struct {
		side string
		need statestore.Threshold
	}{{"down", q.Down}, {"up", q.Up}} {
		switch {
		case t.need <= 0: // majority or all: right at any size
		case int(t.need) < health.Majority(n):
			f.block(RuleThreshold, "services.%s.quorum.%s: must be at least %d, the majority of %d eligible regions, is %d", service, t.side, health.Majority(n), n, t.need)
		case int(t.need) > n:
			f.block(RuleThreshold, "services.%s.quorum.%s: must be at most %d, the number of eligible regions (%s), is %d", service, t.side, n, names, t.need)
		}
	}
}

// nameServers checks that nothing takes the names by which the members answer: the
// zone's delegation would lead to whatever it is instead.
func (f *Findings) nameServers(next *statestore.State) {
	for _, zone := range sortedKeys(next.Spec.Zones) {
		z := next.Spec.Zones[zone]
		if len(z.NS) > 0 {
			continue // a list of names that the spec gives their addresses
		}
		if !anyAnswers(next.Members) {
			f.warn("zones.%s: it would have no NS record, since no member has an address in dns.advertise; "+
				"set dns.advertise.ipv4 or .ipv6 in node.yaml on the nodes that answer (--dns-advertise of init and join) and restart them, or list names in the zone's ns",
				strings.TrimSuffix(zone, "."))
		}
		taken := map[string]string{}
		for _, service := range sortedKeys(next.Spec.Services) {
			if svc := next.Spec.Services[service]; svc.Zone == zone {
				for _, name := range svc.Names {
					taken[name] = "services." + service
				}
			}
		}
		for _, name := range sortedKeys(next.Members) {
			m := next.Members[name]
			if len(m.DNS.IPv4)+len(m.DNS.IPv6) == 0 {
				continue
			}
			host := strings.ToLower(strings.TrimSuffix(cmp.Or(m.DNS.Name, "ns-"+name+"."+zone), ".") + ".")
			owner, inside := strings.CutSuffix(host, "."+zone)
			if host == zone {
				owner, inside = "@", true
			}
			if !inside {
				continue
			}
			by := fmt.Sprintf("%s is the name server %s, whose addresses are in its dns.advertise", host, name)
			if what := taken[owner]; what != "" {
				f.block(RuleNameServer, "%s.names: %s", what, by)
			}
			if at, typ := hiding(z, owner); typ != "" {
				f.block(RuleNameServer, "zones.%s.records.%s.%s: %s and would not be answered; serve it under another name (dns.advertise.name)", zone, at, typ, by)
			}
			for _, typ := range []string{"CNAME", "A", "AAAA"} {
				switch {
				case z.Records[owner][typ] == nil:
				case typ == "CNAME":
					f.block(RuleNameServer, "zones.%s.records.%s.CNAME: %s", zone, owner, by)
				default:
					f.warn("zones.%s.records.%s.%s: %s; the record is answered in their place", zone, owner, typ, by)
				}
			}
		}
	}
}

// hiding returns the delegation at or above an owner of a zone, or the DNAME above it,
// which answers for what is there.
func hiding(z *statestore.Zone, owner string) (at, typ string) {
	for name := owner; ; {
		switch {
		case name != "@" && z.Records[name]["NS"] != nil:
			return name, "NS"
		case name != owner && z.Records[name]["DNAME"] != nil:
			return name, "DNAME"
		case name == "@":
			return "", ""
		}
		_, above, ok := strings.Cut(name, ".")
		if name = above; !ok {
			name = "@"
		}
	}
}

// anyAnswers reports whether resolvers are told of any member.
func anyAnswers(members map[string]*statestore.Member) bool {
	for _, m := range members {
		if len(m.DNS.IPv4)+len(m.DNS.IPv6) > 0 {
			return true
		}
	}
	return false
}

// floor checks that no service loses the clusters it serves from, and returns those
// that would.
func (f *Findings) floor(st *statestore.State, spec *statestore.Spec) (broken []string) {
	need := max(spec.Safety.MinServingClusters, 1)
	before, after := view{st: st, spec: st.Spec}, view{st: st, spec: spec}
	for _, service := range sortedKeys(spec.Services) {
		if len(spec.Candidates(service)) == 0 {
			f.block(RuleNoCandidates, "services.%s.clusters: no cluster is left for it to answer with", service)
			broken = append(broken, service)
			continue
		}
		if st.Spec.Services[service] == nil {
			continue
		}
		had, has := before.serving(service), after.serving(service)
		candidates := spec.Candidates(service)
		gone := slices.DeleteFunc(slices.Clone(st.Spec.Candidates(service)), func(c string) bool {
			// Under another hostname a cluster has no address before that is resolved.
			stays := slices.Contains(candidates, c) && len(spec.Clusters[c].Endpoints()) > 0
			return stays || !slices.Contains(had, c) && !before.answersFrom(service, c)
		})
		if len(gone) == 0 || len(has) >= need {
			continue
		}
		f.block(RuleMinServing, "services.%s: without %s it would be left with %d serving, min_serving_clusters is %d; %s first, when another cluster is up",
			service, strings.Join(gone, ", "), len(has), need, drainCommands(gone))
		broken = append(broken, service)
	}
	return broken
}

func drainCommands(clusters []string) string {
	commands := make([]string, len(clusters))
	for i, c := range clusters {
		commands[i] = "quorate drain " + c
	}
	return strings.Join(commands, ", ")
}

// identity warns of changes to what people and other systems know a thing by.
func (f *Findings) identity(old, spec *statestore.Spec) {
	for _, name := range sortedKeys(old.Clusters) {
		was, is := old.Clusters[name], spec.Clusters[name]
		if is == nil {
			continue
		}
		if was.ID != is.ID {
			f.warn("clusters.%s.id: %d becomes %d; ids are identity, whoever stored the old one is not told", name, was.ID, is.ID)
		}
		if was.Region != is.Region {
			f.warn("clusters.%s.region: %s becomes %s; it decides which clients count as local", name, was.Region, is.Region)
		}
		for _, p := range was.CIDRs {
			if !slices.Contains(is.CIDRs, p) {
				f.warn("clusters.%s.cidrs: clients in %s are not local to it any more", name, p)
			}
		}
	}
	for _, name := range sortedKeys(old.Regions) {
		switch was, is := old.Regions[name], spec.Regions[name]; {
		case is == nil:
			f.warn("regions.%s: it is gone; its clients count as those of the nearest other region", name)
		case !statestore.Same(was, is):
			f.warn("regions.%s: it changes which clients count as its own, or how near they are", name)
		}
	}
	for _, name := range sortedKeys(old.Services) {
		was, is := old.Services[name], spec.Services[name]
		if is == nil {
			continue
		}
		for _, host := range was.Names {
			if was.Zone != is.Zone || !slices.Contains(is.Names, host) {
				f.warn("services.%s.names: %s in %s is not answered any more", name, host, was.Zone)
			}
		}
	}
}
