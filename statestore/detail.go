package statestore

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// CutoverDetail is Event.Detail of the "cutover." events and of
// "service.confirmed"; each has the fields that it has something to say in.
type CutoverDetail struct {
	Cutover     string       `json:"cutover,omitempty"`
	Kind        CutoverKind  `json:"kind,omitempty"`
	Source      string       `json:"source,omitempty"`
	Destination string       `json:"destination,omitempty"`
	Phase       CutoverPhase `json:"phase,omitempty"`
	Epoch       uint64       `json:"epoch,omitempty"` // the one the service has after it
	Generation  uint64       `json:"generation,omitempty"`

	Digest   string    `json:"digest,omitempty"`
	Evidence *Evidence `json:"evidence,omitempty"`
	Changes  []string  `json:"changes,omitempty"` // what was another in the evidence before
	Voided   int       `json:"voided,omitempty"`  // signatures that this made void

	User       string     `json:"user,omitempty"`
	Person     string     `json:"person,omitempty"`
	Via        string     `json:"via,omitempty"`
	Token      string     `json:"token,omitempty"` // id
	From       netip.Addr `json:"from,omitzero"`
	Waivers    []Waiver   `json:"waivers,omitempty"`
	BreakGlass bool       `json:"break_glass,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Have       int        `json:"have,omitempty"`     // people whose signatures count
	Required   int        `json:"required,omitempty"` // people

	Acknowledged []string        `json:"acknowledged,omitempty"` // members
	Named        []string        `json:"named,omitempty"`        // members that had not, and that people named
	Rotation     *RotationDetail `json:"rotation,omitempty"`

	Act  string `json:"act,omitempty"`  // what was refused: "approve" and so on
	Code string `json:"code,omitempty"` // of the refusal
}

// detail describes the cutover itself.
func (co *Cutover) detail() CutoverDetail {
	return CutoverDetail{
		Cutover: co.ID, Kind: co.Kind, Source: co.Source, Destination: co.Destination,
		Phase: co.Phase, Epoch: co.Epoch, Generation: co.Generation, Digest: co.Digest,
	}
}

// by adds who acts.
func (d CutoverDetail) by(s Signer, person string) CutoverDetail {
	d.User, d.Person, d.Via, d.Token, d.From = s.User, person, s.Via, s.Token, s.Source
	return d
}

// record returns the record of a change of the cutover.
func (co *Cutover) record(kind, text string, d CutoverDetail) record {
	return record{kind: kind, subject: "services/" + co.Service, text: text, detail: d}
}

// act is what a person does about a cutover or an active side. A refusal of one
// is audited: who tried what, and why it did not happen.
type act interface {
	// about returns the act's name, the service and the cutover it is about (either
	// may be unknown to the state), and who does it.
	about(st *State) (name, service, cutover string, s Signer)
}

func (c ProposeCutover) about(*State) (string, string, string, Signer) {
	return "propose", c.Service, "", c.Signer
}

func (c ApproveCutover) about(st *State) (string, string, string, Signer) {
	return "approve", st.serviceOf(c.ID), c.ID, c.Signer
}

func (c RejectCutover) about(st *State) (string, string, string, Signer) {
	return "reject", st.serviceOf(c.ID), c.ID, c.Signer
}

func (c AbortCutover) about(st *State) (string, string, string, Signer) {
	return "abort", st.serviceOf(c.ID), c.ID, c.Signer
}

func (c ConfirmActive) about(*State) (string, string, string, Signer) {
	return "confirm", c.Service, "", c.Signer
}

func (st *State) serviceOf(cutover string) string {
	if co, ok := st.Cutovers[cutover]; ok {
		return co.Service
	}
	return ""
}

// maxRefusalText bounds what a refusal keeps of texts that people sent.
const maxRefusalText = 400

// refusal returns the record of a refused act; a zero record for what is no
// person's act, and for one that only lost a race of nodes: its node tries again
// on what is so now, and nobody was refused.
func (st *State) refusal(cmd Command, r *Refusal) record {
	a, ok := cmd.(act)
	if !ok || r.Code == ErrStale.Code {
		return record{}
	}
	name, service, cutover, s := a.about(st)
	if s.User == "" {
		return record{}
	}
	subject := "installation"
	if _, known := st.Services[service]; known {
		subject = "services/" + service
	}
	d := CutoverDetail{Cutover: cut(cutover), Act: name, Code: r.Code}.by(s, st.Person(s))
	return record{
		kind: "cutover.refused", subject: subject,
		text: cut(name + " by " + s.User + " refused: " + r.Text), detail: d,
	}
}

// cut returns the text, bounded.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxRefusalText {
		return s
	}
	n := maxRefusalText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
