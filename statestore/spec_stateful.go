package statestore

// Stateful makes a service move only when people approve it. The approval policy
// is inlined, as every named thing in a normalised spec is, so that a change of it
// changes the service's digest and with it the evidence of a pending cutover.
type Stateful struct {
	Preferred    string         `json:"preferred"`     // the side a new service starts on, and a failback goes to
	ProposeAfter Duration       `json:"propose_after"` // down for so long before automation proposes
	Approval     ApprovalPolicy `json:"approval"`
	Cooldown     Duration       `json:"cooldown"` // after a cutover, no emergency by automation and no failback sooner
	Failback     Failback       `json:"failback"`
}

// Failback says what a way back needs beside what every cutover needs.
type Failback struct {
	HealthyFor Duration `json:"healthy_for"` // the destination has been up for so long
}

// ApprovalPolicy says whose signatures a cutover needs.
type ApprovalPolicy struct {
	Name               string     `json:"name"`
	Required           int        `json:"required"`         // distinct people
	WaiversRequired    int        `json:"waivers_required"` // distinct people for each gate that is configured and not clean
	From               []string   `json:"from"`             // roles that may sign
	ProposerMayApprove bool       `json:"proposer_may_approve"`
	TTL                Duration   `json:"ttl"`                   // of the proposal, in log time
	Remind             []Duration `json:"remind,omitempty"`      // after the proposal, rising
	BreakGlass         []string   `json:"break_glass,omitempty"` // roles that may sign too; each use is told to everybody
}

// Notify says which events are told to whom.
type Notify struct {
	Receivers map[string]*Receiver `json:"receivers,omitempty"`
	Routes    []Route              `json:"routes,omitempty"`
}

// Receiver is one place to tell. Exactly one of its fields is set.
type Receiver struct {
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Webhook takes CloudEvents by POST.
type Webhook struct {
	URL  string `json:"url"`
	Sign string `json:"sign,omitempty"` // name of the secret that keys the HMAC; empty: not signed
}

// Route sends events whose type and service match to receivers. Types are event
// types such as "cutover.proposed"; "*" matches all, "cutover.*" a family.
// No Services means all, and events without a service too.
type Route struct {
	Types    []string `json:"types"`
	Services []string `json:"services,omitempty"`
	To       []string `json:"to"`
}
