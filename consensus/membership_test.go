package consensus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/statestore"
)

func server(t *testing.T, c *consensustest.Cluster, at, name string) (found consensus.Server) {
	t.Helper()
	for _, s := range c.Node(at).Servers() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("%s knows no member %s", at, name)
	return found
}

func TestANewVoterVotesOnlyOnceItHasCaughtUp(t *testing.T) { // A18
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		for i := range 200 {
			c.Propose(leader, token(i))
		}
		c.Add("n4", "a")
		c.Isolate("n4")
		require.NoError(t, c.Node(c.Follower(leader)).AddVoter(t.Context(), "n4", "a"))
		time.Sleep(30 * time.Second)
		require.False(t, server(t, c, leader, "n4").Voter, "it has nothing yet")
		require.Empty(t, c.Node(leader).Health().Warnings)
		c.Net.Heal()
		c.Until("promotion", func() bool { return server(t, c, leader, "n4").Voter })
		require.GreaterOrEqual(t, c.Store("n4").State().Index, c.Store(leader).State().Index-64)
		require.Contains(t, c.Node(leader).Health().Warnings[0], "4 voters")
		c.Settle()
	})
}

func TestALaterLeaderPromotesWhomTheStateWantsToVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 4, consensustest.Options{Nonvoters: 1})
		leader := c.WaitLeader()
		time.Sleep(10 * time.Second)
		require.False(t, server(t, c, leader, "n4").Voter, "nobody asked for its vote")
		c.Propose(leader, statestore.UpsertMember{Member: statestore.Member{
			Name: "n4", Nonce: "a", Region: "eu", Role: statestore.Voter, Peer: "n4:1", Version: "1.0.0", Supports: 1,
		}})
		c.Until("promotion", func() bool { return server(t, c, leader, "n4").Voter })
	})
}

func TestANonvoterNeverStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 4, consensustest.Options{Nonvoters: 1})
		c.WaitLeader()
		c.Propose("n4", token(1))
		for _, name := range c.Names()[:3] {
			c.Kill(name)
		}
		time.Sleep(time.Minute)
		require.NotEqual(t, "leader", c.Node("n4").Health().State)
		require.GreaterOrEqual(t, c.Node("n4").LastContact(), time.Minute)
		for _, name := range c.Names()[:3] {
			c.Restart(name)
		}
		c.Propose(c.WaitLeader(), token(2))
		c.Settle()
	})
}

func TestRemovalsThatEndangerTheQuorumAreRefused(t *testing.T) { // A17
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 5, consensustest.Options{})
		leader := c.WaitLeader()
		victim, other := c.Others(leader)[0], c.Others(leader)[1]
		require.ErrorIs(t, c.Node(leader).Remove(t.Context(), "nobody"), statestore.ErrNotFound)

		// Five voters, two of them dead: without one that lives, two of four would be left.
		c.Kill(victim)
		c.Kill(other)
		time.Sleep(5 * time.Second)
		alive := c.Follower(leader)
		require.ErrorIs(t, c.Node(leader).Remove(t.Context(), alive), consensus.ErrUnsafe)
		require.NoError(t, c.Node(alive).Remove(t.Context(), victim), "a dead one may go")
		require.NoError(t, c.Node(alive).Remove(t.Context(), other))
		require.Len(t, c.Node(leader).Servers(), 3)
		err := c.Node(alive).Remove(t.Context(), leader)
		require.ErrorIs(t, err, consensus.ErrUnsafe)
		require.ErrorContains(t, err, "at least 3")
		require.ErrorContains(t, err, leader+" still answers or was heard a moment ago")
		require.ErrorContains(t, err, "stop it and wait until `quorate members` says UNREACHABLE")
		c.Propose(leader, token(1))
	})
}

// Three voters are the usual installation. A dead one must make room for its
// replacement, which may have its name; one that lives must not go.
func TestADeadVoterOfThreeCanBeReplacedUnderItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		lost := c.Follower(leader)
		require.ErrorIs(t, c.Node(leader).Remove(t.Context(), lost), consensus.ErrUnsafe, "it answers")

		c.Kill(lost)
		time.Sleep(5 * time.Second)
		require.NoError(t, c.Node(leader).Remove(t.Context(), lost))
		require.Len(t, c.Node(leader).Servers(), 2)
		c.Propose(leader, token(1))

		c.Add(lost, "b")
		require.NoError(t, c.Node(leader).AddVoter(t.Context(), lost, "b"))
		c.Until("three voters", func() bool {
			voters := 0
			for _, s := range c.Node(leader).Servers() {
				if s.Voter {
					voters++
				}
			}
			return voters == 3
		})
	})
}

func TestTheLeaderCanBeRemoved(t *testing.T) { // P-12
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 4, consensustest.Options{})
		leader := c.WaitLeader()
		require.NoError(t, c.Node(c.Follower(leader)).Remove(t.Context(), leader))
		next := c.WaitLeader(c.Others(leader)...)
		c.Propose(next, token(1))
		time.Sleep(time.Minute)
		require.NotEqual(t, "leader", c.Node(leader).Health().State)
		require.True(t, c.Node(leader).Health().Removed)
		require.Equal(t, next, c.WaitLeader(c.Others(leader)...))
	})
}

func TestANodeUnderANewNonceIsNotTakenForItsOldSelf(t *testing.T) { // A15: the same process must not count twice
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		lost := c.Follower(leader)
		c.Propose(leader, token(1))
		c.Kill(lost)
		c.Add(lost, "b") // its disk was lost; it is not a member under this id
		time.Sleep(20 * time.Second)
		require.Zero(t, c.Store(lost).State().Index, "the old id's log went to the new one")
		require.False(t, c.Node(lost).HasState())

		require.NoError(t, c.Node(leader).AddVoter(t.Context(), lost, "b"))
		c.Until("promotion", func() bool {
			for _, s := range c.Node(leader).Servers() {
				if s.Nonce == "b" && s.Voter {
					return true
				}
			}
			return false
		})
		require.Error(t, c.Node(leader).Remove(t.Context(), lost), "the name is ambiguous")
		require.NoError(t, c.Node(leader).Remove(t.Context(), consensus.ServerID(lost, "a")))
		c.Settle()
		require.Len(t, c.Node(leader).Servers(), 3)
	})
}

func TestToleranceAndReachability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		time.Sleep(5 * time.Second)
		for _, name := range c.Names() {
			h := c.Node(name).Health()
			require.True(t, h.Quorum, name)
			require.Equal(t, 3, h.Voters)
			require.Equal(t, 3, h.Reachable, name)
			require.Equal(t, 1, h.Tolerance, name)
		}
		c.Kill(follower)
		time.Sleep(10 * time.Second)
		h := c.Node(leader).Health()
		require.True(t, h.Quorum)
		require.Equal(t, 0, h.Tolerance)
		require.False(t, server(t, c, leader, follower).Reachable)
		third := c.Follower(leader)
		require.Equal(t, 2, c.Node(third).Health().Reachable)
		require.False(t, server(t, c, third, follower).Reachable)
	})
}

func TestCallsReachSelfAndOthersAndErrorsKeepTheirIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		for _, name := range c.Names() {
			c.Node(name).Handle("test.echo", func(_ context.Context, from string, body []byte) ([]byte, error) {
				return append([]byte(from+">"+name+":"), body...), nil
			})
			c.Node(name).Handle("test.fail", func(ctx context.Context, _ string, body []byte) ([]byte, error) {
				switch string(body) {
				case "refuse":
					return nil, &statestore.Refusal{Code: statestore.ErrStale.Code, Text: "the drains changed"}
				case "leader":
					return nil, consensus.ErrNotLeader
				case "panic":
					panic("boom")
				case "hang":
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, errors.New("plain")
			})
		}
		follower := c.Follower(leader)
		for _, to := range []string{leader, follower} {
			out, err := c.Node(follower).Call(t.Context(), to, "test.echo", []byte("hi"))
			require.NoError(t, err)
			require.Equal(t, follower+">"+to+":hi", string(out))
			_, err = c.Node(follower).Call(t.Context(), to, "test.fail", []byte("refuse"))
			require.ErrorIs(t, err, statestore.ErrStale)
			require.EqualError(t, err, "the drains changed")
			_, err = c.Node(follower).Call(t.Context(), to, "test.fail", []byte("leader"))
			require.ErrorIs(t, err, consensus.ErrNotLeader)
			_, err = c.Node(follower).Call(t.Context(), to, "test.fail", []byte("panic"))
			require.ErrorContains(t, err, "panicked")
			_, err = c.Node(follower).Call(t.Context(), to, "test.fail", []byte("other"))
			require.EqualError(t, err, "plain")
			_, err = c.Node(follower).Call(t.Context(), to, "test.none", nil)
			require.ErrorContains(t, err, "no such method")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			_, err = c.Node(follower).Call(ctx, to, "test.fail", []byte("hang"))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(start).Round(10*time.Millisecond))
		}
		out, err := c.Node(follower).CallLeader(t.Context(), "test.echo", nil)
		require.NoError(t, err)
		require.Equal(t, follower+">"+leader+":", string(out))
		big := make([]byte, 3<<20)
		out, err = c.Node(follower).Call(t.Context(), leader, "test.echo", big)
		require.NoError(t, err)
		require.Greater(t, len(out), len(big))
		_, err = c.Node(follower).Call(t.Context(), leader, "test.echo", make([]byte, 9<<20))
		require.ErrorIs(t, err, consensus.ErrUnreachable)
		c.Kill(leader)
		_, err = c.Node(follower).Call(t.Context(), leader, "test.echo", nil)
		require.Error(t, err)
		_, err = c.Node(follower).Call(t.Context(), leader, "test.echo", nil)
		require.ErrorIs(t, err, consensus.ErrUnreachable)
	})
}

func TestGarbageOnEitherProtocolDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		stranger := c.Net.Links("stranger")
		for _, proto := range []string{consensus.ProtoRaft, consensus.ProtoRPC} {
			for _, garbage := range []string{
				"", "\x00", "\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x03abc", "\x00\x00\x00\x06\x00\x00\x00\x01\xffx",
				"\x04" + leader + "/a\x04n2/a", // right target, but the name is not its own
				"\x04" + leader + "/b\x0astranger/a",
			} {
				conn, err := stranger.Dial(t.Context(), proto, leader, leader)
				require.NoError(t, err)
				_, err = conn.Write([]byte(garbage))
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				require.NoError(t, conn.Close())
			}
		}
		c.Propose(leader, token(1))
		c.Settle()
		require.Equal(t, leader, c.WaitLeader())
	})
}
