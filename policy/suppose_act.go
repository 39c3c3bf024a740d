package policy

import (
	"maps"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// acts does what people are supposed to do: undrain, drain, pin, approve.
func (w *whatIf) acts(conds []Condition) {
	var drains []string
	for _, c := range conds {
		switch c.Is {
		case isUndrained:
			w.drain(c.Of, nil)
			w.replan()
		case isDrained:
			drains = append(drains, c.Of)
		}
	}
	w.drains(drains)
	for _, c := range conds {
		switch {
		case c.Is == isApproved:
			w.approve(w.st.Cutovers[c.Of])
		case c.pins():
			w.pin(c.Of, c.Is)
		}
	}
}

// drains takes the clusters out together, as one command would.
func (w *whatIf) drains(clusters []string) {
	if len(clusters) == 0 {
		return
	}
	for _, b := range CheckDrains(w.st, clusters, nil) {
		w.note("draining %s would be refused: %s", strings.Join(clusters, ", "), b.Reason)
	}
	for _, c := range clusters {
		w.drain(c, &statestore.Drain{By: "a person", Reason: "supposed", At: w.st.Now})
	}
	w.replan()
}

func (w *whatIf) drain(cluster string, d *statestore.Drain) { w.st.Clusters[cluster].Drain = d }

func (w *whatIf) pin(service, cluster string) {
	for _, b := range CheckOverride(w.st, service, cluster) {
		w.note("pinning %s to %s would be refused: %s", service, cluster, b.Reason)
	}
	w.st.Services[service].Override = &statestore.Override{Cluster: cluster, By: "a person", Reason: "supposed", At: w.st.Now}
	w.replan()
}

// approve carries an open cutover to its end.
func (w *whatIf) approve(co *statestore.Cutover) {
	if co.Phase.Pending() {
		var open []string
		for _, g := range Gates(w.st, co) {
			if !g.Passed() {
				open = append(open, string(g.Name))
			}
		}
		if len(open) > 0 {
			w.note("%s needs a waiver of %s", co.ID, strings.Join(open, ", "))
		}
	}
	ss := w.st.Services[co.Service]
	own := statestore.Ownership{
		Active: co.Destination, Epoch: max(co.Next, w.st.Epochs[co.Service]+1), Generation: w.st.Generation,
		Since: w.st.Now, Index: w.st.Index, Cutover: co.ID,
	}
	ss.Ownership = &own
	done := *co
	done.Phase, done.Decided = statestore.Done, w.st.Now
	w.st.Cutovers = maps.Clone(w.st.Cutovers)
	w.st.Cutovers[co.ID] = &done
	if rc := ActiveRotation(w.st, co.Service, co.Destination); !sameRotation(rc, ss.Rotation) {
		w.install(rc)
	}
}
