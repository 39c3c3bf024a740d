package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// maxConditions bounds what is supposed at once.
const maxConditions = 64

// supposition is the state as it would be, and what people should know of it.
type supposition struct {
	said   []string // the conditions, as they were written
	before *statestore.State
	after  *statestore.State
	notes  []string
	quorum string // what would become of the quorum, in a line
}

// conditionsOf splits a comma list; empty elements count for nothing.
func conditionsOf(list string) []string {
	var out []string
	for c := range strings.SplitSeq(list, ",") {
		if c = strings.TrimSpace(c); c != "" {
			out = append(out, c)
		}
	}
	return out
}

// suppose returns st as the conditions would leave it. Where they take the quorum
// away nothing follows from them: the nodes that are left go on with what they have.
func (s *Server) suppose(st *statestore.State, said []string, pointer string) (supposition, error) {
	sup := supposition{said: said, before: st, after: st}
	if len(said) > maxConditions {
		return sup, invalidField(pointer, "must be at most %d conditions, is %d", maxConditions, len(said))
	}
	conditions, err := policy.ParseConditions(said)
	if err != nil {
		return sup, conditionErrors(pointer, err)
	}
	if sup.after, sup.notes, err = policy.Suppose(st, conditions); err != nil {
		return sup, conditionErrors(pointer, err)
	}
	text, holds := s.quorumOutlook(st, conditions)
	sup.quorum = text
	if !holds {
		sup.after = st
		if !slices.Contains(sup.notes, text) { // only this node knows, and what was noted does not come about
			sup.notes = []string{text}
		}
	}
	return sup, nil
}

func conditionErrors(pointer string, err error) error {
	var errs []apitype.FieldError
	for _, e := range each(err) {
		errs = append(errs, apitype.FieldError{Pointer: pointer, Message: e.Error()})
	}
	return invalid(errs...)
}

// quorumOutlook says what becomes of the quorum under the conditions, and whether it
// holds. The state knows who votes; that a voter cannot be reached now, only this node.
func (s *Server) quorumOutlook(st *statestore.State, conditions []policy.Condition) (text string, holds bool) {
	text, holds = policy.QuorumOutlook(st, conditions)
	q := s.cfg.Quorum()
	switch {
	case !holds:
		return text, false
	case !q.HasQuorum:
		return "there is none now: nothing of this happens before it is back", true
	}
	regions := policy.LostRegions(conditions)
	lost := func(name string) bool {
		m := st.Members[name]
		return m != nil && slices.Contains(regions, m.Region)
	}
	voters, left, gone := 0, 0, 0
	var unreachable []string
	for _, srv := range q.Servers {
		if !srv.Voter {
			continue
		}
		voters++
		switch {
		case lost(srv.Name):
			gone++
		case srv.Reachable || srv.Awaited || srv.Name == s.cfg.Node:
			left++
		default:
			unreachable = append(unreachable, srv.Name)
		}
	}
	if gone == 0 || len(unreachable) == 0 {
		return text, true
	}
	slices.Sort(unreachable)
	text = fmt.Sprintf("%d of %d voters left, since %s cannot be reached now: ", left, voters, strings.Join(unreachable, ", "))
	if 2*left > voters {
		return text + "quorum holds", true
	}
	return text + "no quorum, answers stay as they are", false
}

// supposedTable is what this node would answer from: its own table's state with the
// conditions, and all that the node knows itself.
func (s *Server) supposedTable(t *routing.Table, said []string) (*routing.Table, supposition, error) {
	sup, err := s.suppose(t.State(), said, "?if")
	if err != nil {
		return nil, sup, err
	}
	return s.tableOf(t, sup.after), sup, nil
}

// tableOf compiles a state as this node would. What cannot be served is left out of
// the table, as it is of the one that DNS answers from, which says so in the log.
func (s *Server) tableOf(t *routing.Table, st *statestore.State) *routing.Table {
	if t == nil {
		next, _ := routing.Compile(st)
		return next
	}
	if t.State() == st {
		return t
	}
	next, _ := t.Suppose(st)
	return next
}

// supposeStep begins the trace of an answer that is not given.
func supposeStep(sup supposition) apitype.Step {
	notes := sup.notes
	if !slices.Contains(notes, sup.quorum) {
		notes = append(slices.Clone(notes), sup.quorum)
	}
	return apitype.Step{Step: "if", Text: "suppose " + strings.Join(sup.said, ", ") + ": a supposition, answers stay as they are", Note: strings.Join(notes, "; ")}
}

// maySuppose refuses conditions about services that the caller may not read: what
// would become of them tells what they are.
func maySuppose(c *call, said []string) error {
	if c.st.Can(c.p, statestore.CanRead, "") {
		return nil
	}
	conditions, err := policy.ParseConditions(said)
	if err != nil {
		return nil // which is said by whoever supposes them
	}
	for _, cond := range conditions {
		service := cond.Service(c.st)
		if service == "" {
			continue // every reader sees clusters and regions
		}
		if err := allow(c.st, c.p, statestore.CanRead, service); err != nil {
			return err
		}
	}
	return nil
}
