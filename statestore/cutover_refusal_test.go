package statestore

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// Each command about cutovers, and what the state forbids it: the code, the text,
// that nothing moves, and that a person's act leaves its one record.
func TestCutoverRefusals(t *testing.T) {
	type on = func(testing.TB, ...func(*Spec)) *rig
	propose := func(kind CutoverKind, to, by string, edit func(*ProposeCutover)) func(*rig) Command {
		return func(r *rig) Command {
			s := Signer{}
			if by != "" {
				s = as(by)
			}
			c := r.proposal(kind, to, s)
			edit(&c)
			return c
		}
	}
	plain := func(*ProposeCutover) {}
	revise := func(edit func(*ReviseCutover)) func(*rig) Command {
		return func(r *rig) Command {
			co := r.last()
			c := ReviseCutover{ID: co.ID, Version: co.Version, Evidence: r.evidence(co.Kind, co.Destination), Basis: r.st().Basis("db")}
			edit(&c)
			return c
		}
	}
	approve := func(by string, edit func(*ApproveCutover)) func(*rig) Command {
		return func(r *rig) Command {
			c := r.sign(by, waived()...)
			edit(&c)
			return c
		}
	}
	begin := func(edit func(*BeginCutover)) func(*rig) Command {
		return func(r *rig) Command { c := r.begin(); edit(&c); return c }
	}
	publish := func(edit func(*PublishCutover)) func(*rig) Command {
		return func(r *rig) Command { c := r.publish(); edit(&c); return c }
	}
	is := func(c Command) func(*rig) Command { return func(*rig) Command { return c } }
	tests := []struct {
		name string
		on   on
		cmd  func(*rig) Command
		want *Refusal
		text string
	}{
		{"propose: no reason", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Reason = " " }), ErrInvalid, "must have a reason"},
		{"propose: unknown service", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Service = "no" }), ErrNotFound, "service no: not found"},
		{"propose: a stateless service", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Service = "web" }), ErrInvalid, "is stateless and moves by itself"},
		{"propose: a kind that is none", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.As = "drill" }), ErrInvalid, `not "drill"`},
		{"propose: to where it is", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.To = "eu" }), ErrInvalid, "is on eu already"},
		{"propose: to what is no candidate", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.To = "dr" }), ErrInvalid, `"dr" is none of its clusters (eu, us)`},
		{"propose: to nowhere", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.To = "" }), ErrInvalid, `"" is none of its clusters`},
		{"propose: a failback elsewhere", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.As = Back }), ErrInvalid, "a failback goes to the preferred side eu"},
		{"propose: by a viewer", stateful, propose(Planned, "us", "eve", plain), ErrForbidden, "eve may not propose"},
		{"propose: by nobody with a token", stateful, propose(Planned, "us", "", func(c *ProposeCutover) { c.Signer = Signer{Token: "t-dan", Via: ViaToken} }), ErrInvalid, "must have a name"},
		{"propose: a planned one by automation", stateful, propose(Planned, "us", "", plain), ErrForbidden, "automation proposes emergencies only"},
		{"propose: by automation that is frozen", stateful, func(r *rig) Command {
			r.dbSide("eu", health.Down)
			r.must(FreezeService{Reason: "audit"})
			return r.proposal(Emergency, "us", Signer{})
		}, ErrFrozen, "automation is frozen by ann: audit"},
		{"propose: a second one", proposed, propose(Planned, "us", "dan", plain), ErrBlocked, "no_other_cutover: CUT-1"},
		{"propose: stale facts", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Evidence.SourceSide = health.Down }), ErrStale, "source side: was down, is up"},
		{"propose: another epoch", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Evidence.Epoch++ }), ErrStale, "epoch: was 2, is 1"},
		{"propose: another basis", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Basis.Freeze = 9 }), ErrStale, "a freeze"},
		{"propose: gates left out", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Evidence.Gates = c.Evidence.Gates[1:] }), ErrInvalid, "must have the gates"},
		{"propose: a class that is none", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Evidence.Gates[0].Class = "fine" }), ErrInvalid, `"fine" is no class`},
		{"propose: a source that is not down called so", stateful, propose(Emergency, "us", "", func(c *ProposeCutover) { c.Evidence.Gates[0].Class = Clean }), ErrInvalid, "source_down_by_quorum is clean, but eu is up"},
		{"propose: a fence out of thin air", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Evidence.Gates[2].Class = Clean }), ErrInvalid, "source_fenced is clean, but there is nothing that could say so"},
		{"propose: another open one denied", stateful, propose(Planned, "us", "dan", func(c *ProposeCutover) { c.Evidence.Gates[4].Class = Blocked }), ErrBlocked, "no_other_cutover is blocked and cannot be waived"},

		{"revise: unknown", proposed, revise(func(c *ReviseCutover) { c.ID = "CUT-9" }), ErrNotFound, "CUT-9: not found"},
		{"revise: begun", fencing, revise(func(*ReviseCutover) {}), ErrDecided, "is fencing"},
		{"revise: another version", proposed, revise(func(c *ReviseCutover) { c.Version-- }), ErrStale, "not at"},
		{"revise: the same evidence", proposed, revise(func(*ReviseCutover) {}), ErrStale, "the evidence is the same"},
		{"revise: stale facts", proposed, revise(func(c *ReviseCutover) { c.Evidence.DestinationSide = health.Down }), ErrStale, "destination side: was down, is up"},
		{"revise: another basis", proposed, revise(func(c *ReviseCutover) { c.Evidence.Gates[7].Class = Blocked; c.Basis.Spec = "x" }), ErrStale, "effective spec"},

		{"approve: unknown", proposed, approve("ann", func(c *ApproveCutover) { c.ID = "CUT-9" }), ErrNotFound, "CUT-9: not found"},
		{"approve: approved already", approved, approve("cyd", func(*ApproveCutover) {}), ErrDecided, "is approved and about to begin"},
		{"approve: begun already", fencing, approve("cyd", func(c *ApproveCutover) { c.Waivers = nil }), ErrDecided, "was approved and has begun"},
		{"approve: done already", moved, approve("cyd", func(*ApproveCutover) {}), ErrDecided, "was published"},
		{"approve: by a viewer", proposed, approve("eve", func(*ApproveCutover) {}), ErrForbidden, "eve may not sign: its approval policy two-person takes signatures of the roles approver"},
		{"approve: by one who may propose only", proposed, approve("dan", func(*ApproveCutover) {}), ErrForbidden, "dan may not sign"},
		{"approve: by nobody", proposed, approve("ann", func(c *ApproveCutover) { c.Signer = Signer{Via: ViaSocket} }), ErrForbidden, "only a person may sign"},
		{"approve: by an unknown token", proposed, approve("ann", func(c *ApproveCutover) { c.Signer.Token = "t-x" }), ErrForbidden, "token t-x of ann: not known"},
		{"approve: by another's token", proposed, approve("ann", func(c *ApproveCutover) { c.Signer.Token = "t-bob" }), ErrForbidden, "is not a token of ann"},
		{"approve: groups of one's own making", proposed, approve("eve", func(c *ApproveCutover) { c.Signer.Groups = []string{"approver"} }), ErrForbidden, "eve may not sign"},
		{"approve: a token that is none", proposed, approve("ann", func(c *ApproveCutover) {
			c.Signer = Signer{User: "eve", Groups: []string{"approver"}, Via: ViaToken}
		}), ErrForbidden, "not known"},
		{"approve: other evidence", proposed, approve("ann", func(c *ApproveCutover) { c.Evidence = "0000-0000-0000-0000" }), ErrEvidence, "not 0000-0000-0000-0000; look at it again"},
		{"approve: no evidence", proposed, approve("ann", func(c *ApproveCutover) { c.Evidence = "" }), ErrEvidence, "look at it again"},
		{"approve: no reason", proposed, approve("ann", func(c *ApproveCutover) { c.Reason = "" }), ErrInvalid, "a signature must have a reason"},
		{"approve: what is lacking not waived", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers = nil }), ErrBlocked, "lag_within_rpo is not_configured, source_fenced is not_configured"},
		{"approve: one of them not waived", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers = c.Waivers[:1] }), ErrBlocked, "source_fenced is not_configured; each"},
		{"approve: a gate waived twice", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers = append(c.Waivers, Waiver{Gate: GateLag}) }), ErrInvalid, "waives lag_within_rpo twice"},
		{"approve: a clean gate waived", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers = append(c.Waivers, Waiver{Gate: GateDestination}) }), ErrInvalid, "destination_healthy is clean"},
		{"approve: another kind's gate waived", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers = append(c.Waivers, Waiver{Gate: GateResync}) }), ErrInvalid, `has no gate "resync_confirmed"`},
		{"approve: a gate that is none waived", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers = append(c.Waivers, Waiver{Gate: "mercy"}) }), ErrInvalid, `has no gate "mercy"`},
		{"approve: an outcome of what is not tried", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers[0].Outcome = UnknownGate }), ErrInvalid, "names an outcome of a gate that is untried"},
		{"approve: members of another gate", proposed, approve("ann", func(c *ApproveCutover) { c.Waivers[0].Nodes = []string{"eu-1"} }), ErrInvalid, "is of the members in the evidence: none"},

		{"late waiver: of what is past", fencing, approve("cyd", func(*ApproveCutover) {}), ErrInvalid, "only nodes_acknowledged and destination_healthy can still be waived"},
		{"late waiver: without members", fencing, approve("cyd", func(c *ApproveCutover) { c.Waivers = []Waiver{{Gate: GateNodesAcknowledged}} }), ErrInvalid, "must name the members"},
		{"late waiver: of a stranger", fencing, approve("cyd", func(c *ApproveCutover) {
			c.Waivers = []Waiver{{Gate: GateNodesAcknowledged, Nodes: []string{"x-1"}}}
		}), ErrInvalid, `"x-1" is no member`},
		{"late waiver: of a destination that is well", fencing, approve("cyd", func(c *ApproveCutover) { c.Waivers = []Waiver{{Gate: GateDestination}} }), ErrInvalid, "destination_healthy is clean"},
		{"late waiver: by a viewer", fencing, approve("eve", func(c *ApproveCutover) {
			c.Waivers = []Waiver{{Gate: GateNodesAcknowledged, Nodes: []string{"eu-1"}}}
		}), ErrForbidden, "eve may not sign"},
		{"late waiver: over other evidence", fencing, approve("cyd", func(c *ApproveCutover) {
			c.Evidence, c.Waivers = "x", []Waiver{{Gate: GateNodesAcknowledged, Nodes: []string{"eu-1"}}}
		}), ErrEvidence, "not x"},

		{"reject: unknown", proposed, is(RejectCutover{ID: "CUT-9", Reason: "no", Signer: as("ann")}), ErrNotFound, "CUT-9: not found"},
		{"reject: by one who may not approve", proposed, is(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("dan")}), ErrForbidden, "dan may not reject it"},
		{"reject: by nobody", proposed, is(RejectCutover{ID: "CUT-1", Reason: "no"}), ErrForbidden, "none may not reject it"},
		{"reject: no reason", proposed, is(RejectCutover{ID: "CUT-1", Signer: as("ann")}), ErrInvalid, "needs a reason"},
		{"reject: approved", approved, is(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")}), ErrDecided, "is approved"},
		{"reject: begun", fencing, is(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")}), ErrDecided, "quorate cutover abort CUT-1"},
		{"reject: done", moved, is(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")}), ErrDecided, "was published"},

		{"abort: unknown", fencing, is(AbortCutover{ID: "CUT-9", Reason: "no", Signer: as("ann")}), ErrNotFound, "CUT-9: not found"},
		{"abort: not begun", proposed, is(AbortCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")}), ErrInvalid, "has not begun; reject it"},
		{"abort: done", moved, is(AbortCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")}), ErrDecided, "was published"},
		{"abort: by one who may not approve", fencing, is(AbortCutover{ID: "CUT-1", Reason: "no", Signer: as("dan")}), ErrForbidden, "dan may not abort it"},
		{"abort: no reason", fencing, is(AbortCutover{ID: "CUT-1", Signer: as("ann")}), ErrInvalid, "needs a reason"},

		{"close: unknown", proposed, is(CloseCutover{ID: "CUT-9", As: Expired}), ErrNotFound, "CUT-9: not found"},
		{"close: another version", proposed, is(CloseCutover{ID: "CUT-1", Version: 1, As: Expired}), ErrStale, "not at 1"},
		{"close: too early", proposed, func(r *rig) Command { return CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Expired} }, ErrStale, "has not come yet"},
		{"close: with its cause there", proposed, func(r *rig) Command { return CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Withdrawn} }, ErrStale, "its cause is not gone"},
		{"close: as what automation may not", proposed, func(r *rig) Command { return CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Done} }, ErrInvalid, "as expired or withdrawn, not as done"},
		{"close: begun", fencing, func(r *rig) Command { return CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Withdrawn} }, ErrDecided, "is fencing"},

		{"remind: unknown", proposed, is(RemindCutover{ID: "CUT-9", Number: 1}), ErrNotFound, "CUT-9: not found"},
		{"remind: too early", proposed, is(RemindCutover{ID: "CUT-1", Number: 1}), ErrStale, "is not due yet"},
		{"remind: not the next one", proposed, is(RemindCutover{ID: "CUT-1", Number: 2}), ErrStale, "is not the next one"},
		{"remind: begun", fencing, is(RemindCutover{ID: "CUT-1", Number: 1}), ErrDecided, "is fencing"},

		{"begin: unknown", approved, begin(func(c *BeginCutover) { c.ID = "CUT-9" }), ErrNotFound, "CUT-9: not found"},
		{"begin: not approved", proposed, begin(func(*BeginCutover) {}), ErrBlocked, "is proposed, not approved"},
		{"begin: another version", approved, begin(func(c *BeginCutover) { c.Version-- }), ErrStale, "not at"},
		{"begin: other evidence", approved, begin(func(c *BeginCutover) { c.Evidence.Gates[7].Class = Blocked }), ErrEvidence, "look at it again"},
		{"begin: another basis", approved, begin(func(c *BeginCutover) { c.Basis.Rotation++ }), ErrStale, "the rotation"},
		{"begin: twice", fencing, begin(func(*BeginCutover) {}), ErrDecided, "is fencing"},

		{"publish: unknown", fencing, publish(func(c *PublishCutover) { c.ID = "CUT-9" }), ErrNotFound, "CUT-9: not found"},
		{"publish: not begun", approved, publish(func(*PublishCutover) {}), ErrInvalid, "has not begun"},
		{"publish: twice", moved, publish(func(*PublishCutover) {}), ErrDecided, "was published"},
		{"publish: another version", fencing, publish(func(c *PublishCutover) { c.Version-- }), ErrStale, "not at"},
		{"publish: a member still answers", fencing, publish(func(c *PublishCutover) { c.Acknowledged = []string{"ap-1", "us-1"} }), ErrBlocked, "waits for eu-1 to acknowledge"},
		{"publish: another's rotation", fencing, publish(func(c *PublishCutover) { c.Rotation = change("us") }), ErrInvalid, `carries the rotation of "web"`},
		{"publish: no rotation", fencing, publish(func(c *PublishCutover) { c.Rotation = RotationChange{Service: "db"} }), ErrEmptyRotation, "must not be empty"},
		{"publish: a rotation of the source", fencing, publish(func(c *PublishCutover) { c.Rotation = dbChange("eu") }), ErrStateful, "names eu, but us is active"},

		{"confirm: unknown", stateful, is(ConfirmActive{Service: "no", Active: "eu", Reason: "x", Signer: as("ann")}), ErrNotFound, "service no: not found"},
		{"confirm: stateless", stateful, is(ConfirmActive{Service: "web", Active: "eu", Reason: "x", Signer: as("ann")}), ErrInvalid, "is stateless"},
		{"confirm: by one who may not approve", stateful, is(ConfirmActive{Service: "db", Active: "eu", Reason: "x", Signer: as("dan")}), ErrForbidden, "dan may not confirm"},
		{"confirm: what is confirmed", stateful, is(ConfirmActive{Service: "db", Active: "us", Reason: "x", Signer: as("ann")}), ErrDecided, "its active side eu is confirmed already"},

		{"generation: no higher one", stateful, is(BeginGeneration{Generation: 1, Member: member("eu"), Reason: "x"}), ErrStale, "is of generation 1 already"},
		{"generation: no reason", stateful, is(BeginGeneration{Generation: 2, Member: member("eu")}), ErrInvalid, "must have a reason"},
		{"generation: no member", stateful, is(BeginGeneration{Generation: 2, Reason: "x"}), ErrInvalid, "the name must be a DNS label"},

		{"delivery: unknown receiver", stateful, is(NoteDelivery{Receiver: "no", Index: 1}), ErrNotFound, "receiver no: not found"},

		{"rotate: to another cluster", stateful, func(r *rig) Command {
			return Rotate{RotationChange: dbChange("us"), Basis: r.st().Basis("db")}
		}, ErrStateful, "names us, but eu is active"},
		{"rotate: to both", stateful, func(r *rig) Command {
			c := dbChange("eu")
			c.V4 = pool("eu", "us")
			return Rotate{RotationChange: c, Basis: r.st().Basis("db")}
		}, ErrStateful, "names us"},
		{"rotate: to nothing", stateful, func(r *rig) Command {
			return Rotate{RotationChange: RotationChange{Service: "db"}, Basis: r.st().Basis("db")}
		}, ErrEmptyRotation, "must not be empty"},
		{"rotate: to an all-down answer", stateful, func(r *rig) Command {
			c := dbChange("eu")
			c.V4.AllDown = ServeLast
			return Rotate{RotationChange: c, Basis: r.st().Basis("db")}
		}, ErrStateful, "says serve_last"},
		{"drain: with a rotation that moves it", stateful, is(DrainCluster{Cluster: "eu", Reason: "x", Rotations: []RotationChange{change("dr", "us"), dbChange("us")}}), ErrStateful, "names us, but eu is active"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.on(t)
			r.refuses(tt.cmd(r), tt.want, tt.text)
		})
	}
}

// What a spec may not say of a stateful service, and what it may not do to one.
func TestStatefulSpecRefusals(t *testing.T) {
	stateful1 := func(edit func(*Stateful)) func(*Spec) { return func(sp *Spec) { edit(sp.Services["db"].Stateful) } }
	tests := []struct {
		name string
		on   func(testing.TB, ...func(*Spec)) *rig
		edit func(*Spec)
		want *Refusal
		text string
	}{
		{"preferred is no candidate", stateful, stateful1(func(s *Stateful) { s.Preferred = "dr" }), ErrInvalid, `services.db.stateful.preferred: must be one of its clusters, is "dr"`},
		{"nobody required", stateful, stateful1(func(s *Stateful) { s.Approval.Required = 0 }), ErrInvalid, "required: must be 1 to 9, is 0"},
		{"ten required", stateful, stateful1(func(s *Stateful) { s.Approval.Required = 10 }), ErrInvalid, "required: must be 1 to 9, is 10"},
		{"no waivers required", stateful, stateful1(func(s *Stateful) { s.Approval.WaiversRequired = 0 }), ErrInvalid, "waivers_required: must be 1 to 9, is 0"},
		{"from nobody", stateful, stateful1(func(s *Stateful) { s.Approval.From = nil }), ErrInvalid, "from: must name a role"},
		{"an unknown role", stateful, stateful1(func(s *Stateful) { s.Approval.From = []string{"pope"} }), ErrInvalid, `no role is named "pope"`},
		{"an unknown break-glass role", stateful, stateful1(func(s *Stateful) { s.Approval.BreakGlass = []string{"pope"} }), ErrInvalid, `no role is named "pope"`},
		{"no time to sign", stateful, stateful1(func(s *Stateful) { s.Approval.TTL = 0 }), ErrInvalid, "ttl: must be positive, is 0s"},
		{"reminders that fall", stateful, stateful1(func(s *Stateful) { s.Approval.Remind = []Duration{2, 1} }), ErrInvalid, "remind: must rise"},
		{"a reminder after the end", stateful, stateful1(func(s *Stateful) { s.Approval.Remind = []Duration{s.Approval.TTL} }), ErrInvalid, "below the ttl"},
		{"a negative cool-down", stateful, stateful1(func(s *Stateful) { s.Cooldown = -1 }), ErrInvalid, "must not have a negative time"},
		{"another all-down mode", stateful, func(sp *Spec) { sp.Services["db"].OnAllDown.Mode = ServeAll }, ErrInvalid, "must be serve_last for a stateful service"},
		{"an empty receiver", stateful, func(sp *Spec) { sp.Notify.Receivers = map[string]*Receiver{"pager": {}} }, ErrInvalid, "notify.receivers.pager: must be a webhook"},
		{"a route to nowhere", stateful, func(sp *Spec) { sp.Notify.Routes = []Route{{Types: []string{"*"}, To: []string{"pager"}}} }, ErrInvalid, `no receiver is named "pager"`},

		{"its name given to a service elsewhere", stateful, func(sp *Spec) { renamed(sp, "us") }, ErrStateful, "db answers db with eu, and db2 would answer it with another cluster"},
		{"its name given to a stateless service", stateful, func(sp *Spec) { renamed(sp, "us"); sp.Services["db2"].Stateful = nil }, ErrStateful, "db2 would answer it"},
		{"its name exchanged", stateful, func(sp *Spec) {
			renamed(sp, "us")
			sp.Services["db"] = dbSpec().Services["db"]
			sp.Services["db"].Names, sp.Services["db2"].Names = []string{"old"}, []string{"DB"}
		}, ErrStateful, "db2 would answer it"},
		{"made stateless", stateful, func(sp *Spec) { sp.Services["db"].Stateful = nil }, ErrStateful, "db cannot become stateless; remove the service first"},
		{"the active cluster excluded", stateful, func(sp *Spec) {
			sp.Services["db"].Clusters, sp.Services["db"].Stateful.Preferred = Selector{Only: []string{"us", "dr"}}, "us"
		}, ErrStateful, "db is active on eu, which must stay one of its clusters"},
		{"the active cluster removed", stateful, func(sp *Spec) {
			delete(sp.Clusters, "eu")
			sp.Services["db"].Clusters, sp.Services["db"].Stateful.Preferred = Selector{Only: []string{"us", "dr"}}, "us"
			sp.Services["db"].Policy.Order = nil
		}, ErrStateful, "db is active on eu"},
		{"removed with an open cutover", proposed, func(sp *Spec) { delete(sp.Services, "db") }, ErrStateful, "db cannot go while CUT-1 is proposed"},
		{"an open cutover's destination excluded", proposed, func(sp *Spec) { sp.Services["db"].Clusters.Only = []string{"eu", "dr"} }, ErrStateful, "db is about to move to us (CUT-1)"},
		{"changed under way", fencing, func(sp *Spec) { sp.Services["db"].TTL.Normal++ }, ErrStateful, "db cannot change while CUT-1 is under way"},
		{"an address of the active cluster replaced", stateful, func(sp *Spec) {
			sp.Clusters["eu"].IPv4 = []netip.Addr{netip.MustParseAddr("192.0.2.99")}
		}, ErrEmptyRotation, "the apply must carry a rotation for it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.on(t)
			sp := dbEdited(tt.edit)
			w := change("dr", "eu", "us")
			if c := sp.Clusters["eu"]; c != nil {
				w.V4.Shares[1].Endpoints = c.IPv4
			} else {
				w = change("dr", "us")
			}
			r.refuses(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{w}}, tt.want, tt.text)
		})
	}
}

// What is over is not revised, as if somebody could still sign it.
func TestARevisionAfterTheEndIsRefused(t *testing.T) {
	r := proposed(t)
	r.must(ObserverSilent{Observer: "eu-1"})
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 30 * time.Minute}))
	r.refuses(r.revision(), ErrExpired, "expired")
}

// renamed gives what db is to db2, with another preferred side.
func renamed(sp *Spec, preferred string) {
	db2 := *sp.Services["db"]
	stateful := *db2.Stateful
	stateful.Preferred, db2.Stateful = preferred, &stateful
	sp.Services["db2"] = &db2
	delete(sp.Services, "db")
}

func TestAServiceIsRenamedWhereItIs(t *testing.T) {
	r := stateful(t)
	same := dbChange("eu")
	same.Service = "db2"
	r.must(ApplySpec{Base: 1, Spec: dbEdited(func(sp *Spec) { renamed(sp, "eu") }), Rotations: []RotationChange{same}})
	require.Equal(t, "eu", r.st().Ownership("db2").Active)
}

func TestARefusalKeepsNoLongText(t *testing.T) {
	r := stateful(t)
	long := string(make([]byte, 100_000))
	require.ErrorIs(t, r.do(ApproveCutover{ID: long, Evidence: long, Reason: long, Signer: as("ann")}), ErrNotFound)
	e := r.lastEvent()
	require.Equal(t, "cutover.refused", e.Type)
	require.Less(t, len(e.Text)+len(e.Detail), 10_000)
}

func TestARetriedRefusalIsAuditedOnce(t *testing.T) {
	r := moved(t)
	m := Meta{Actor: "cyd", Request: "k", Issued: r.st().Now.Add(time.Hour), Elapsed: time.Second}
	c := r.sign("cyd")
	require.ErrorIs(t, r.doMeta(c, m), ErrDecided)
	count := r.st().Audit.Count
	require.ErrorIs(t, r.doMeta(c, m), ErrDecided)
	require.Equal(t, count, r.st().Audit.Count)
}
