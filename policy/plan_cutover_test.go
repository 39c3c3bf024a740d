package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// waited is a leader that has seen the active side of db unwell for so long.
func waited(d time.Duration) Waits { return Waits{Down: map[string]time.Duration{"db": d}} }

func TestWhenAutomationProposes(t *testing.T) {
	long := waited(time.Minute)
	down := func(w *world) { w.all(health.Down, "eu") }
	after := func(steps ...func(*world)) func(*world) {
		return func(w *world) {
			for _, s := range steps {
				s(w)
			}
		}
	}
	wait := func(d time.Duration) func(*world) { return func(w *world) { w.pass(d) } }
	reject := func(w *world) {
		w.proposeAs(statestore.Signer{}, statestore.Emergency, "us")
		w.do(statestore.RejectCutover{ID: w.open().ID, Reason: "it comes back", Signer: person("bob")})
	}
	abort := func(w *world) {
		w.proposeAs(statestore.Signer{}, statestore.Emergency, "us")
		w.sign(person("bob"))
		w.sign(person("carol"))
		w.step(statestore.KindBeginCutover, Waits{})
		w.do(statestore.AbortCutover{ID: w.open().ID, Reason: "it comes back", Signer: person("bob")})
	}
	up := func(w *world) { w.all(health.Up, "eu") }
	expire := func(w *world) {
		w.proposeAs(statestore.Signer{}, statestore.Emergency, "us")
		w.pass(30 * time.Minute)
		w.step(statestore.KindCloseCutover, Waits{})
	}
	withdraw := func(w *world) {
		w.proposeAs(statestore.Signer{}, statestore.Emergency, "us")
		w.all(health.Up, "eu")
		w.step(statestore.KindCloseCutover, Waits{})
	}
	moved := func(w *world) { w.move(statestore.Planned, "us"); w.all(health.Down, "us") }
	for _, tt := range []struct {
		name  string
		given func(*world)
		waits Waits
		want  bool
	}{
		{"down for as long as was asked", down, long, true},
		{"not long enough", down, waited(time.Minute - 1), false},
		{"nobody has measured", down, Waits{}, false},
		{"up again since it was measured", func(*world) {}, long, false},
		{"outvoted: one of three says down", func(w *world) { w.vote("us-1", health.Down, "eu") }, long, false},
		{"contested", func(w *world) { w.vote("ap-1", health.Unknown, "eu"); w.vote("us-1", health.Down, "eu") }, long, true},
		{"unobserved", func(w *world) { w.silent("us-1", "ap-1"); w.vote("eu-1", health.Up, "us") }, long, true},
		{"a standby is down", func(w *world) { w.all(health.Down, "us") }, long, false},
		{"every side is down", func(w *world) { w.all(health.Down, "eu", "us", "ap") }, long, true},
		{"frozen", after(down, func(w *world) { w.do(statestore.FreezeService{Service: "db", Reason: "look"}) }), long, false},
		{"all frozen", after(down, func(w *world) { w.do(statestore.FreezeService{Reason: "look"}) }), long, false},
		{"another is frozen", after(down, func(w *world) { w.do(statestore.FreezeService{Service: "web", Reason: "look"}) }), long, true},
		{"within the cool-down of a move", moved, long, false},
		{"after the cool-down", after(moved, wait(time.Hour)), long, true},
		{"one is open", after(down, func(w *world) { w.propose(statestore.Planned, "us") }), long, false},
		{"rejected", after(down, reject), long, false},
		{"rejected, nearly a cool-down ago", after(down, reject, wait(time.Hour-2*time.Second)), long, false},
		{"rejected, a cool-down ago", after(down, reject, wait(time.Hour)), long, true},
		{"rejected, and up and down again since", after(down, reject, up, down), long, true},
		{"aborted", after(down, abort), long, false},
		{"aborted, and up and down again since", after(down, abort, up, down), long, true},
		{"expired", after(down, expire), long, true},
		{"withdrawn, and down again: no cool-down is left behind", after(down, withdraw, down), long, true},
		{"unconfirmed", after(down, func(w *world) {
			w.do(statestore.BeginGeneration{Generation: 2, Member: member("eu"), Reason: "lost"})
		}), long, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			tt.given(w)
			plan := w.planned(tt.waits)
			if !tt.want {
				for _, p := range plan {
					require.NotEqual(t, statestore.KindProposeCutover, p.Command.Kind(), "%s", p.Reason)
				}
				return
			}
			require.Len(t, plan, 1)
			cmd, is := plan[0].Command.(statestore.ProposeCutover)
			require.True(t, is, "%#v", plan[0])
			require.Equal(t, statestore.Emergency, cmd.As)
			require.Zero(t, cmd.Signer)
			require.Contains(t, cmd.Reason, " is ", "which side, and how it is")
			w.do(cmd)
			require.Equal(t, statestore.Automation, w.open().Proposer)
			require.Empty(t, w.planned(tt.waits), "one is enough")
		})
	}
}

func TestAutomationChoosesTheFirstHealthyCandidate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given func(*world)
		to    string
		class statestore.GateClass
	}{
		{"in order", func(*world) {}, "us", statestore.Clean},
		{"us is down", func(w *world) { w.all(health.Down, "us") }, "ap", statestore.Clean},
		{"us is drained", func(w *world) {
			w.do(statestore.DrainCluster{Cluster: "us", Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", nil)})
		}, "ap", statestore.Clean},
		{"none is up: blocked, and shown", func(w *world) { w.all(health.Down, "us", "ap") }, "us", statestore.Blocked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			tt.given(w)
			w.all(health.Down, "eu")
			w.step(statestore.KindProposeCutover, waited(time.Minute))
			require.Equal(t, tt.to, w.open().Destination)
			require.Equal(t, tt.class, w.open().Evidence.Class(statestore.GateDestination))
			require.Equal(t, statestore.Automation, w.open().Person)
			require.Equal(t, "eu is down by 3 of 3 regions for 1m0s", w.open().Reason, "by the leader's clock, not the log's")
		})
	}
}

func TestACutoverIsWalked(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.settle()
	w.step(statestore.KindProposeCutover, waited(time.Minute))
	w.sign(person("bob"))
	require.Empty(t, w.planned(w.heard()), "one of two")
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	require.True(t, w.st().Ownership("db").Moving())

	co := w.open()
	require.Empty(t, w.planned(Waits{}), "nobody has acknowledged")
	require.Equal(t, []string{"ap-1", "eu-1", "us-1"}, w.st().Waiting(co, nil))
	two := Waits{Acknowledged: map[string][]string{co.ID: {"ap-1", "us-1"}}}
	require.Empty(t, w.planned(two), "one is missing")
	require.Equal(t, []string{"eu-1"}, w.st().Waiting(co, two.Acknowledged[co.ID]))
	require.Empty(t, w.planned(Waits{Acknowledged: map[string][]string{"CUT-7": {"ap-1", "eu-1", "us-1"}}}), "of another one")
	w.step(statestore.KindPublishCutover, w.heard())

	own := w.st().Ownership("db")
	require.Equal(t, "us", own.Active)
	require.Equal(t, uint64(2), own.Epoch)
	clusters, mode := w.pool("db")
	require.Equal(t, []string{"us"}, clusters)
	require.Empty(t, mode)
	require.Empty(t, w.planned(w.heard()), "and that is all")
	require.Empty(t, w.st().Waiting(w.st().Cutovers[co.ID], nil))
}

func TestOtherEvidenceVoidsSignatures(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	digest := w.open().Digest
	w.all(health.Down, "us")
	plan := w.planned(Waits{})
	require.Len(t, plan, 1)
	require.Contains(t, plan[0].Reason, "destination_healthy: was clean, is blocked")
	w.step(statestore.KindReviseCutover, Waits{})
	require.NotEqual(t, digest, w.open().Digest)
	require.Empty(t, w.open().Signatures)
	require.Equal(t, 1, w.open().Voided)
	require.Empty(t, w.planned(Waits{}))

	w.all(health.Up, "us")
	w.step(statestore.KindReviseCutover, Waits{})
	require.Equal(t, digest, w.open().Digest, "what was is again, but nobody has signed since")
	require.Empty(t, w.open().Signatures)
}

func TestAnApprovalDoesNotOutliveItsEvidence(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.silent("ap-1")
	w.step(statestore.KindReviseCutover, Waits{})
	require.Equal(t, statestore.Proposed, w.open().Phase)
	require.False(t, w.st().Ownership("db").Moving())
}

func TestWhatHasNoCauseIsWithdrawn(t *testing.T) {
	contested := func(w *world) { w.vote("ap-1", health.Unknown, "eu"); w.vote("us-1", health.Down, "eu") }
	for _, tt := range []struct {
		name   string
		signer statestore.Signer
		kind   statestore.CutoverKind
		before func(*world)
		since  func(*world)
		want   bool
	}{
		{"the source is up again", person("alice"), statestore.Emergency, func(w *world) { w.all(health.Down, "eu") }, func(w *world) { w.all(health.Up, "eu") }, true},
		{"the source stays down", person("alice"), statestore.Emergency, func(w *world) { w.all(health.Down, "eu") }, func(*world) {}, false},
		{"one observer sees it again", person("alice"), statestore.Emergency, func(w *world) { w.all(health.Down, "eu") }, func(w *world) { w.vote("eu-1", health.Up, "eu") }, false},
		{"people asked although it is up", person("alice"), statestore.Emergency, func(*world) {}, func(*world) {}, false},
		{"a planned move of what is up", person("alice"), statestore.Planned, func(*world) {}, func(w *world) { w.all(health.Down, "eu"); w.all(health.Up, "eu") }, false},
		{"it was only contested, and is settled", statestore.Signer{}, statestore.Emergency, contested, func(w *world) { w.all(health.Up, "eu") }, true},
		{"it is contested still", statestore.Signer{}, statestore.Emergency, contested, func(*world) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			tt.before(w)
			w.proposeAs(tt.signer, tt.kind, "us")
			tt.since(w)
			if tt.want {
				w.step(statestore.KindCloseCutover, Waits{})
				require.Nil(t, w.open())
				require.Equal(t, statestore.Withdrawn, w.st().Cutovers["CUT-1"].Phase)
				return
			}
			for _, p := range w.planned(Waits{}) {
				require.NotEqual(t, statestore.KindCloseCutover, p.Command.Kind(), "%s", p.Reason)
			}
		})
	}
}

func TestNothingIsWithdrawnOnceItHasBegun(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	w.all(health.Up, "eu")
	w.pass(24 * time.Hour)
	require.Empty(t, w.planned(Waits{}), "neither withdrawn nor expired")
	w.step(statestore.KindPublishCutover, w.heard())
}

func TestRemindersAndExpiryFollowLogTime(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.pass(2*time.Minute - time.Second)
	require.Empty(t, w.planned(Waits{}))
	w.pass(time.Second)
	w.step(statestore.KindRemindCutover, Waits{})
	require.Empty(t, w.planned(Waits{}), "once")
	w.pass(3 * time.Minute)
	w.step(statestore.KindRemindCutover, Waits{})
	w.pass(20 * time.Minute)
	require.Empty(t, w.planned(Waits{}), "no more were asked for")
	w.pass(5 * time.Minute)
	w.step(statestore.KindCloseCutover, Waits{})
	require.Equal(t, statestore.Expired, w.st().Cutovers["CUT-1"].Phase)
}

func TestAnApprovedCutoverThatCouldNotBeginExpires(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.pass(time.Hour)
	w.step(statestore.KindCloseCutover, Waits{})
	require.Equal(t, statestore.Expired, w.st().Cutovers["CUT-1"].Phase)
	require.Equal(t, "eu", w.st().Ownership("db").Active)
}

func TestADestinationThatGotWorseNeedsAWaiver(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	w.all(health.Down, "us")
	require.Empty(t, w.planned(w.heard()))
	require.Contains(t, Stuck(w.st(), w.open()), "us is down")
	waive := statestore.ApproveCutover{
		ID: "CUT-1", Evidence: w.open().Digest, Reason: "it is all we have",
		Waivers: []statestore.Waiver{{Gate: statestore.GateDestination}},
	}
	for _, who := range []string{"bob", "carol"} {
		require.Empty(t, w.planned(w.heard()))
		waive.Signer = person(who)
		w.do(waive)
	}
	require.Empty(t, Stuck(w.st(), w.open()))
	w.step(statestore.KindPublishCutover, w.heard())
}

func TestAMemberThatDoesNotAcknowledgeIsNamedByPeople(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	two := Waits{Acknowledged: map[string][]string{"CUT-1": {"ap-1", "us-1"}}}
	for _, who := range []string{"bob", "carol"} {
		require.Empty(t, w.planned(two))
		w.do(statestore.ApproveCutover{
			ID: "CUT-1", Evidence: w.open().Digest, Reason: "its power is off", Signer: person(who),
			Waivers: []statestore.Waiver{{Gate: statestore.GateNodesAcknowledged, Nodes: []string{"eu-1"}}},
		})
	}
	w.step(statestore.KindPublishCutover, two)
}

// Once begun it would leave the name dark until that member is back.
func TestAnApprovedCutoverWaitsForAMemberThatIsNotHeard(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	require.Equal(t, statestore.Approved, w.open().Phase)
	require.Empty(t, w.planned(Waits{Unheard: []string{"eu-1"}}))

	w.silent("eu-1") // it stays away: people have to know of it
	w.step(statestore.KindReviseCutover, Waits{Unheard: []string{"eu-1"}})
	require.Equal(t, []string{"eu-1"}, w.open().Evidence.Unacknowledged)
	require.Equal(t, statestore.Proposed, w.open().Phase)
	for _, who := range []string{"bob", "carol"} {
		w.do(statestore.ApproveCutover{
			ID: "CUT-1", Evidence: w.open().Digest, Reason: "its power is off", Signer: person(who),
			Waivers: []statestore.Waiver{{Gate: statestore.GateLag}, {Gate: statestore.GateFenced}, {Gate: statestore.GateNodesAcknowledged}},
		})
	}
	w.step(statestore.KindBeginCutover, Waits{Unheard: []string{"eu-1"}})
}

func TestAMemberThatWasSilentWhenPeopleSignedIsNotWaitedFor(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.silent("eu-1")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	require.Equal(t, []string{"ap-1", "us-1"}, w.st().Waiting(w.open(), nil))
	w.step(statestore.KindPublishCutover, Waits{Acknowledged: map[string][]string{"CUT-1": {"ap-1", "us-1"}}})
}

func TestASignerWhoLostTheRightDoesNotCount(t *testing.T) {
	w := dbWorld(t)
	for _, id := range []string{"t-bob", "t-carol"} {
		w.do(statestore.PutToken{ID: id, User: id[2:], Groups: []string{"approver"}, Hash: [32]byte{1}, Root: true})
	}
	token := func(user string) statestore.Signer {
		return statestore.Signer{User: user, Token: "t-" + user, Via: statestore.ViaToken}
	}
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(token("bob"))
	w.sign(token("carol"))
	w.do(statestore.RevokeToken{ID: "t-carol"})
	require.Empty(t, w.planned(w.heard()), "refused for ever, so never proposed")
	w.sign(person("dave"))
	w.step(statestore.KindBeginCutover, Waits{})
}
