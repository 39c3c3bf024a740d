package probe

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// ballot is a set of votes that a test changes.
type ballot struct {
	mu      sync.Mutex
	votes   map[health.Target]health.Vote
	changed chan struct{}
}

func newBallot() *ballot {
	return &ballot{votes: map[health.Target]health.Vote{}, changed: make(chan struct{})}
}

func (b *ballot) Votes() map[health.Target]health.Vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.votes)
}

func (b *ballot) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *ballot) set(t health.Target, side health.Side, reason Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.votes[t] = health.Vote{Side: side, Reason: string(reason), Since: time.Now().Round(0)}
	close(b.changed)
	b.changed = make(chan struct{})
}

// leader holds the votes of one observer by the rules of the state machine:
// changes apply only on top of what it holds, a full set replaces it, a number
// not above the last is refused.
type leader struct {
	mu        sync.Mutex
	seq       uint64
	known     bool // the observer is known and not silent
	votes     map[health.Target]health.Vote
	nonce     uint64
	wantNonce bool // a full set must echo the last nonce
	heard     []Report
	at        []time.Time

	flight int // reports under way
	most   int

	lose   func(r Report) (request, answer bool) // nil: nothing
	delay  time.Duration
	hangs  bool
	behind bool // answers before it applies
}

func (l *leader) Report(ctx context.Context, r Report) (Ack, error) {
	l.mu.Lock()
	hangs, delay := l.hangs, l.delay
	l.flight++
	l.most = max(l.most, l.flight)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.flight--
		l.mu.Unlock()
	}()
	if hangs {
		<-ctx.Done() // like a peer that is gone
		return Ack{}, ctx.Err()
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return Ack{}, ctx.Err()
		}
	}
	l.mu.Lock()
	var request, answer bool
	if l.lose != nil {
		request, answer = l.lose(r)
	}
	defer l.mu.Unlock()
	if request {
		return Ack{}, errors.New("request lost")
	}
	l.heard, l.at = append(l.heard, r), append(l.at, time.Now())
	before := l.seq
	ack := l.applyLocked(r)
	if l.behind {
		ack.Seq = before
	}
	if answer {
		return Ack{}, errors.New("answer lost")
	}
	return ack, nil
}

func (l *leader) applyLocked(r Report) Ack {
	echoed := r.Nonce == l.nonce && l.nonce != 0
	l.nonce++
	ack := Ack{Nonce: l.nonce, Seq: l.seq}
	switch {
	case r.Full && l.wantNonce && !echoed:
		ack.NeedFull = true
	case r.Full && r.Seq > l.seq:
		l.seq, l.votes, l.known = r.Seq, maps.Clone(r.Votes), true
	case len(r.Votes) > 0 && l.known && r.Prev == l.seq && r.Seq > r.Prev:
		maps.Copy(l.votes, r.Votes)
		l.seq = r.Seq
	case len(r.Votes) > 0 && r.Seq == l.seq && l.known: // it came again
	case !l.known, r.Seq != l.seq, len(r.Votes) > 0:
		ack.NeedFull = true
	}
	ack.Seq = l.seq
	return ack
}

func (l *leader) side(t health.Target) health.Side {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.votes[t].Side
}

func (l *leader) held() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

func (l *leader) mostUnderWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

func (l *leader) reports() []Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Report(nil), l.heard...)
}

// report runs a Reporter until the test ends.
func report(t *testing.T, cfg ReporterConfig) *Reporter {
	t.Helper()
	r := NewReporter(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func TestChangesGoAtOnceAndOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		us := target("web", "us", "192.0.2.20")
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l, Version: "1.0.0", TableIndex: func() uint64 { return 42 }})
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, health.Up, l.side(webEU))
		n := len(l.reports())

		b.set(us, health.Down, ReasonRefused)
		synctest.Wait()
		got := l.reports()[n:]
		require.Len(t, got, 1, "without any time passing")
		require.Len(t, got[0].Votes, 1)
		require.Equal(t, "refused", got[0].Votes[us].Reason)
		require.Equal(t, got[0].Prev+1, got[0].Seq)
		require.Equal(t, uint64(42), got[0].TableIndex)
		require.Equal(t, "1.0.0", got[0].Version)
		require.Equal(t, time.Now().UTC(), got[0].Clock)
	})
}

func TestHeartbeatsEverySecondEchoTheNonceAndCarryNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(300 * time.Millisecond)
		n := len(l.reports())
		time.Sleep(time.Minute)
		beats := l.reports()[n:]
		require.Len(t, beats, 60)
		for i, r := range beats {
			require.Empty(t, r.Votes)
			require.False(t, r.Full)
			require.Equal(t, beats[0].Seq, r.Seq)
			require.Equal(t, beats[0].Nonce+uint64(i), r.Nonce, "each echoes the nonce of the answer before")
		}
	})
}

func TestALeaderThatNeedsEverythingGetsItAboveItsOwnNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBallot()
		l := &leader{seq: 57, known: true, wantNonce: true, nonce: 9, votes: map[health.Target]health.Vote{webEU: {Side: health.Down}}}
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l}) // an earlier life got to 57
		synctest.Wait()
		require.Equal(t, health.Up, l.side(webEU), "without any time passing")
		require.Greater(t, l.held(), uint64(57))
		require.LessOrEqual(t, len(l.reports()), 3)

		l.mu.Lock()
		l.known, l.votes = false, nil // it set the observer aside as silent
		l.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, health.Up, l.side(webEU))
	})
}

func TestResyncSendsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		r := report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(300 * time.Millisecond)
		l.mu.Lock()
		delete(l.votes, webEU)
		l.mu.Unlock()
		r.Resync()
		synctest.Wait()
		require.Equal(t, health.Up, l.side(webEU))
	})
}

func TestALostReportIsSentAgainAndALostAnswerChangesNothing(t *testing.T) {
	for name, lost := range map[string][2]bool{"request": {true, false}, "answer": {false, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBallot(), &leader{}
				b.set(webEU, health.Up, ReasonOK)
				report(t, ReporterConfig{Votes: b, Sink: l})
				time.Sleep(300 * time.Millisecond)
				n, before := len(l.reports()), l.held()
				failing := true
				l.mu.Lock()
				l.lose = func(Report) (bool, bool) { return failing && lost[0], failing && lost[1] }
				l.mu.Unlock()
				b.set(webEU, health.Down, ReasonRefused)
				time.Sleep(5 * time.Second)
				l.mu.Lock()
				failing = false
				l.mu.Unlock()
				time.Sleep(retryMax)
				require.Equal(t, health.Down, l.side(webEU))
				for _, r := range l.reports()[n:] {
					require.False(t, r.Full, "no full set is needed")
				}
				require.Equal(t, before+1, l.held(), "it counts once")
			})
		})
	}
}

// A vote that was taken back while its report's outcome is unknown must neither
// stay in the state nor be sent under a number that means something else.
func TestAVoteTakenBackDuringAnOutage(t *testing.T) {
	for name, lost := range map[string][2]bool{"request": {true, false}, "answer": {false, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBallot(), &leader{}
				b.set(webEU, health.Up, ReasonOK)
				report(t, ReporterConfig{Votes: b, Sink: l})
				time.Sleep(300 * time.Millisecond)
				l.mu.Lock()
				l.lose = func(Report) (bool, bool) { return lost[0], lost[1] }
				l.mu.Unlock()
				b.set(webEU, health.Down, ReasonRefused)
				synctest.Wait()
				l.mu.Lock()
				l.lose = nil
				l.mu.Unlock()
				b.set(webEU, health.Up, ReasonOK)
				time.Sleep(1500 * time.Millisecond)
				require.Equal(t, health.Up, l.side(webEU))
			})
		})
	}
}

func TestALeaderChangeIsAnsweredAtOnceEvenWhileAReportHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{hangs: true}
		b.set(webEU, health.Up, ReasonOK)
		var mu sync.Mutex
		change := make(chan struct{})
		report(t, ReporterConfig{Votes: b, Sink: l, Timeout: time.Hour, LeaderChanged: func() <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			return change
		}})
		time.Sleep(10 * time.Second)
		require.Empty(t, l.reports())
		l.mu.Lock()
		l.hangs = false
		l.mu.Unlock()
		mu.Lock()
		close(change)
		change = make(chan struct{})
		mu.Unlock()
		synctest.Wait()
		require.Equal(t, health.Up, l.side(webEU))
	})
}

func TestAChangeDoesNotWaitForAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(900 * time.Millisecond)
		l.mu.Lock()
		l.delay = 400 * time.Millisecond
		l.mu.Unlock()
		time.Sleep(200 * time.Millisecond) // a heartbeat is on its way for 100 ms
		b.set(webEU, health.Down, ReasonRefused)
		time.Sleep(401 * time.Millisecond)
		require.Equal(t, health.Down, l.side(webEU))
		for _, r := range l.reports()[1:] {
			require.False(t, r.Full, "crossing answers part nobody")
		}
	})
}

func TestNoHeartbeatClaimsThatOldVotesHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(300 * time.Millisecond)
		l.mu.Lock()
		l.lose = func(r Report) (bool, bool) { return len(r.Votes) > 0, false } // only heartbeats get through
		n := len(l.heard)
		l.mu.Unlock()
		b.set(webEU, health.Down, ReasonRefused)
		time.Sleep(10 * time.Second)
		require.Empty(t, l.reports()[n:])
	})
}

func TestChangesDuringAnOutageGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		us := target("web", "us", "192.0.2.20")
		b.set(webEU, health.Up, ReasonOK)
		b.set(us, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(300 * time.Millisecond)
		l.mu.Lock()
		l.lose = func(Report) (bool, bool) { return true, false }
		n, held := len(l.heard), l.seq
		l.mu.Unlock()
		b.set(webEU, health.Down, ReasonRefused)
		time.Sleep(3 * time.Second)
		b.set(us, health.Down, ReasonTimeout)
		time.Sleep(3 * time.Second)
		l.mu.Lock()
		l.lose = nil
		l.mu.Unlock()
		time.Sleep(time.Second)
		got := l.reports()[n]
		require.Len(t, got.Votes, 2)
		require.Equal(t, held, got.Prev)
		require.False(t, got.Full)
		require.Equal(t, got.Seq, l.held())
		for _, r := range l.reports()[n:] {
			require.False(t, r.Full)
		}
	})
}

func TestOneReportAndOneHeartbeatAtMostAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l, Timeout: time.Hour})
		time.Sleep(300 * time.Millisecond)
		l.mu.Lock()
		l.hangs = true
		l.mu.Unlock()
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, l.mostUnderWay(), "one heartbeat")
		for side := range 10 {
			b.set(webEU, health.Side(side%2+1), ReasonOther)
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, l.mostUnderWay())
	})
}

func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		tries := 0
		l.lose = func(Report) (bool, bool) { tries++; return true, false }
		report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		require.InDelta(t, 80, tries, 30)
	})
}

func TestALeaderThatAnswersBeforeItAppliesIsHeardOutByHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{behind: true}
		b.set(webEU, health.Up, ReasonOK)
		report(t, ReporterConfig{Votes: b, Sink: l})
		time.Sleep(10 * time.Second)
		require.Equal(t, health.Up, l.side(webEU))
		b.set(webEU, health.Down, ReasonRefused)
		time.Sleep(10 * time.Second)
		require.Equal(t, health.Down, l.side(webEU))
		require.Less(t, len(l.reports()), 60)
	})
}

func TestANewTargetWithNothingToSayIsNotReported(t *testing.T) {
	require.Empty(t, diff(nil, map[health.Target]health.Vote{webEU: {}}))
	require.Len(t, diff(nil, map[health.Target]health.Vote{webEU: {Reason: "blind"}}), 1)
	require.Len(t, diff(map[health.Target]health.Vote{webEU: {Side: health.Up}}, map[health.Target]health.Vote{webEU: {}}), 1)
	require.Empty(t, diff(map[health.Target]health.Vote{webEU: {Side: health.Down, Reason: "refused"}}, map[health.Target]health.Vote{webEU: {Side: health.Down, Reason: "timeout"}}), "another reason for the same side is no change")
}

// Whatever gets lost, the state ends up with the votes; and it never holds a vote
// that this observer did not have.
func TestTheStateFollowsTheVotesThroughAnyLoss(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng, chance := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			b, l := newBallot(), &leader{wantNonce: seed%2 == 0}
			calm := false
			l.lose = func(Report) (bool, bool) {
				if calm {
					return false, false
				}
				return chance.IntN(4) == 0, chance.IntN(4) == 0
			}
			report(t, ReporterConfig{Votes: b, Sink: l})
			var targets []health.Target
			for i := range 5 {
				targets = append(targets, health.Target{Service: "s", Cluster: "c", Endpoint: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})})
			}
			for range 200 {
				time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
				b.set(targets[rng.IntN(5)], health.Side(rng.IntN(3)), ReasonOther)
				l.mu.Lock()
				l.delay = time.Duration(rng.IntN(200)) * time.Millisecond
				if rng.IntN(20) == 0 {
					l.known = false
				}
				if rng.IntN(40) == 0 {
					l.nonce += 1000
				}
				l.mu.Unlock()
			}
			l.mu.Lock()
			calm = true
			l.mu.Unlock()
			time.Sleep(6 * time.Second)
			for _, target := range targets {
				require.Equal(t, b.Votes()[target].Side, l.side(target), "seed %d", seed)
			}
		})
	}
}
