package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestG1LoneObserverChangesNothingAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		os["ap-1"].vote(health.Down, "eu")
		time.Sleep(time.Minute)
		require.Equal(t, health.Up, l.side("eu"))
		require.Equal(t, []string{"eu", "us"}, l.inRotation())
		require.Empty(t, l.proposed(statestore.KindRotate))
		said := l.out.lines("observer is outvoted")
		require.Len(t, said, 1, "once, and by name")
		require.Contains(t, said[0], "observer=ap-1")
		require.Contains(t, said[0], "target=web/eu/192.0.2.10")
	})
}

func TestTwoRegionsOfThreeTurnItAndTheRotationFollowsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		start := time.Now()
		go os["ap-1"].vote(health.Down, "eu")
		os["us-1"].vote(health.Down, "eu")
		synctest.Wait()
		require.Equal(t, batchWindow, time.Since(start), "no wait but the batch window")
		require.Equal(t, health.Down, l.side("eu"))
		require.Equal(t, []string{"us"}, l.inRotation())
		said := l.out.lines("target went down")
		require.Len(t, said, 1)
		require.Contains(t, said[0], "node=eu-1")
		require.Contains(t, said[0], "target=web/eu/192.0.2.10 up=1 down=2 quorum=2 was=up")
		require.Len(t, l.out.lines("rotation changed"), 1)
	})
}

func TestVotesOfAWindowAreOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		go os["ap-1"].vote(health.Down, "eu")
		time.Sleep(20 * time.Millisecond)
		go os["us-1"].vote(health.Down, "eu")
		time.Sleep(20 * time.Millisecond)
		os["eu-1"].vote(health.Down, "eu")
		cast := l.proposed(statestore.KindCastVotes)
		require.Len(t, cast, 1)
		require.Len(t, cast[0].cmd.(statestore.CastVotes).Batches, 3)
	})
}

func TestSecondBatchOfAnObserverWaitsForTheNextEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		o := os["ap-1"]
		o.pause()
		send := func(seq, prev uint64, side health.Side) {
			_, err := l.ctl.Report(t.Context(), "ap-1", Report{
				Seq: seq, Prev: prev, Nonce: o.nonce,
				Votes: map[health.Target]health.Vote{target("eu"): {Side: side, Since: time.Now()}},
			})
			require.NoError(t, err)
		}
		go send(o.seq+1, o.seq, health.Down)
		synctest.Wait()
		send(o.seq+2, o.seq+1, health.Up)
		require.Len(t, l.proposed(statestore.KindCastVotes), 2)
		require.Equal(t, o.seq+2, l.st().Observers["ap-1"].Seq)
	})
}

func TestSilentObserverIsSetAsideAndReturnsWithAFullSet(t *testing.T) { // G9
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		os["ap-1"].pause()
		time.Sleep(time.Second) // its last echo proves the second before, too
		require.Empty(t, l.proposed(statestore.KindObserverSilent), "not before its lease is over")
		time.Sleep(leaseLAN)
		require.Len(t, l.proposed(statestore.KindObserverSilent), 1)
		require.True(t, l.st().Observers["ap-1"].Silent)
		require.Equal(t, health.Up, l.side("eu"), "silence turns nothing")
		require.Len(t, l.out.lines("observer is silent"), 1)

		seq := l.st().Observers["ap-1"].Seq
		os["ap-1"].start()
		time.Sleep(time.Second)
		o := l.st().Observers["ap-1"]
		require.True(t, o.Counts())
		require.Greater(t, o.Seq, seq)
		cast := l.proposed(statestore.KindCastVotes)
		require.Len(t, cast, 1)
		require.True(t, cast[0].cmd.(statestore.CastVotes).Batches[0].Full)
		require.Len(t, l.out.lines("observer is back"), 1)
	})
}

func TestDelayedHeartbeatsDoNotKeepAnObserverFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		o := os["ap-1"]
		o.pause()
		old := o.nonce
		for range 8 { // the same report, again and again, as a stuck relay would
			_, err := l.ctl.Report(t.Context(), "ap-1", Report{Seq: o.seq, Nonce: old})
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
		}
		require.True(t, l.st().Observers["ap-1"].Silent)
	})
}

func TestVotesOfEarlierTermsDoNotCountUntilConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		os["ap-1"].vote(health.Down, "eu") // alone, and dead from here on
		os["ap-1"].pause()
		os["us-1"].pause()
		os["eu-1"].pause()
		l.resign()
		require.True(t, l.st().Observers["ap-1"].Confirmed, "to the old leader")

		l.lead()
		os["us-1"].start()
		os["us-1"].vote(health.Down, "eu")
		time.Sleep(time.Second)
		require.True(t, l.st().Observers["us-1"].Counts())
		require.False(t, l.st().Observers["ap-1"].Counts())
		require.Equal(t, health.Up, l.side("eu"), "a dead observer's vote of an earlier term decides nothing")

		os["eu-1"].start()
		os["eu-1"].vote(health.Down, "eu")
		time.Sleep(2 * batchWindow)
		require.Equal(t, health.Down, l.side("eu"), "two regions that this leader heard do")
		l.resign()
	})
}

func TestObserversAreConfirmedTogetherSoonAfterAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		for _, o := range os {
			o.pause()
		}
		l.resign()
		l.lead()
		l.forget()
		for _, o := range os {
			o.start()
		}
		time.Sleep(2 * batchWindow)
		confirmed := l.proposed()
		require.Len(t, confirmed, 1, "one entry, no votes again")
		require.Len(t, confirmed[0].cmd.(statestore.ConfirmObservers).Observers, 3)
		for name := range os {
			require.True(t, l.st().Observers[health.ObserverID(name)].Counts(), name)
		}
		l.resign()
	})
}

func TestNonceOfAnEarlierLeaderConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		for _, o := range os {
			o.pause()
		}
		old := Report{Seq: os["ap-1"].seq, Nonce: os["ap-1"].nonce}
		l.resign()
		l.lead()
		for range 3 {
			reply, err := l.ctl.Report(t.Context(), "ap-1", old)
			require.NoError(t, err)
			require.True(t, reply.Again)
			time.Sleep(100 * time.Millisecond)
		}
		require.Empty(t, l.proposed(statestore.KindConfirmObservers))
		l.resign()
	})
}

func TestAFullSetForAnEarlierLeaderConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		o := os["ap-1"]
		o.pause()
		l.resign()
		l.lead()
		defer l.resign()
		l.forget()
		reply, err := l.ctl.Report(t.Context(), "ap-1", Report{
			Seq: o.seq + 1, Full: true, Nonce: o.nonce,
			Votes: map[health.Target]health.Vote{target("eu"): {Side: health.Down, Since: time.Now()}},
		})
		require.NoError(t, err)
		require.True(t, reply.NeedFull, "it has to be sent again, with this leader's nonce")
		require.Empty(t, l.proposed(statestore.KindCastVotes))
	})
}

func TestAStalledLeaderHasEverybodyConfirmAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t)
		defer l.resign()
		l.stall(time.Minute)
		time.Sleep(leaseLAN / looksPerLease)
		synctest.Wait()
		reset := l.proposed(statestore.KindConfirmObservers)
		require.NotEmpty(t, reset)
		require.True(t, reset[0].cmd.(statestore.ConfirmObservers).Reset)
		time.Sleep(3 * time.Second)
		require.Empty(t, l.proposed(statestore.KindObserverSilent), "its own stall is nobody's silence")
		for id, o := range l.st().Observers {
			require.True(t, o.Counts(), "%s has confirmed", id)
		}
	})
}

func TestAHealthyHourWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t)
		defer l.resign()
		before := l.st().Index
		time.Sleep(time.Hour)
		require.Empty(t, l.proposed())
		require.Equal(t, before, l.st().Index)
	})
}

func TestReportsAreTakenOnlyByALeaderAndFromObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		_, err := l.ctl.Report(t.Context(), "eu-1", Report{})
		require.ErrorIs(t, err, ErrNotLeading)
		l.lead()
		_, err = l.ctl.Report(t.Context(), "mallory", Report{})
		require.ErrorIs(t, err, ErrNotObserver)
		l.resign()
		_, err = l.ctl.Report(t.Context(), "eu-1", Report{})
		require.ErrorIs(t, err, ErrNotLeading)
	})
}

func TestALostLeadershipFailsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		for _, o := range os {
			o.pause()
		}
		failed := make(chan error, 1)
		go func() {
			_, err := l.ctl.Report(t.Context(), "ap-1", Report{
				Seq: os["ap-1"].seq + 1, Prev: os["ap-1"].seq, Nonce: os["ap-1"].nonce,
				Votes: map[health.Target]health.Vote{target("eu"): {Side: health.Down, Since: time.Now()}},
			})
			failed <- err
		}()
		synctest.Wait()
		l.resign()
		require.ErrorIs(t, <-failed, ErrNotLeading)
	})
}

func TestAVoteThatWasCommittedMeanwhileIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		o := os["ap-1"]
		o.pause()
		r := Report{Seq: o.seq + 1, Prev: o.seq, Nonce: o.nonce, Votes: map[health.Target]health.Vote{target("eu"): {Side: health.Down, Since: time.Now()}}}
		_, err := l.ctl.Report(t.Context(), "ap-1", r)
		require.NoError(t, err)
		again, err := l.ctl.Report(t.Context(), "ap-1", r) // the reply was lost
		require.NoError(t, err)
		require.Equal(t, Reply{Nonce: again.Nonce, Seq: r.Seq}, again)
		r.Votes = map[health.Target]health.Vote{target("eu"): {Side: health.Up, Since: time.Now()}}
		other, err := l.ctl.Report(t.Context(), "ap-1", r)
		require.NoError(t, err)
		require.True(t, other.NeedFull, "the same number, other votes: somebody is confused")
		require.Len(t, l.proposed(statestore.KindCastVotes), 1)
	})
}

func TestVotesThatChangedAfterALostAnswerNeedNoFullSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		o := os["ap-1"]
		o.pause()
		votes := func(side health.Side) map[health.Target]health.Vote {
			return map[health.Target]health.Vote{target("eu"): {Side: side, Since: time.Now()}}
		}
		_, err := l.ctl.Report(t.Context(), "ap-1", Report{Seq: o.seq + 1, Prev: o.seq, Nonce: o.nonce, Votes: votes(health.Down)})
		require.NoError(t, err) // its sender does not hear that
		reply, err := l.ctl.Report(t.Context(), "ap-1", Report{Seq: o.seq + 2, Prev: o.seq, Nonce: o.nonce, Votes: votes(health.Up)})
		require.NoError(t, err)
		require.Equal(t, Reply{Nonce: reply.Nonce, Seq: o.seq + 1}, reply, "it knows what it sent under that number")
	})
}

func TestALeaseCountsFromTheAnswerAndNotFromBeforeASlowCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		o := os["ap-1"]
		o.pause()
		slow := true
		l.mu.Lock()
		l.refuse = func(cmd statestore.Command) error {
			if _, cast := cmd.(statestore.CastVotes); cast && slow {
				slow = false
				l.mu.Unlock()
				time.Sleep(leaseLAN / 2)
				l.mu.Lock()
			}
			return nil
		}
		l.mu.Unlock()
		reply, err := l.ctl.Report(t.Context(), "ap-1", Report{
			Seq: o.seq + 1, Prev: o.seq, Nonce: o.nonce, Votes: map[health.Target]health.Vote{target("eu"): {Side: health.Down, Since: time.Now()}},
		})
		require.NoError(t, err)
		_, err = l.ctl.Report(t.Context(), "ap-1", Report{Seq: reply.Seq, Nonce: reply.Nonce})
		require.NoError(t, err)
		time.Sleep(leaseLAN - time.Second)
		require.True(t, l.st().Observers["ap-1"].Counts(), "its lease is not over")
	})
}

func TestTimeMovesOnlyWhileSomethingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t)
		defer l.resign()
		l.person(statestore.FreezeService{Reason: "window", For: 25 * time.Second})
		time.Sleep(time.Minute)
		require.Len(t, l.proposed(statestore.KindTick), 3)
		require.Len(t, l.proposed(statestore.KindThaw), 1)
		require.Empty(t, l.st().Freezes)
		require.Len(t, l.out.lines("automation frozen"), 1)
		require.Len(t, l.out.lines("automation thawed"), 1)
	})
}

func TestARefusedConclusionDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		l.mu.Lock()
		l.refuse = func(cmd statestore.Command) error {
			if _, rotates := cmd.(statestore.Rotate); rotates {
				return statestore.ErrFloor
			}
			return nil
		}
		l.mu.Unlock()
		go os["ap-1"].vote(health.Down, "eu")
		os["us-1"].vote(health.Down, "eu")
		time.Sleep(2 * time.Minute)
		tries := len(l.proposed(statestore.KindRotate))
		require.Greater(t, tries, 5, "it does not give up")
		require.Less(t, tries, 15)
	})
}

func TestAConclusionThatWasLostIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		lost := 0
		l.mu.Lock()
		l.refuse = func(cmd statestore.Command) error {
			if _, rotates := cmd.(statestore.Rotate); rotates && lost < 3 {
				lost++
				return errors.New("no leader")
			}
			return nil
		}
		l.mu.Unlock()
		go os["ap-1"].vote(health.Down, "eu")
		os["us-1"].vote(health.Down, "eu")
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"us"}, l.inRotation())
		require.Len(t, l.out.lines("conclusion not committed"), 3)
	})
}

func TestAnExceededBudgetFreezes(t *testing.T) { // G11
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		l.mu.Lock()
		l.refuse = func(cmd statestore.Command) error {
			if _, rotates := cmd.(statestore.Rotate); rotates {
				return statestore.ErrBudget
			}
			return nil
		}
		l.mu.Unlock()
		go os["ap-1"].vote(health.Down, "eu")
		os["us-1"].vote(health.Down, "eu")
		time.Sleep(time.Minute)
		require.Len(t, l.proposed(statestore.KindRotate), 1)
		require.Len(t, l.proposed(statestore.KindFreeze), 1)
		require.NotNil(t, l.st().Freezes[""])
	})
}

func TestDutiesRunWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		running := make(chan bool, 2)
		l.ctl.cfg.Duties = []func(context.Context){func(ctx context.Context) {
			running <- true
			<-ctx.Done()
			running <- false
		}}
		l.lead()
		require.True(t, <-running)
		l.resign()
		require.False(t, <-running)
	})
}
