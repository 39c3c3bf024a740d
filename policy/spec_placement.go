package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// removals checks that no cluster goes which a service still answers with: its clients
// would go on to it for as long as resolvers keep their answers. Drained first, it can
// go. What is said already of a service is not said again: those in broken, and the
// stateful ones that are active there.
func (f *Findings) removals(st *statestore.State, spec *statestore.Spec, broken []string) {
	v := view{st: st, spec: st.Spec}
	for _, cluster := range sortedKeys(st.Spec.Clusters) {
		if spec.Clusters[cluster] != nil {
			continue
		}
		users := slices.DeleteFunc(sortedKeys(st.Spec.Services), func(service string) bool {
			return spec.Services[service] == nil || slices.Contains(broken, service) || v.active(service) != "" || !v.answersFrom(service, cluster)
		})
		if len(users) == 0 {
			continue
		}
		var commands []string
		for _, b := range CheckDrain(st, cluster, nil) {
			if b.Rule == RuleMaxDrained {
				commands = undrainCommands(st, cluster) // one of them makes room for this drain
			}
		}
		commands = append(commands, fmt.Sprintf(`quorate drain %s --reason "..."`, cluster))
		f.Blockers = append(f.Blockers, Blocker{Rule: RuleInUse, Waivable: true, Reason: fmt.Sprintf(
			`clusters.%s: %s still answered with it; first: %s, and wait until old answers are gone; or have apply do both: quorate apply -f FILE --cascade --reason "..."`,
			cluster, areAnswered(users), strings.Join(commands, ", "))})
	}
}

func areAnswered(services []string) string {
	names, verb := phrase(services, "is", "are")
	return names + " " + verb
}

// undrainCommands bring back the other drained clusters.
func undrainCommands(st *statestore.State, cluster string) []string {
	var commands []string
	for _, c := range sortedKeys(st.Clusters) {
		if c != cluster && st.Clusters[c].Drain != nil {
			commands = append(commands, "quorate undrain "+c)
		}
	}
	return commands
}

// placement checks how services choose among their clusters, as far as the running
// installation decides it.
func (f *Findings) placement(st *statestore.State, spec *statestore.Spec) {
	for _, service := range sortedKeys(spec.Services) {
		f.records(st, spec, service)
		f.openEnded(st, spec, service)
		if st.Spec.Services[service] != nil && st.Spec.ServiceDigest(service) == spec.ServiceDigest(service) {
			continue // said when it was applied
		}
		f.residency(st, spec, service)
		f.located(st, spec, service)
		f.unresolved(st, spec, service)
	}
}

// openEnded warns of a stateful service whose selector takes in a new cluster by
// itself: one without its data would become a destination.
func (f *Findings) openEnded(st *statestore.State, spec *statestore.Spec, service string) {
	is, was := spec.Services[service], st.Spec.Services[service]
	if is.Stateful == nil || was == nil || len(is.Clusters.Only) > 0 {
		return
	}
	before := slices.DeleteFunc(st.Spec.Candidates(service), func(c string) bool { return spec.Clusters[c] == nil })
	for _, c := range spec.Candidates(service) {
		if !slices.Contains(before, c) {
			f.warn("services.%s.clusters: %s takes in %s, which is new to it, as a side it may move to; to keep it out: clusters: {only: [%s]}",
				service, selectorText(is.Clusters), c, strings.Join(before, ", "))
		}
	}
}

// residency says which clients would get no answer, or are one cluster away from it.
func (f *Findings) residency(st *statestore.State, spec *statestore.Spec, service string) {
	v := view{st: st, spec: spec}
	svc := spec.Services[service]
	candidates, serving := spec.Candidates(service), v.serving(service)
	for _, place := range sortedKeys(svc.Residency) {
		allowed := slices.DeleteFunc(sortedSet(svc.Residency[place]), func(c string) bool { return !slices.Contains(candidates, c) })
		up := slices.DeleteFunc(slices.Clone(allowed), func(c string) bool { return !slices.Contains(serving, c) })
		path := fmt.Sprintf("services.%s.residency.%s", service, place)
		switch {
		case len(allowed) == 0:
			f.block(RuleResidency, "%s: none of its clusters is a candidate (%s), so nobody in %s could be answered", path, strings.Join(candidates, ", "), place)
		case st.Spec.Services[service] == nil:
			// Nothing of a new service is judged yet.
		case len(up) == 0:
			f.warn("%s: clients in %s %s: %s", path, place, getInstead(svc, allowed), v.whyNone(service, allowed))
		case len(up) == 1 && len(allowed) > 1:
			f.warn("%s: only %s is left for clients in %s: %s", path, up[0], place,
				v.whyNone(service, slices.DeleteFunc(allowed, func(c string) bool { return c == up[0] })))
		}
	}
}

// whyNone says of each cluster why it does not serve.
func (v view) whyNone(service string, clusters []string) string {
	parts := make([]string, len(clusters))
	for i, c := range clusters {
		switch {
		case v.drained(c, service):
			parts[i] = c + " is drained"
		case len(v.spec.Clusters[c].Endpoints()) == 0:
			parts[i] = c + " has no address yet"
		case v.sideOf(service, c) == health.Unknown:
			parts[i] = c + " is not judged yet"
		default:
			parts[i] = c + " is " + v.sideOf(service, c).String()
		}
	}
	return strings.Join(parts, ", ")
}

// located says where the place of clients matters and nodes cannot tell it.
func (f *Findings) located(st *statestore.State, spec *statestore.Spec, service string) {
	svc := spec.Services[service]
	for _, region := range sortedKeys(svc.Policy.Map) {
		if !slices.ContainsFunc(spec.Candidates(service), func(c string) bool { return spec.Clusters[c].Region == region }) {
			f.warn("services.%s.policy.map.%s: no candidate is in %s, so its clients go to the nearest", service, region, region)
		}
	}
	if svc.Policy.Type == statestore.Geo && len(svc.Policy.Map) == 0 && !slices.ContainsFunc(spec.Candidates(service), func(c string) bool {
		r := spec.Regions[spec.Clusters[c].Region]
		return r != nil && r.Coordinates != nil
	}) {
		f.warn("services.%s.policy: geo with neither a map nor coordinates of a candidate's region: its clients are spread by weight", service)
	}
	if svc.Policy.Type != statestore.Geo && len(svc.Residency) == 0 {
		return
	}
	var without []string
	for _, name := range sortedKeys(st.Members) {
		if m := st.Members[name]; m.Geo == "" && len(m.DNS.IPv4)+len(m.DNS.IPv6) > 0 {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		names, verb := phrase(without, "has", "have")
		f.warn("services.%s: it asks where clients are, and %s %s no GeoIP file (dns.geoip.database in node.yaml): there only cidrs tell", service, names, verb)
	}
}

// unresolved blocks a spec that leaves a service without any address before a new
// hostname is resolved.
func (f *Findings) unresolved(st *statestore.State, spec *statestore.Spec, service string) {
	last := view{st: st, spec: spec}.last(service)
	if len(last.V4.Shares)+len(last.V6.Shares) == 0 || len(spec.Candidates(service)) == 0 || len(spec.ServiceTargets(service)) > 0 {
		return
	}
	f.block(RuleMinServing, "services.%s: it would have no address until a hostname is resolved; add a cluster under the new hostname first, and remove the old one when that serves", service)
}

// records checks that what a service is published as beside addresses takes nobody's
// name: the SRV record's owner is made from the service's key.
func (f *Findings) records(st *statestore.State, spec *statestore.Spec, service string) {
	svc := spec.Services[service]
	if svc.SRV == nil {
		return
	}
	owner := fmt.Sprintf("_%s._%s", service, svc.SRV.Proto)
	zone := spec.Zones[svc.Zone]
	if zone == nil {
		return
	}
	for _, name := range sortedKeys(st.Members) {
		if host := strings.ToLower(strings.TrimSuffix(st.Members[name].DNS.Name, ".")); host != "" && host+"." == owner+"."+svc.Zone {
			f.block(RuleNameServer, "services.%s.srv: %s is the name server %s", service, host, name)
		}
	}
	for _, typ := range []string{"SRV", "CNAME"} {
		if zone.Records[owner][typ] != nil {
			f.block(RuleNameServer, "services.%s.srv: %s.%s is already zones.%s.records.%s.%s", service, owner, svc.Zone, strings.TrimSuffix(svc.Zone, "."), owner, typ)
		}
	}
	for _, other := range sortedKeys(spec.Services) {
		if o := spec.Services[other]; o.Zone == svc.Zone && slices.Contains(o.Names, owner) {
			f.block(RuleNameServer, "services.%s.srv: %s.%s is a name of services.%s", service, owner, svc.Zone, other)
		}
	}
}

// Matches returns which clusters the selectors pick, of services that are new or pick
// others than under the old spec, sorted: what a selector takes in is not seen in its
// text.
func Matches(old, spec *statestore.Spec) []Match {
	out := []Match{}
	before, now := old.Picks(), spec.Picks()
	for _, service := range sortedKeys(spec.Services) {
		was, is := before(service), now(service)
		if old.Services[service] != nil && slices.Equal(was, is) {
			continue
		}
		m := Match{Service: service, Selector: selectorText(spec.Services[service].Clusters), Clusters: is}
		if old.Services[service] != nil {
			m.Came, m.Went = without(is, was), without(was, is)
		}
		out = append(out, m)
	}
	return out
}

// without returns what of list is not in other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// selectorText is a selector as people write it.
func selectorText(s statestore.Selector) string {
	text := "all clusters"
	switch {
	case len(s.Only) > 0:
		text = "only: [" + strings.Join(s.Only, ", ") + "]"
	case s.Match != "":
		text = fmt.Sprintf("match: %q", s.Match)
	}
	if len(s.Exclude) > 0 {
		text += ", exclude: [" + strings.Join(s.Exclude, ", ") + "]"
	}
	return text
}
