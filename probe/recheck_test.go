package probe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// A service that is removed and comes back finds its probes running for another one:
// the vote on it never changes, and the state has none.
func TestAVoteThatANewerSpecDroppedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBallot(), &leader{}
		b.set(webEU, health.Up, ReasonOK)
		b.set(health.Target{Service: "web", Cluster: "us", Endpoint: webEU.Endpoint}, health.Down, ReasonRefused)
		r := report(t, ReporterConfig{Votes: b, Sink: l, Held: func(target health.Target) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			_, held := l.votes[target]
			return held
		}})
		time.Sleep(300 * time.Millisecond)
		l.mu.Lock()
		delete(l.votes, webEU)
		l.mu.Unlock()
		time.Sleep(5 * time.Second)
		before := len(l.reports())
		require.Equal(t, health.Unknown, l.side(webEU), "nothing says yet that the spec is another")
		r.Recheck()
		time.Sleep(recheckBeats*time.Second + 100*time.Millisecond)
		require.Equal(t, health.Up, l.side(webEU))
		var votes, full int
		for _, sent := range l.reports()[before:] {
			votes += len(sent.Votes)
			if sent.Full {
				full++
			}
		}
		require.Equal(t, 1, votes, "only what was lost")
		require.Zero(t, full)
	})
}
