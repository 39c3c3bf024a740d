package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// ParseWaiver reads a waiver as people write it: GATE, GATE=unknown or
// GATE=refused for the outcome of a fence that is still untried, or
// nodes_acknowledged=NODE,NODE for members that a cutover under way waits for.
// Whether the gate is one to waive now is for the state to say.
func ParseWaiver(text string) (statestore.Waiver, error) {
	name, value, valued := strings.Cut(text, "=")
	w := statestore.Waiver{Gate: statestore.Gate(name)}
	switch {
	case w.Gate == statestore.GateNoOther:
		return w, fmt.Errorf("%s cannot be waived: a service moves one step at a time; decide the other cutover first", name)
	case !slices.Contains(statestore.AllGates(), w.Gate):
		return w, fmt.Errorf("must name a gate (%s), is %q", waivableGates(), text)
	case !valued:
		return w, nil
	case w.Gate == statestore.GateNodesAcknowledged:
		nodes, err := nodeList(value)
		w.Nodes = nodes
		return w, err
	case value == string(statestore.UnknownGate), value == refusedOutcome:
		w.Outcome = statestore.GateClass(value)
		return w, nil
	}
	return w, fmt.Errorf("%s=OUTCOME: must be unknown or refused, is %q", name, value)
}

// refusedOutcome is the outcome of a fence that said no.
const refusedOutcome = "refused"

// waivableGates lists the gates that a waiver may name, in the order in which they
// are shown.
func waivableGates() string {
	var names []string
	for _, g := range statestore.AllGates() {
		if g.Waivable() {
			names = append(names, string(g))
		}
	}
	return strings.Join(names, ", ")
}

// nodeList reads NODE,NODE and sorts it.
func nodeList(text string) ([]string, error) {
	nodes := strings.Split(text, ",")
	for i, n := range nodes {
		nodes[i] = strings.TrimSpace(n)
		if nodes[i] == "" {
			return nil, fmt.Errorf("%s=NODE,NODE: must name members, is %q", statestore.GateNodesAcknowledged, text)
		}
	}
	slices.Sort(nodes)
	if c := slices.Compact(slices.Clone(nodes)); len(c) != len(nodes) {
		return nil, fmt.Errorf("%s=NODE,NODE: must name each member once, is %q", statestore.GateNodesAcknowledged, text)
	}
	return nodes, nil
}

// waiverText writes a waiver as ParseWaiver reads it.
func waiverText(w statestore.Waiver) string {
	switch {
	case len(w.Nodes) > 0:
		return string(w.Gate) + "=" + strings.Join(w.Nodes, ",")
	case w.Outcome != "":
		return string(w.Gate) + "=" + string(w.Outcome)
	}
	return string(w.Gate)
}
