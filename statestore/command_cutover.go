package statestore

// The kinds that stateful services need.
const (
	KindProposeCutover  Kind = 21
	KindReviseCutover   Kind = 22
	KindApproveCutover  Kind = 23
	KindRejectCutover   Kind = 24
	KindAbortCutover    Kind = 25
	KindCloseCutover    Kind = 26
	KindRemindCutover   Kind = 27
	KindBeginCutover    Kind = 28
	KindPublishCutover  Kind = 29
	KindConfirmActive   Kind = 30
	KindBeginGeneration Kind = 31
	KindNoteDelivery    Kind = 32
)

// ProposeCutover opens a cutover. Signer is zero for automation. The evidence is
// the proposer's judgement; Apply checks its facts and, by the basis, that the rest
// was drawn from what is still so.
type ProposeCutover struct {
	Service  string      `json:"service"`
	To       string      `json:"to"`
	As       CutoverKind `json:"kind"`
	Reason   string      `json:"reason"`
	Signer   Signer      `json:"signer,omitzero"`
	Evidence Evidence    `json:"evidence"`
	Basis    Basis       `json:"basis"`
}

// ReviseCutover replaces the evidence of a cutover that has not begun, and voids
// its signatures.
type ReviseCutover struct {
	ID       string   `json:"id"`
	Version  uint64   `json:"version"`
	Evidence Evidence `json:"evidence"`
	Basis    Basis    `json:"basis"`
}

// ApproveCutover is a signature over the evidence with that digest. With the last
// one that is needed the cutover is Approved. While it is Fencing a signature only
// carries waivers for what holds it up.
type ApproveCutover struct {
	ID       string   `json:"id"`
	Evidence string   `json:"evidence"`
	Waivers  []Waiver `json:"waivers,omitempty"`
	Reason   string   `json:"reason"`
	Signer   Signer   `json:"signer"`
}

// RejectCutover ends a cutover that has not begun.
type RejectCutover struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Signer Signer `json:"signer"`
}

// AbortCutover ends a cutover that is approved and not published yet. One that has
// begun leaves the source active under a new epoch.
type AbortCutover struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Signer Signer `json:"signer"`
}

// CloseCutover is automation's end of a cutover that has not begun: Expired once
// its time is over, Withdrawn once its cause is gone. Apply checks which.
type CloseCutover struct {
	ID      string       `json:"id"`
	Version uint64       `json:"version"`
	As      CutoverPhase `json:"as"`
	Reason  string       `json:"reason"`
}

// RemindCutover records that people are reminded for the Number-th time (from 1).
type RemindCutover struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
}

// BeginCutover is the fencing entry: it reserves the next epoch, and from it on the
// source is not answered any more. Here, and never later, the signatures count.
type BeginCutover struct {
	ID       string   `json:"id"`
	Version  uint64   `json:"version"`
	Evidence Evidence `json:"evidence"`
	Basis    Basis    `json:"basis"`
}

// PublishCutover makes the destination active under the reserved epoch. Every
// member that answers DNS has acknowledged, or was named in what people signed.
type PublishCutover struct {
	ID           string         `json:"id"`
	Version      uint64         `json:"version"`
	Acknowledged []string       `json:"acknowledged"` // members, sorted
	Rotation     RotationChange `json:"rotation"`
}

// ConfirmActive is a person's word on which side of an unconfirmed service is
// active. It commits a new epoch.
type ConfirmActive struct {
	Service  string         `json:"service"`
	Active   string         `json:"active"`
	Reason   string         `json:"reason"`
	Signer   Signer         `json:"signer"`
	Rotation RotationChange `json:"rotation"`
}

// BeginGeneration starts the next life of an installation after lost quorum or a
// restore: open cutovers are void, stateful services unconfirmed, and Member is the
// only one there is.
type BeginGeneration struct {
	Generation uint64    `json:"generation"` // above the state's
	Member     Member    `json:"member"`
	CA         TrustedCA `json:"ca,omitzero"` // trusted from here on, where the old one's key is lost
	Reason     string    `json:"reason"`
}

// NoteDelivery remembers up to which event a receiver has been told, so that the
// next leader goes on from there. It is bookkeeping and makes no event itself.
type NoteDelivery struct {
	Receiver string `json:"receiver"`
	Index    uint64 `json:"index"`
}

// Kind returns KindProposeCutover.
func (ProposeCutover) Kind() Kind { return KindProposeCutover }

// Kind returns KindReviseCutover.
func (ReviseCutover) Kind() Kind { return KindReviseCutover }

// Kind returns KindApproveCutover.
func (ApproveCutover) Kind() Kind { return KindApproveCutover }

// Kind returns KindRejectCutover.
func (RejectCutover) Kind() Kind { return KindRejectCutover }

// Kind returns KindAbortCutover.
func (AbortCutover) Kind() Kind { return KindAbortCutover }

// Kind returns KindCloseCutover.
func (CloseCutover) Kind() Kind { return KindCloseCutover }

// Kind returns KindRemindCutover.
func (RemindCutover) Kind() Kind { return KindRemindCutover }

// Kind returns KindBeginCutover.
func (BeginCutover) Kind() Kind { return KindBeginCutover }

// Kind returns KindPublishCutover.
func (PublishCutover) Kind() Kind { return KindPublishCutover }

// Kind returns KindConfirmActive.
func (ConfirmActive) Kind() Kind { return KindConfirmActive }

// Kind returns KindBeginGeneration.
func (BeginGeneration) Kind() Kind { return KindBeginGeneration }

// Kind returns KindNoteDelivery.
func (NoteDelivery) Kind() Kind { return KindNoteDelivery }
