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
}

// Waits is what the leader has measured on its own monotonic clock, because waits
// must not depend on log time, and what nodes have told it.
type Waits struct {
	// Down is for how long the active side of a stateful service has been down,
	// contested or unobserved without a break, by service.
	Down map[string]time.Duration

	// Acknowledged are the members that have stopped answering with the source of a
	// cutover that is under way, by cutover id.
	Acknowledged map[string][]string
}
