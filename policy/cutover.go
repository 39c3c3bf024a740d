package policy

import (
	"time"

	"github.com/quorate/quorate/statestore"
)

// Gate is one condition of a cutover as it is judged now.
type Gate struct {
	Name     statestore.Gate
	Class    statestore.GateClass
	Why      string        // one line for people: what was found, with values
	Age      time.Duration // since it has been so, in log time; 0: not known
	Waivable bool
	Need     int      // distinct people whose waiver lets it pass; 0 when clean
	Waived   []string // people who have waived it, in order of signing
}

// Passed reports whether the gate is clean or waived by enough people.
func (g Gate) Passed() bool {
	return g.Class == statestore.Clean || g.Waivable && len(g.Waived) >= g.Need
}

// Move is a cutover somebody wants. An empty To stands for the side that policy
// chooses: the preferred one for a failback, else the first healthy candidate.
type Move struct {
	Service string
	To      string
	Kind    statestore.CutoverKind

	// Automatic says that nobody asked for it: the cool-down holds then for an
	// emergency too.
	Automatic bool

	// Waited is for how long the leader itself has seen the source unwell; zero for
	// whoever does not lead.
	Waited time.Duration
}

// MoveOf returns what a cutover moves.
func MoveOf(co *statestore.Cutover) Move {
	return Move{Service: co.Service, To: co.Destination, Kind: co.Kind, Automatic: co.Proposer == statestore.Automation}
}

// Waits is what the leader has measured on its own monotonic clock, because waits
// must not depend on log time, and what nodes have told it.
type Waits struct {
	// Down is for how long the active side of a stateful service has been down,
	// contested or unobserved without a break, by service.
	Down map[string]time.Duration

	// Unheard are the observing members that the leader has not heard lately. An
	// approved cutover waits for them: once it has begun nobody is answered until
	// every member has acknowledged, and one that is gone would leave the name dark.
	// Either it is heard again, or its silence becomes part of what people sign.
	Unheard []string

	// Acknowledged are the members that have stopped answering with the source of a
	// cutover that is under way, by cutover id.
	Acknowledged map[string][]string
}

// Evidence returns what an approval of the move would be about: the state's facts
// and the class of each gate. A move without a destination gets the one that
// policy chooses. It is zero for a move that is impossible.
func Evidence(st *statestore.State, m Move) statestore.Evidence {
	m = destined(st, m)
	ev, err := st.Facts(m.Service, m.Kind, m.To)
	if err != nil {
		return statestore.Evidence{}
	}
	for _, g := range judge(st, m) {
		ev.Gates = append(ev.Gates, statestore.GateResult{Gate: g.Name, Class: g.Class})
	}
	return ev
}

// G4Enforced reports whether something makes sure that only one side of the
// service takes writes: a fence or a writer lease. None can be configured yet, so
// a person has to waive source_fenced each time.
func G4Enforced(*statestore.Service) bool { return false }
