package consensus_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
)

func TestMetricsSayWhatHealthSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		regs := map[string]*prometheus.Registry{}
		c := consensustest.New(t, 3, consensustest.Options{Config: func(name string, cfg *consensus.Config) {
			regs[name] = prometheus.NewPedanticRegistry()
			cfg.Registerer = regs[name]
		}})
		leader := c.WaitLeader()
		c.Propose(leader, token(1))
		time.Sleep(5 * time.Second)
		require.NoError(t, testutil.GatherAndCompare(regs[leader], strings.NewReader(`
# HELP quorate_quorum_available Whether a leader that holds its lease was heard lately.
# TYPE quorate_quorum_available gauge
quorate_quorum_available 1
# HELP quorate_quorum_failure_tolerance How many more voters may be lost.
# TYPE quorate_quorum_failure_tolerance gauge
quorate_quorum_failure_tolerance 1
# HELP quorate_raft_is_leader Whether this node leads and holds its lease.
# TYPE quorate_raft_is_leader gauge
quorate_raft_is_leader 1
# HELP quorate_raft_last_contact_seconds Since a leader that holds its lease was heard.
# TYPE quorate_raft_last_contact_seconds gauge
quorate_raft_last_contact_seconds 0
`), "quorate_quorum_available", "quorate_quorum_failure_tolerance", "quorate_raft_is_leader", "quorate_raft_last_contact_seconds"))
		for _, name := range c.Others(leader) {
			c.Kill(name)
		}
		_, err := c.Node(leader).Propose(t.Context(), token(2), consensus.Origin{Actor: "ann"})
		require.Error(t, err)
		time.Sleep(10 * time.Second)
		require.NoError(t, testutil.GatherAndCompare(regs[leader], strings.NewReader(`
# HELP quorate_member_reachable Whether the peer answered this node lately.
# TYPE quorate_member_reachable gauge
quorate_member_reachable{peer="`+c.Others(leader)[0]+`"} 0
quorate_member_reachable{peer="`+c.Others(leader)[1]+`"} 0
# HELP quorate_quorum_available Whether a leader that holds its lease was heard lately.
# TYPE quorate_quorum_available gauge
quorate_quorum_available 0
`), "quorate_member_reachable", "quorate_quorum_available"))
	})
}

func TestEveryNodeShowsItsPeersClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		c := consensustest.New(t, 3, consensustest.Options{Config: func(name string, cfg *consensus.Config) {
			switch name {
			case "n1":
				cfg.Registerer = reg
			case "n3":
				cfg.Wall = func() time.Time { return time.Now().Add(90 * time.Second) }
			}
		}})
		c.WaitLeader()
		time.Sleep(5 * time.Second)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP quorate_clock_offset_seconds How far the peer's clock is ahead of this node's.
# TYPE quorate_clock_offset_seconds gauge
quorate_clock_offset_seconds{peer="n2"} 0
quorate_clock_offset_seconds{peer="n3"} 90
`), "quorate_clock_offset_seconds"))
		for _, s := range c.Node("n3").Servers() {
			want := -90 * time.Second
			if s.Name == "n3" {
				want = 0
			}
			require.Equal(t, want, s.Offset, "%s as n3 sees it", s.Name)
		}
	})
}
