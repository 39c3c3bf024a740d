package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// matrix folds all targets of a cluster into one cell for each observer.
func matrix(st *statestore.State, status apitype.Status) console.Matrix {
	var m console.Matrix
	byCluster := map[string][]apitype.TargetVotes{}
	for _, cl := range status.Clusters {
		var targets []apitype.TargetVotes
		if cs := st.Clusters[cl.Name]; cs != nil {
			targets = targetsView(st, cs.Targets, "")
		}
		for _, svc := range status.Services {
			if ss := st.Services[svc.Name]; ss != nil {
				targets = append(targets, targetsView(st, ss.Targets, cl.Name)...)
			}
		}
		byCluster[cl.Name] = targets
		m.Clusters = append(m.Clusters, column(cl, targets, status.Services))
	}
	for _, name := range sortedKeys(st.Members) {
		member := st.Members[name]
		if !member.Observes {
			continue
		}
		row := console.Row{Observer: name, Region: member.Region}
		if o := st.Observers[health.ObserverID(name)]; !o.Counts() {
			row.Note = observerState(o)
		}
		for _, cl := range status.Clusters {
			row.Cells = append(row.Cells, cell(byCluster[cl.Name], name))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// rank orders sides by how much they need to be seen.
func rank(s health.Side) int {
	switch s {
	case health.Down:
		return 2
	case health.Unknown:
		return 1
	}
	return 0
}

func column(cl apitype.ClusterSummary, targets []apitype.TargetVotes, services []apitype.ServiceSummary) console.Column {
	col := console.Column{
		Name: cl.Name, Region: cl.Region, Hostname: cl.Hostname, Capacity: capacityText(cl),
		Drained: cl.Drain != nil, State: console.Unknown,
	}
	shown := -1
	for i, t := range targets {
		if shown < 0 || rank(t.Verdict.Side) > rank(targets[shown].Verdict.Side) {
			shown = i
		}
	}
	if shown >= 0 {
		v := targets[shown].Verdict
		held := v.Up
		if v.Side == health.Down {
			held = v.Down
		}
		col.State, col.Since, col.Mark = console.State(v.Side.String()), v.Since, string(v.Mark)
		col.Regions = fmt.Sprintf("%d/%d", held, v.Eligible)
	}
	if col.State == console.Up {
		var whys []string
		for _, t := range targets {
			whys = append(whys, t.Verdict.Degraded)
		}
		if col.Why = distinct(whys); col.Why != "" {
			col.State = console.Degraded
		}
	}
	for _, svc := range services {
		for _, sh := range append(svc.V4[:len(svc.V4):len(svc.V4)], v6Only(svc)...) {
			if sh.Cluster == cl.Name {
				col.Answers = append(col.Answers, fmt.Sprintf("%s %.0f%%", svc.Name, sh.Percent))
			}
		}
	}
	return col
}

// capacityText says what a cluster reports that it can take; empty: it reports
// nothing.
func capacityText(cl apitype.ClusterSummary) string {
	switch {
	case cl.Reported == nil:
		return ""
	case cl.Capacity > 0:
		return fmt.Sprintf("%d of %d", *cl.Reported, cl.Capacity)
	}
	return strconv.Itoa(*cl.Reported)
}

// distinct joins what is said, each thing once.
func distinct(texts []string) string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ", ")
}

// v6Only returns the IPv6 shares of a service that has no IPv4 at all.
func v6Only(svc apitype.ServiceSummary) []apitype.Share {
	if len(svc.V4) > 0 {
		return nil
	}
	return svc.V6
}

func cell(targets []apitype.TargetVotes, observer string) console.Cell {
	out := console.Cell{State: console.Unknown}
	shown, first := health.Up, true
	var details, bad, ill, whys []string
	for _, t := range targets {
		i := slices.IndexFunc(t.Votes, func(v apitype.Vote) bool { return v.Observer == observer })
		if i < 0 {
			continue // its labels keep it from voting on this one
		}
		v := t.Votes[i]
		line := t.Target + " " + v.Side.String()
		if v.Reason != "" {
			line += " (" + v.Reason + ")"
		}
		if v.Degraded != "" {
			line += ", degraded: " + v.Degraded
		}
		if v.Note != "" {
			line += ", " + v.Note
		}
		details = append(details, line)
		out.Aside = out.Aside || !v.Counts
		what := cmp.Or(t.Service, "front door")
		switch {
		case v.Side != health.Up:
			bad = append(bad, what)
		case v.Degraded != "":
			ill, whys = append(ill, what), append(whys, v.Degraded)
		}
		if v.Counts && v.Side != health.Unknown && t.Verdict.Side != health.Unknown && v.Side != t.Verdict.Side {
			out.Lone = true
		}
		if first || rank(v.Side) > rank(shown) {
			shown, first = v.Side, false
			out.Text, out.Since = v.Reason, v.Since
			if v.Side == health.Up {
				out.Text = "" // "up ok" says it twice
			}
		}
	}
	if first {
		out.Text, out.Aside = "no vote", true
		return out
	}
	out.State = console.State(shown.String())
	if shown == health.Up && len(ill) > 0 {
		out.State, out.Text, bad = console.Degraded, distinct(whys), ill
	}
	if n := len(details); len(bad) > 0 && len(bad) < n {
		out.Text = strings.TrimSpace(out.Text + " " + strings.Join(slices.Compact(bad), ", "))
	}
	out.Detail = strings.Join(details, "\n")
	return out
}

// serviceRow is a service of the overview, with what this person can do about it.
func serviceRow(c *call, svc apitype.ServiceSummary) console.ServiceRow {
	row := console.ServiceRow{ServiceSummary: svc, Notes: svc.Notes}
	if svc.Override != nil { // shown in a way of its own
		row.Notes = slices.DeleteFunc(slices.Clone(svc.Notes), func(n string) bool { return strings.HasPrefix(n, pinned) })
	}
	own := svc.Stateful
	if own == nil {
		return row
	}
	row.Notes = []string{}
	for _, n := range svc.Notes {
		switch {
		case strings.HasPrefix(n, "ACTIVE SIDE DOWN"):
			row.Held = n
		case n == "G4 not enforced", own.Open != "" && strings.HasPrefix(n, own.Open+" "): // shown in a way of their own
		default:
			row.Notes = append(row.Notes, n)
		}
	}
	if mayMove(c, svc) {
		row.Move = "/cutovers/new?service=" + svc.Name
	}
	if mayConfirm(c, svc) {
		row.Confirm = confirmPath(svc.Name)
	}
	return row
}

// sideState is the side of a cluster for a service, as the evidence of a cutover has
// it: one endpoint that nobody has judged leaves it unknown.
func sideState(st *statestore.State, service, cluster string) console.State {
	return console.State(st.SideOf(service, cluster).String())
}
