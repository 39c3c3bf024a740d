package probe

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// voted is more targets than one report holds.
const voted = 3*maxVotes + 100

func manyVotes(side health.Side) map[health.Target]health.Vote {
	votes := map[health.Target]health.Vote{}
	for i := range voted {
		votes[target(fmt.Sprintf("s%d", i), "eu", "192.0.2.10")] = health.Vote{Side: side, Since: time.Now().Round(0)}
	}
	return votes
}

func (b *ballot) replace(votes map[health.Target]health.Vote) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.votes = votes
	close(b.changed)
	b.changed = make(chan struct{})
}

func TestVotesOnManyTargetsGoInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{wantNonce: true, seq: 7, known: true}
		b.replace(manyVotes(health.Up))
		report(t, ReporterConfig{Votes: b, Sink: l})
		holds := func(side health.Side) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			require.Len(t, l.votes, voted)
			for target, v := range l.votes {
				require.Equal(t, side, v.Side, target)
			}
			for _, r := range l.heard {
				require.LessOrEqual(t, len(r.Votes), maxVotes)
			}
		}
		holds(health.Up)
		n := len(l.reports())
		b.replace(manyVotes(health.Down))
		holds(health.Down)
		require.Len(t, l.reports()[n:], 4, "and nothing is sent twice")
	})
}

func TestAPieceThatIsLostGoesAgainAlone(t *testing.T) {
	for name, lost := range map[string][2]bool{"request": {true, false}, "answer": {false, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, l := newBallot(), &leader{}
				b.replace(manyVotes(health.Up))
				report(t, ReporterConfig{Votes: b, Sink: l})
				synctest.Wait()
				n, failing := len(l.reports()), 2
				l.mu.Lock()
				l.lose = func(r Report) (bool, bool) {
					if len(r.Votes) == 0 || failing == 0 {
						return false, false
					}
					failing--
					return lost[0], lost[1]
				}
				l.mu.Unlock()
				b.replace(manyVotes(health.Down))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for target := range manyVotes(health.Down) {
					require.Equal(t, health.Down, l.side(target))
				}
				for _, r := range l.reports()[n:] {
					require.False(t, r.Full, "the leader knows the rest")
				}
			})
		})
	}
}
