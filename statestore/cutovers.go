package statestore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxEndedCutovers bounds the ended cutovers that are kept: years of them. What
// made a service's current epoch is kept beyond that (G2).
const maxEndedCutovers = 1000

const cutoverPrefix = "CUT-"

// cutoverNumber returns the number in a cutover's id; 0 for none.
func cutoverNumber(id string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, cutoverPrefix), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// CompareCutovers orders ids of cutovers by number: CUT-2 before CUT-10.
func CompareCutovers(a, b string) int {
	return cmp.Or(cmp.Compare(cutoverNumber(a), cutoverNumber(b)), strings.Compare(a, b))
}

// CutoverIDs returns the ids of all cutovers that are kept, oldest first.
func (st *State) CutoverIDs() []string {
	return slices.SortedFunc(maps.Keys(st.Cutovers), CompareCutovers)
}

// OpenCutovers returns the cutovers of which something can still become, oldest first.
func (st *State) OpenCutovers() []*Cutover {
	var open []*Cutover
	for _, id := range st.CutoverIDs() {
		if co := st.Cutovers[id]; co.Phase.Open() {
			open = append(open, co)
		}
	}
	return open
}

// OpenCutover returns the service's open cutover; nil when there is none.
func (st *State) OpenCutover(service string) *Cutover {
	s, ok := st.Services[service]
	if !ok || s.Ownership == nil || s.Ownership.Open == "" {
		return nil
	}
	return st.Cutovers[s.Ownership.Open]
}

// LastCutover returns the service's newest cutover that matches; nil when there
// is none.
func (st *State) LastCutover(service string, match func(*Cutover) bool) *Cutover {
	var last *Cutover
	for id, co := range st.Cutovers {
		if co.Service == service && match(co) && (last == nil || CompareCutovers(id, last.ID) > 0) {
			last = co
		}
	}
	return last
}

// put replaces a cutover and gives it a new version. Of the ended ones it forgets
// the oldest beyond what is kept.
func (st *State) put(co *Cutover) {
	st.Versions++
	co.Version = st.Versions
	st.Cutovers = with(st.Cutovers, co.ID, co)
	if co.Phase.Open() || len(st.Cutovers) <= maxEndedCutovers {
		return
	}
	current := map[string]bool{}
	for _, s := range st.Services {
		if s.Ownership != nil {
			current[s.Ownership.Cutover] = true
		}
	}
	var ended []string
	for id, co := range st.Cutovers {
		if !co.Phase.Open() && !current[id] {
			ended = append(ended, id)
		}
	}
	slices.SortFunc(ended, CompareCutovers)
	for _, id := range ended[:max(0, len(ended)-maxEndedCutovers)] {
		delete(st.Cutovers, id) // The map is this entry's own since with.
	}
}

// step returns a copy of the cutover in a phase, with the step recorded.
func (co *Cutover) step(phase CutoverPhase, at entry, by, text string) *Cutover {
	next := *co
	next.Phase = phase
	next.Steps = append(slices.Clip(co.Steps), Step{
		Phase: phase, At: at.now, Wall: at.meta.Wall.UTC(), By: by, Index: at.index, Text: text,
	})
	if !phase.Open() {
		next.Decided = at.now
	}
	return &next
}

// title names the cutover in a sentence.
func (co *Cutover) title() string {
	return fmt.Sprintf("%s (%s from %s to %s)", co.ID, co.Service, co.Source, co.Destination)
}
