package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// needsPlaces reports whether answers of the service depend on where a client's
// address is: then nodes with other GeoIP files answer the same client otherwise.
func needsPlaces(sp *statestore.Spec, svc *statestore.Service) bool {
	onlyAffinity := len(svc.Residency) == 0 && svc.Policy.Type != statestore.Geo && svc.Policy.Type != statestore.Latency
	return svc.ByClient() && (!onlyAffinity || len(sp.Regions) > 0)
}

// overrideView returns the pin in force of a service; nil: there is none.
func overrideView(st *statestore.State, service string) *apitype.Override {
	ss := st.Services[service]
	if ss == nil || ss.Override == nil {
		return nil
	}
	o := ss.Override
	return &apitype.Override{
		Cluster: o.Cluster, By: o.By, Reason: o.Reason, At: o.At, Until: o.Until,
		Note: policy.OverrideNote(st, service),
	}
}

// pinned begins what is said of a pin.
const pinned = "pinned to "

// pinText says in a few words that a service is pinned, and until when.
func pinText(o *apitype.Override) string {
	text := pinned + o.Cluster + " by " + o.By + until(o.Until)
	if o.Note != "" {
		text += ", without effect: " + o.Note
	}
	return text
}

// degradedOf returns why each of the service's clusters that is up is not well, by
// cluster. Only what is up can be degraded.
func degradedOf(st *statestore.State, service string) map[string]string {
	ss := st.Services[service]
	if ss == nil {
		return nil
	}
	whys := map[string][]string{}
	for t, ts := range ss.Targets {
		if ts.Verdict.Side != health.Up {
			continue
		}
		if why := st.Degraded(t); why != "" && !slices.Contains(whys[t.Cluster], why) {
			whys[t.Cluster] = append(whys[t.Cluster], why)
		}
	}
	out := make(map[string]string, len(whys))
	for cluster, list := range whys {
		slices.Sort(list)
		out[cluster] = strings.Join(list, ", ")
	}
	return out
}

// degradedView lists them as people read them, such as "eu (cert)".
func degradedView(whys map[string]string) []string {
	out := []string{}
	for _, c := range sortedKeys(whys) {
		out = append(out, c+" ("+whys[c]+")")
	}
	return out
}

// placementNotes are what stands out of where a service sends its clients.
func placementNotes(st *statestore.State, service string, r statestore.Rotation) []string {
	var out []string
	if o := overrideView(st, service); o != nil {
		out = append(out, pinText(o))
	}
	spills := map[string]int{}
	for _, p := range []statestore.Pool{r.V4, r.V6} {
		for _, s := range p.Shares {
			spills[s.Cluster] = max(spills[s.Cluster], s.Spill)
		}
	}
	for _, c := range sortedKeys(spills) {
		if spills[c] > 0 {
			out = append(out, fmt.Sprintf("%s is nearly full: %d%% of its clients go on", c, spills[c]))
		}
	}
	whys := degradedOf(st, service)
	for _, c := range sortedKeys(whys) {
		out = append(out, c+" degraded ("+whys[c]+")")
	}
	return out
}

// placementBanners are what an operator must see of pins, capacity and places. What
// is told of services is told of those in status only.
func (s *Server) placementBanners(st *statestore.State, status apitype.Status, add func(code, subject, format string, args ...any)) {
	ill := map[string][]string{} // by cluster: its services, with why
	for _, svc := range status.Services {
		if o := svc.Override; o != nil {
			add("override", "services/"+svc.Name, "%s %s: %s", svc.Name, pinText(o), o.Reason)
		}
		for c, why := range degradedOf(st, svc.Name) {
			ill[c] = append(ill[c], svc.Name+" ("+why+")")
		}
	}
	for _, c := range status.Clusters {
		if c.FrontDoor != nil && c.FrontDoor.Degraded != "" {
			ill[c.Name] = append(ill[c.Name], "front door ("+c.FrontDoor.Degraded+")")
		}
	}
	for _, c := range sortedKeys(ill) {
		add("degraded", "clusters/"+c, "%s is degraded, and stays in answers: %s", c, strings.Join(ill[c], ", "))
	}
	for _, name := range sortedKeys(st.Spec.Clusters) {
		c := st.Spec.Clusters[name]
		if c.Hostname != "" && len(c.Endpoints()) == 0 {
			add("unresolved", "clusters/"+name, "%s has no address: the observers have not agreed on what %s resolves to", name, c.Hostname)
		}
		if cs := st.Clusters[name]; c.CapacityFrom != nil && (cs == nil || cs.Reported == nil) {
			counts := "none is declared"
			if c.Capacity > 0 {
				counts = fmt.Sprintf("the declared %d counts", c.Capacity)
			}
			add("capacity-stale", "clusters/"+name, "%s: no fresh report of its capacity; %s", name, counts)
		}
	}
	if text := geoDiffers(st, status); text != "" {
		add("geo-differs", "", "%s", text)
	}
	if s.cfg.MissingSecrets != nil {
		if missing := s.cfg.MissingSecrets(); len(missing) > 0 {
			add("secret-unresolved", "members/"+s.cfg.Node, "%s cannot use what the spec names: %s", s.cfg.Node, strings.Join(missing, "; "))
		}
	}
	if s.cfg.Backlog != nil {
		if n, late := s.cfg.Backlog(); n > 0 && late >= lateChecks {
			add("probe-backlog", "members/"+s.cfg.Node, "%s has %s waiting, the oldest for %s: see observer.max_concurrency", s.cfg.Node, count(n, "check"), late.Round(time.Second))
		}
	}
}

// lateChecks is how late checks of this node are before people are told: those that
// only keep the pace of rechecks are sooner done.
const lateChecks = 2 * time.Second

// geoDiffers says that members have different GeoIP files, or some none, while a
// service's answers depend on them; empty: they do not, or no harm comes of it.
func geoDiffers(st *statestore.State, status apitype.Status) string {
	needs := slices.ContainsFunc(status.Services, func(svc apitype.ServiceSummary) bool {
		return needsPlaces(st.Spec, st.Spec.Services[svc.Name])
	})
	if !needs {
		return ""
	}
	builds := map[string][]string{}
	for _, name := range sortedKeys(st.Members) {
		m := st.Members[name]
		if m.DNS.Name == "" && len(m.DNS.IPv4)+len(m.DNS.IPv6) == 0 {
			continue // it answers nobody
		}
		build := m.Geo
		if build == "" {
			build = "none"
		}
		builds[build] = append(builds[build], name)
	}
	if len(builds) < 2 {
		return ""
	}
	parts := make([]string, 0, len(builds))
	for _, b := range sortedKeys(builds) {
		parts = append(parts, b+" on "+strings.Join(builds[b], ", "))
	}
	return "nodes may answer the same client differently: GeoIP file " + strings.Join(parts, "; ")
}
