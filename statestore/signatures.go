package statestore

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxRebase is the longest time that a leader without a monotonic base may say has
// passed by its wall clock before open signatures are void: beyond it nobody can
// tell whether they are still fresh.
const maxRebase = 30 * time.Second

// voidSignatures makes the signatures of cutovers that have not begun void, when
// the entry's log time rests on a wall clock that ran back or jumped. It returns
// a record of that, or a zero one. st is the entry's own.
func (st *State) voidSignatures(before *State, at entry) record {
	m := at.meta
	if !m.Rebased || before.Now.IsZero() || m.Elapsed >= 0 && m.Elapsed <= maxRebase {
		return record{}
	}
	var lost []string
	subject := "installation"
	for _, co := range st.OpenCutovers() {
		if !co.Phase.Pending() || len(co.Signatures) == 0 {
			continue
		}
		var by []string
		for _, s := range co.Signatures {
			by = append(by, s.User)
		}
		text := fmt.Sprintf("%s void: the leader restarted and its clock says %s have passed", count(len(by), "signature is", "signatures are"), m.Elapsed)
		next := co.step(Proposed, at, Automation, text)
		next.Signatures, next.Voided = nil, co.Voided+len(by)
		st.put(next)
		if subject = "services/" + co.Service; len(lost) > 0 {
			subject = "installation"
		}
		lost = append(lost, fmt.Sprintf("%s: signatures of %s are void, the leader's clock jumped by %s", co.title(), list(slices.Compact(by)), m.Elapsed))
	}
	if len(lost) == 0 {
		return record{}
	}
	return record{kind: "cutover.revised", subject: subject, text: strings.Join(lost, "; "), detail: CutoverDetail{Changes: lost}}
}
