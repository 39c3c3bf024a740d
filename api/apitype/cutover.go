package apitype

import "time"

// Cutover is a change of a stateful service's active side, from its proposal on.
type Cutover struct {
	ID          string    `json:"id"` // "CUT-17"; empty: a preview, nothing was proposed
	DryRun      bool      `json:"dry_run"`
	Text        string    `json:"text"` // what an act has done, in a line; empty on reads
	Service     string    `json:"service"`
	Kind        string    `json:"kind"` // planned, emergency or failback
	Source      string    `json:"source"`
	Destination string    `json:"destination"`
	Epoch       uint64    `json:"epoch"`      // the one it leaves
	NextEpoch   uint64    `json:"next_epoch"` // the one it reserved, or would
	Generation  uint64    `json:"generation"`
	Phase       string    `json:"phase"` // proposed, approved, fencing, done, rejected, expired, withdrawn, aborted or void
	Proposer    string    `json:"proposer"`
	Reason      string    `json:"reason"`
	ProposedAt  time.Time `json:"proposed_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	ExpiresIn   float64   `json:"expires_in_seconds"` // 0 once it is decided

	Evidence    string        `json:"evidence"` // digest to approve
	Facts       any           `json:"facts"`    // what the digest is of
	Gates       []Gate        `json:"gates"`
	Votes       []TargetVotes `json:"votes"`    // on the source's and the destination's targets
	Blockers    []Blocker     `json:"blockers"` // what an approval without waivers would be refused for; of a dry run, this one
	Approvals   Approvals     `json:"approvals"`
	Waiting     []string      `json:"waiting"` // members that have not acknowledged yet, while it is under way and the leader tells
	Reach       Reach         `json:"reach"`
	Steps       []CutoverStep `json:"steps"`
	DecidedAt   time.Time     `json:"decided_at,omitzero"`
	TookSeconds float64       `json:"took_seconds"`       // from the last signature to the end; 0 while open
	ClearsAt    time.Time     `json:"clears_at,omitzero"` // old answers until then
	G4Enforced  bool          `json:"g4_enforced"`        // a fence or a lease makes sure of one writer
	Next        []string      `json:"next"`               // commands that decide it
	IfNothing   string        `json:"if_nothing"`         // what happens when nobody acts
}

// Gate is one condition of a cutover.
type Gate struct {
	Name       string   `json:"name"`
	Class      string   `json:"class"` // clean, blocked, unknown, untried or not_configured
	Why        string   `json:"why"`
	AgeSeconds float64  `json:"age_seconds"`
	Waivable   bool     `json:"waivable"`
	Need       int      `json:"waivers_needed"`
	Waived     []string `json:"waived_by"`
	Passed     bool     `json:"passed"`
	Waive      string   `json:"waive,omitempty"` // the waiver to sign, when it can be waived
}

// Approvals is how far the signatures have come.
type Approvals struct {
	Policy             string      `json:"policy"`
	Required           int         `json:"required"`
	Have               int         `json:"have"`
	From               []string    `json:"from"` // roles
	ProposerMayApprove bool        `json:"proposer_may_approve"`
	Signatures         []Signature `json:"signatures"`
	Voided             int         `json:"voided"` // signatures of earlier evidence
}

// Signature is one person's approval.
type Signature struct {
	User       string    `json:"user"`
	Person     string    `json:"person"` // who it counts as
	Via        string    `json:"via"`
	Waivers    []string  `json:"waivers"`
	Reason     string    `json:"reason"`
	BreakGlass bool      `json:"break_glass"`
	At         time.Time `json:"at"`
}

// Reach is who notices a cutover.
type Reach struct {
	Names         []string `json:"names"`          // FQDNs
	TTLSeconds    float64  `json:"ttl_seconds"`    // of answers now
	ClearsSeconds float64  `json:"clears_seconds"` // how long resolvers may hand out the old answer

	// Traffic is who asked lately; absent of a cutover that has ended, and where no
	// node knows.
	Traffic *ServiceTraffic `json:"traffic,omitempty"`
}

// CutoverReport is a cutover with everything that is on record about it.
type CutoverReport struct {
	Cutover
	Events []Event `json:"events"` // oldest first
}

// CutoverStep is one committed step.
type CutoverStep struct {
	Phase string    `json:"phase"`
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	Text  string    `json:"text"`
	Index uint64    `json:"index"`
}

// CutoverRequest proposes a cutover. An empty To lets quorate choose.
type CutoverRequest struct {
	Service string `json:"service" maxLength:"253"`
	To      string `json:"to,omitempty" maxLength:"253" doc:"the destination; empty: quorate chooses"`
	Kind    string `json:"kind" enum:"planned,emergency,failback"`
	Reason  string `json:"reason" maxLength:"2000" doc:"why, for the post-mortem"`
	DryRun  bool   `json:"dry_run,omitempty" doc:"same checks, gates and blockers, nothing written"`
}

// ApproveRequest signs a cutover. A waiver is GATE, or GATE=OUTCOME for a gate
// that is untried, or nodes_acknowledged=NODE,NODE while the cutover is under way.
type ApproveRequest struct {
	Evidence string   `json:"evidence" maxLength:"64" doc:"the digest of what you have seen"`
	Waivers  []string `json:"waivers,omitempty" maxItems:"16" doc:"gates to go on without"`
	Reason   string   `json:"reason" maxLength:"2000" doc:"why, for the post-mortem"`
	DryRun   bool     `json:"dry_run,omitempty" doc:"same checks, nothing written"`
}

// DecideRequest rejects or aborts a cutover.
type DecideRequest struct {
	Reason string `json:"reason" maxLength:"2000" doc:"why, for the post-mortem"`
	DryRun bool   `json:"dry_run,omitempty" doc:"same checks, nothing written"`
}

// Stateful is the stateful side of a service summary.
type Stateful struct {
	Active string `json:"active"`

	// The ownership token: a resource that sees both sides' writes takes none under
	// a lower one.
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`

	Since       time.Time `json:"since"`
	Preferred   string    `json:"preferred"`
	Moving      bool      `json:"moving"`      // answers are withheld until the cutover is published
	Unconfirmed bool      `json:"unconfirmed"` // a person must name the active side
	Open        string    `json:"open_cutover,omitempty"`
	G4Enforced  bool      `json:"g4_enforced"`
}

// CutoverSummary is an open cutover in a line.
type CutoverSummary struct {
	ID          string    `json:"id"`
	Service     string    `json:"service"`
	Kind        string    `json:"kind"`
	Source      string    `json:"source"`
	Destination string    `json:"destination"`
	Phase       string    `json:"phase"`
	Have        int       `json:"signatures"`
	Required    int       `json:"required"`
	Blocked     bool      `json:"blocked"` // a gate needs a waiver
	ExpiresAt   time.Time `json:"expires_at"`
}
