package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
)

// duties counts who leads; more than one at a time with one term is a bug.
type duties struct {
	running atomic.Int64
	started atomic.Int64
	terms   [64]atomic.Int64
}

func (d *duties) run(ctx context.Context, term uint64) error {
	d.terms[term%64].Add(1)
	d.running.Add(1)
	d.started.Add(1)
	defer d.running.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

func leadAll(t *testing.T, c *consensustest.Cluster, d *duties) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, len(c.Names()))
	for _, name := range c.Names() {
		go func() { done <- c.Node(name).Lead(ctx, d.run) }()
	}
	t.Cleanup(func() {
		cancel()
		for range c.Names() {
			<-done
		}
	})
}

func TestDutiesFollowTheLeader(t *testing.T) { // A7
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		var d duties
		leadAll(t, c, &d)
		for range 5 {
			leader := c.WaitLeader()
			time.Sleep(time.Second)
			require.EqualValues(t, 1, d.running.Load())
			c.Isolate(leader)
			c.WaitLeader(c.Others(leader)...)
			time.Sleep(2 * time.Second)
			require.EqualValues(t, 1, d.running.Load(), "the old leader's duties have ended")
			c.Net.Heal()
		}
		for term := range d.terms {
			require.LessOrEqual(t, d.terms[term].Load(), int64(1), "two sets of duties in term %d", term)
		}
	})
}

func TestLeadershipFlappedTenTimesASecond(t *testing.T) { // SYN-3
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		var d duties
		leadAll(t, c, &d)
		c.WaitLeader()
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_ = c.Node(c.Names()[i%3]).TransferLeader(ctx, "") // as often as it goes
			cancel()
			time.Sleep(time.Until(time.Now().Truncate(100 * time.Millisecond).Add(100 * time.Millisecond)))
		}
		time.Sleep(5 * time.Second)
		leader := c.WaitLeader()
		require.EqualValues(t, 1, d.running.Load())
		c.Propose(c.Follower(leader), token(1))
		c.Settle()
		t.Logf("%d terms with duties", d.started.Load())
		require.Greater(t, d.started.Load(), int64(5))
	})
}

func TestFailingDutiesGiveLeadershipUp(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		sick := c.WaitLeader()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		tries := 0
		go func() {
			done <- c.Node(sick).Lead(ctx, func(context.Context, uint64) error {
				tries++
				if tries == 2 {
					panic("nil map")
				}
				return errors.New("cannot start")
			})
		}()
		c.Until("another leader", func() bool {
			name, ok := c.Node(sick).Leader()
			return ok && name != sick
		})
		require.Equal(t, 3, tries)
		c.WaitLeader()
		c.Propose(sick, token(1))
		c.Settle()
		cancel()
		<-done
	})
}

func TestATransferToACutOffNodeDoesNotStick(t *testing.T) { // SYN-4, A9
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		for i := range 10 {
			leader := c.WaitLeader()
			target := c.Follower(leader)
			c.Net.Cut(leader, target)
			_ = c.Node(leader).TransferLeader(t.Context(), target) // must not work
			c.Net.Heal()
			// The late TimeoutNow may still arrive and move leadership under the proposal.
			_, err := c.Node(leader).Propose(t.Context(), token(i), consensus.Origin{
				Actor: "ann", Request: fmt.Sprint(i), Issued: time.Now(),
			})
			require.NoError(t, err)
		}
		time.Sleep(5 * time.Second) // every TimeoutNow that was held up has come or is given up
		leader := c.WaitLeader()
		target := c.Follower(leader)
		require.NoError(t, c.Node(c.Follower(target)).TransferLeader(t.Context(), target))
		require.Equal(t, target, c.WaitLeader())
	})
}

func TestAPlannedStopCostsNoElectionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		start := time.Now()
		c.Stop(leader)
		c.WaitLeader()
		require.Less(t, time.Since(start), 400*time.Millisecond)
	})
}
