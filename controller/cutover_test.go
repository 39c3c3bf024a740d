package controller

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// db adds the stateful service db over eu and us, active on eu.
func db(edits ...func(*statestore.Stateful)) func(*statestore.Spec) {
	return func(sp *statestore.Spec) {
		copied := *sp.Services["web"]
		copied.Names = []string{"db"}
		copied.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us"}}
		copied.Stateful = &statestore.Stateful{
			Preferred: "eu", ProposeAfter: statestore.Duration(time.Minute), Cooldown: statestore.Duration(time.Hour),
			Approval: statestore.ApprovalPolicy{
				Name: "two-person", Required: 2, WaiversRequired: 2, From: []string{"approver"},
				TTL: statestore.Duration(30 * time.Minute), Remind: []statestore.Duration{statestore.Duration(5 * time.Minute)},
			},
		}
		for _, edit := range edits {
			edit(copied.Stateful)
		}
		sp.Services["db"] = &copied
	}
}

func after(d time.Duration) func(*statestore.Stateful) {
	return func(s *statestore.Stateful) { s.ProposeAfter = statestore.Duration(d) }
}

// everybody has all observers vote.
func everybody(os map[string]*observer, side health.Side, cluster string) {
	for _, o := range os {
		go o.vote(side, cluster)
	}
	time.Sleep(batchWindow)
	synctest.Wait()
}

func (l *lab) open() *statestore.Cutover { return l.st().OpenCutover("db") }

func who(name string) statestore.Signer {
	return statestore.Signer{User: name, Groups: []string{"approver"}, Via: statestore.ViaDemo}
}

// sign has people sign the open cutover, with waivers of what lacks.
func (l *lab) sign(names ...string) {
	l.t.Helper()
	for _, name := range names {
		co := l.open()
		var waivers []statestore.Waiver
		for _, g := range l.st().Count(co).Lacking {
			waivers = append(waivers, statestore.Waiver{Gate: g})
		}
		l.person(statestore.ApproveCutover{ID: co.ID, Evidence: co.Digest, Waivers: waivers, Reason: "gone", Signer: who(name)})
	}
	synctest.Wait()
}

// acknowledge has nodes say that they do not answer with the source any more.
func (l *lab) acknowledge(id string, nodes ...string) {
	l.t.Helper()
	for _, n := range nodes {
		require.NoError(l.t, l.ctl.Acknowledge(l.ctx, n, Acknowledgement{Cutover: id, Epoch: l.st().Cutovers[id].Next}))
	}
	synctest.Wait()
}

// GitHub, 2018-10-21: the active region was cut off for 43 s.
func TestActiveRegionCutFor43Seconds(t *testing.T) {
	for _, tt := range []struct {
		hold      time.Duration
		proposals int
	}{{time.Minute, 0}, {10 * time.Second, 1}} {
		t.Run(tt.hold.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, os := settled(t, db(after(tt.hold)))
				defer l.resign()
				os["eu-1"].pause()
				go os["us-1"].vote(health.Down, "eu")
				os["ap-1"].vote(health.Down, "eu")
				time.Sleep(43 * time.Second)
				require.Len(t, l.proposed(statestore.KindProposeCutover), tt.proposals)
				if tt.proposals > 0 {
					require.Equal(t, []string{"eu-1"}, l.open().Evidence.Unacknowledged)
					require.Equal(t, "us", l.open().Destination)
				}
				os["eu-1"].full = true
				os["eu-1"].start()
				go os["us-1"].vote(health.Up, "eu")
				os["ap-1"].vote(health.Up, "eu")
				time.Sleep(10 * time.Minute)
				require.Nil(t, l.open())
				require.Len(t, l.proposed(statestore.KindProposeCutover), tt.proposals, "and no other")
				for _, co := range l.st().Cutovers {
					require.Equal(t, statestore.Withdrawn, co.Phase)
				}
				own := l.st().Ownership("db")
				require.Equal(t, "eu", own.Active, "zero moves")
				require.Equal(t, uint64(1), own.Epoch)
				require.Equal(t, tt.proposals, len(l.out.lines("cutover withdrawn")))
			})
		})
	}
}

func TestTheWaitIsMeasuredToThePoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db())
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(time.Minute - time.Millisecond)
		require.Empty(t, l.proposed(statestore.KindProposeCutover))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Len(t, l.proposed(statestore.KindProposeCutover), 1)
	})
}

func TestWhatStartsTheWaitAnew(t *testing.T) {
	for _, tt := range []struct {
		name   string
		anew   func(l *lab, os map[string]*observer)
		within time.Duration // of a minute after it, the proposal comes
	}{
		{"another leader", func(l *lab, _ map[string]*observer) { l.resign(); l.lead() }, 3 * time.Second},
		{"a stall", func(l *lab, _ map[string]*observer) { l.stall(2 * time.Second) }, 3 * time.Second},
		{"a moment of health", func(_ *lab, os map[string]*observer) {
			everybody(os, health.Up, "eu")
			everybody(os, health.Down, "eu")
		}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, os := settled(t, db())
				defer func() { l.resign() }()
				everybody(os, health.Down, "eu")
				time.Sleep(50 * time.Second)
				tt.anew(l, os)
				time.Sleep(time.Minute - time.Second)
				require.Empty(t, l.proposed(statestore.KindProposeCutover))
				time.Sleep(time.Second + tt.within)
				require.Len(t, l.proposed(statestore.KindProposeCutover), 1)
			})
		})
	}
}

func TestG1AnOutvotedObserverRaisesNoProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(time.Second)))
		defer l.resign()
		os["us-1"].vote(health.Down, "eu")
		time.Sleep(time.Hour)
		require.Empty(t, l.proposed(statestore.KindProposeCutover))
	})
}

func TestAnUnobservedActiveSideRaisesABlockedProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		os["us-1"].vote(health.Unknown, "eu")
		os["ap-1"].vote(health.Unknown, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.NotNil(t, l.open())
		require.Equal(t, statestore.Blocked, l.open().Evidence.Class(statestore.GateSourceDown))
		require.Len(t, l.out.lines("cutover proposed"), 1)
		said := l.out.lines("cutover blocked")
		require.Len(t, said, 1)
		require.Contains(t, said[0], "source_down_by_quorum: eu is unobserved")
		everybody(os, health.Up, "eu")
		require.Nil(t, l.open(), "its cause is gone")
	})
}

func TestNoProposalWhileFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		l.person(statestore.FreezeService{Service: "db", Reason: "we know"})
		everybody(os, health.Down, "eu")
		time.Sleep(time.Hour)
		require.Empty(t, l.proposed(statestore.KindProposeCutover))
		l.person(statestore.ThawService{Service: "db", Reason: "go"})
		synctest.Wait()
		require.Len(t, l.proposed(statestore.KindProposeCutover), 1, "it has waited long enough")
	})
}

func TestNoProposalAfterARejectUntilTheSourceWasUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l.person(statestore.RejectCutover{ID: l.open().ID, Reason: "power is coming back", Signer: who("bob")})
		time.Sleep(50 * time.Minute)
		require.Len(t, l.proposed(statestore.KindProposeCutover), 1)
		everybody(os, health.Up, "eu")
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, l.proposed(statestore.KindProposeCutover), 2)
	})
}

// orchestrator #1296: a recovery that was never committed left its cool-down behind.
func TestAnUncommittedProposalLeavesNoCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		lost := true
		l.refuse = func(cmd statestore.Command) error {
			if cmd.Kind() == statestore.KindProposeCutover && lost {
				return errors.New("lost the quorum")
			}
			return nil
		}
		everybody(os, health.Down, "eu")
		time.Sleep(time.Minute)
		require.Nil(t, l.open())
		require.Greater(t, len(l.proposed(statestore.KindProposeCutover)), 10, "it is tried again and again")
		l.mu.Lock()
		lost = false
		l.mu.Unlock()
		time.Sleep(retryLost)
		synctest.Wait()
		require.NotNil(t, l.open())
		require.Equal(t, "CUT-1", l.open().ID)
		require.Equal(t, statestore.Clean, l.open().Evidence.Class(statestore.GateCooldown))
	})
}

func TestACutoverIsPublishedAtOnceWithTheLastAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l.sign("bob")
		require.Equal(t, statestore.Proposed, l.open().Phase)
		start := time.Now()
		l.sign("carol")
		require.Equal(t, statestore.Fencing, l.open().Phase, "begun at once")
		require.Zero(t, time.Since(start))
		id := l.open().ID

		l.acknowledge(id, "us-1", "ap-1")
		require.Empty(t, l.out.lines("held up"))
		time.Sleep(time.Minute)
		require.Empty(t, l.proposed(statestore.KindPublishCutover), "eu-1 may still answer with eu")
		require.Equal(t, statestore.Fencing, l.open().Phase)
		said := l.out.lines("cutover is held up")
		require.Len(t, said, 1, "once")
		require.Contains(t, said[0], "members=[eu-1]")

		start = time.Now()
		l.acknowledge(id, "eu-1")
		require.Zero(t, time.Since(start), "no timer in the way")
		require.Nil(t, l.open())
		own := l.st().Ownership("db")
		require.Equal(t, "us", own.Active)
		require.Equal(t, uint64(2), own.Epoch)
		require.Equal(t, []string{"ap-1", "eu-1", "us-1"}, l.proposed(statestore.KindPublishCutover)[0].cmd.(statestore.PublishCutover).Acknowledged)
		for _, line := range []string{"cutover proposed", "cutover signed", "cutover approved", "cutover begun", "cutover published"} {
			require.NotEmpty(t, l.out.lines(line), "%s", line)
		}
		require.Len(t, l.out.lines("cutover signed"), 2)
		require.Contains(t, l.out.lines("cutover published")[0], "cutover=CUT-1 service=db to=us epoch=2")
		require.Contains(t, l.out.lines("cutover proposed")[0], "level=WARN")
	})
}

func TestWhoseAcknowledgementsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		id := l.open().ID
		early := Acknowledgement{Cutover: id, Epoch: 2}
		require.NoError(t, l.ctl.Acknowledge(t.Context(), "eu-1", early), "the leader may be behind the node")
		l.sign("bob", "carol")
		require.ErrorIs(t, l.ctl.Acknowledge(t.Context(), "mallory", early), ErrNotMember)
		require.NoError(t, l.ctl.Acknowledge(t.Context(), "us-1", Acknowledgement{Cutover: id, Epoch: 1}))
		require.NoError(t, l.ctl.Acknowledge(t.Context(), "us-1", Acknowledgement{Cutover: "CUT-9", Epoch: 2}))
		l.acknowledge(id, "ap-1")
		require.Empty(t, l.proposed(statestore.KindPublishCutover), "us-1 has acknowledged something else")
		nodes, leads := l.ctl.Acknowledged(id)
		require.True(t, leads)
		require.Equal(t, []string{"ap-1", "eu-1"}, nodes)

		l.resign()
		require.ErrorIs(t, l.ctl.Acknowledge(t.Context(), "us-1", early), ErrNotLeading)
		_, leads = l.ctl.Acknowledged(id)
		require.False(t, leads)
	})
}

func TestANewLeaderResumesACutoverUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer func() { l.resign() }()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l.sign("bob", "carol")
		id := l.open().ID
		l.acknowledge(id, "us-1", "ap-1")
		l.resign()
		l.lead()
		time.Sleep(time.Minute)
		l.acknowledge(id, "eu-1")
		require.Empty(t, l.proposed(statestore.KindPublishCutover), "what the last leader heard is not known here")
		l.acknowledge(id, "us-1", "ap-1")
		require.Nil(t, l.open())
		require.Equal(t, "us", l.st().Ownership("db").Active)
		require.Len(t, l.proposed(statestore.KindBeginCutover), 1, "from its committed step")
	})
}

func TestANewLeaderBeginsWhatWasApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer func() { l.resign() }()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l.resign()
		l.sign("bob", "carol")
		require.Equal(t, statestore.Approved, l.open().Phase)
		l.lead()
		time.Sleep(time.Second) // every observer's next heartbeat
		synctest.Wait()
		require.Equal(t, statestore.Fencing, l.open().Phase)
	})
}

func TestNothingBeginsWithoutAMemberThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		os["eu-1"].pause()
		time.Sleep(heardFor + time.Millisecond)
		l.sign("bob", "carol")
		require.Equal(t, statestore.Approved, l.open().Phase, "it would leave the name dark until somebody names eu-1")
		time.Sleep(leaseLAN)
		synctest.Wait()
		require.Equal(t, statestore.Proposed, l.open().Phase, "its silence is part of what people sign")
		require.Equal(t, []string{"eu-1"}, l.open().Evidence.Unacknowledged)
		l.sign("bob", "carol")
		require.Equal(t, statestore.Fencing, l.open().Phase)
		l.acknowledge(l.open().ID, "us-1", "ap-1")
		require.Equal(t, "us", l.st().Ownership("db").Active)
	})
}

func TestAMemberThatIsHeardAgainLetsItBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		os["eu-1"].pause()
		time.Sleep(heardFor + time.Millisecond)
		l.sign("bob", "carol")
		require.Equal(t, statestore.Approved, l.open().Phase)
		os["eu-1"].start()
		synctest.Wait()
		require.Equal(t, statestore.Fencing, l.open().Phase, "at once")
	})
}

func TestExpiryIsJudgedOnAQuietLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l.forget()
		id := l.open().ID
		time.Sleep(5*time.Minute + tickEvery)
		require.Len(t, l.proposed(statestore.KindRemindCutover), 1)
		require.Len(t, l.out.lines("cutover still waits for people"), 1)
		time.Sleep(25*time.Minute - 2*tickEvery)
		require.Equal(t, statestore.Proposed, l.st().Cutovers[id].Phase)
		require.NotEmpty(t, l.proposed(statestore.KindTick))
		require.Error(t, func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.applied = l.applied.Add(-time.Minute) // an approval a minute later, before any Tick
			return l.applyLocked(statestore.ApproveCutover{ID: id, Evidence: l.st().Cutovers[id].Digest, Reason: "late", Signer: who("bob")}, "bob").Err
		}(), "too late when it applies")
		time.Sleep(2 * tickEvery)
		require.Equal(t, statestore.Expired, l.st().Cutovers[id].Phase)
		require.Len(t, l.out.lines("cutover expired"), 1)
	})
}

func TestMovesOfManyServicesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		l, os := settled(t, func(sp *statestore.Spec) {
			db(after(10 * time.Second))(sp)
			for i := range n {
				copied := *sp.Services["db"]
				copied.Names = []string{fmt.Sprintf("db%d", i)}
				sp.Services[copied.Names[0]] = &copied
			}
		})
		defer l.resign()
		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, l.proposed(statestore.KindProposeCutover), n+1)
		require.Empty(t, l.st().Freezes, "a stateful service is none of the budget's business")
		require.Equal(t, []string{"us"}, l.inRotation())
	})
}

func TestADrainedActiveSideStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t, db(after(10*time.Second)))
		defer l.resign()
		l.person(statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", Rotations: policy.DrainRotations(l.st(), "eu", nil)})
		time.Sleep(time.Hour)
		require.Equal(t, []string{"us"}, l.inRotation(), "web")
		require.Equal(t, "eu", l.st().Services["db"].Rotation.V4.Shares[0].Cluster)
		require.Empty(t, l.proposed(statestore.KindProposeCutover, statestore.KindRotate))
	})
}
