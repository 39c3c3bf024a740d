package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// nsBannerFor is how long a change of the NS set stays on the banner: a parent
// zone is changed by people, on a working day.
const nsBannerFor = 24 * time.Hour

// banners are what an operator must see, the gravest first. What is told of
// services is told of those in status only.
func (s *Server) banners(st *statestore.State, status apitype.Status) []apitype.Banner {
	q := status.Quorum
	out := []apitype.Banner{}
	add := func(code, subject, format string, args ...any) {
		out = append(out, apitype.Banner{Code: code, Subject: subject, Text: fmt.Sprintf(format, args...)})
	}
	if trouble := s.cfg.Quorum().Trouble; trouble != "" {
		add("out-of-consensus", "members/"+s.cfg.Node, "%s", trouble)
	}
	if s.cfg.Refused != nil {
		for _, why := range s.cfg.Refused() {
			add("reload-refused", "members/"+s.cfg.Node, "%s goes on with what it read before: %s", s.cfg.Node, why)
		}
	}
	if !q.Available {
		add("no-quorum", "", "NO QUORUM - as of %s, read only; DNS answers from the last agreed table", clock(q.StaleSince))
	}
	for _, svc := range status.Services {
		if svc.Stateful != nil && svc.Stateful.Unconfirmed {
			add("unconfirmed", "services/"+svc.Name, "%s: the active side is not confirmed; nodes answer what they last knew; name it: quorate thaw %s --active CLUSTER", svc.Name, svc.Name)
		}
	}
	if t := s.cfg.Table(); t != nil {
		for _, e := range t.Epochs() {
			if e.Withheld != "" {
				add("withheld", "services/"+e.Service, "%s answers nobody for %s: %s", s.cfg.Node, e.Service, e.Withheld)
			}
		}
	}
	for _, w := range status.Waiting {
		add(apitype.BannerWaiting, "services/"+w.Service, "%s", waitingText(w))
	}
	if st.Revision == 0 {
		add("no-spec", "", "no spec yet: quorate apply -f spec.yaml")
	}
	shown := func(d policy.Disagreement) bool {
		return d.Target.Service == "" || slices.ContainsFunc(status.Services, func(svc apitype.ServiceSummary) bool { return svc.Name == d.Target.Service })
	}
	for _, o := range lone(policy.Disagreements(st), shown) {
		add("lone-observer", "members/"+o.observer, "%s alone sees %s; outvoted, nothing moves", o.observer, strings.Join(o.sees, ", "))
	}
	for _, name := range sortedKeys(st.Members) {
		if !st.Members[name].Observes {
			continue
		}
		switch o := st.Observers[health.ObserverID(name)]; {
		case o == nil:
			add("observer-unconfirmed", "members/"+name, "%s has not voted yet", name)
		case o.Silent:
			add("observer-silent", "members/"+name, "%s is silent since %s: its votes are set aside", name, clock(o.Since))
		case !o.Confirmed:
			add("observer-unconfirmed", "members/"+name, "%s has not confirmed its votes to this leader", name)
		}
	}
	for _, name := range sortedKeys(st.Freezes) {
		f, what := st.Freezes[name], "all services"
		if name != "" {
			what = "service " + name
		}
		add("frozen", name, "%s frozen by %s: %s%s", what, f.By, f.Reason, until(f.Until))
	}
	for _, name := range sortedKeys(st.Clusters) {
		if d := st.Clusters[name].Drain; d != nil {
			what := ""
			if len(d.Services) > 0 {
				what = " for " + strings.Join(d.Services, ", ")
			}
			add("drained", "clusters/"+name, "%s drained%s by %s: %s%s", name, what, d.By, d.Reason, until(d.Until))
		}
	}
	s.placementBanners(st, status, add)
	if at := nsChangedAt(st); !at.IsZero() && st.Now.Sub(at) < nsBannerFor {
		add("ns-changed", "", "the name servers changed at %s: the parent's delegation must follow", clock(at))
	}
	return out
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", until " + clock(t)
}

// nsChangedAt returns when the members that resolvers are sent to changed last,
// after there was a spec to serve; zero when that is not in the events.
func nsChangedAt(st *statestore.State) time.Time {
	var at time.Time
	known := map[string]string{}
	serving := false
	for _, e := range st.Events {
		if e.Type == "spec.applied" {
			serving = true
		}
		name, ok := strings.CutPrefix(e.Subject, "members/")
		if !ok || !strings.HasPrefix(e.Type, "member.") {
			continue
		}
		was, seen := known[name]
		is := advertised(e.Detail)
		known[name] = is
		switch {
		case !serving:
		case e.Type == "member.changed" && !seen: // what it was before is not kept
		case e.Type == "member.removed" && (was != "" || !seen), was != is:
			at = e.At
		}
	}
	return at
}

// advertised returns where resolvers reach the member that an event is about, as
// text to compare; empty when it answers nobody.
func advertised(detail any) string {
	data, err := json.Marshal(detail)
	if err != nil {
		return ""
	}
	var m statestore.Member
	if json.Unmarshal(data, &m) != nil || m.DNS.Name == "" && len(m.DNS.IPv4)+len(m.DNS.IPv6) == 0 {
		return ""
	}
	return fmt.Sprint(m.DNS)
}

// outvoted is an observer and what it alone sees.
type outvoted struct {
	observer string
	sees     []string
}

// lone groups the disagreements that are shown by observer: the one that is more
// likely sick itself than right. Several observers that contradict the same verdict
// are not alone.
func lone(ds []policy.Disagreement, shown func(policy.Disagreement) bool) []outvoted {
	against := map[health.Target]int{}
	for _, d := range ds {
		against[d.Target]++
	}
	byName := map[string]*outvoted{}
	for _, d := range ds {
		if against[d.Target] > 1 || !shown(d) {
			continue
		}
		o := byName[string(d.Observer)]
		if o == nil {
			o = &outvoted{observer: string(d.Observer)}
			byName[o.observer] = o
		}
		what := d.Target.Cluster
		if d.Target.Service != "" {
			what = d.Target.Service + "/" + what
		}
		sees := what + " " + d.Side.String()
		if d.Reason != "" {
			sees += " (" + d.Reason + ")"
		}
		if !slices.Contains(o.sees, sees) {
			o.sees = append(o.sees, sees)
		}
	}
	out := make([]outvoted, 0, len(byName))
	for _, name := range sortedKeys(byName) {
		out = append(out, *byName[name])
	}
	return out
}
