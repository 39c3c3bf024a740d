package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/statestore"
)

// races is how often approve and reject race.
const races = 1000

// G7, G8: approve and reject race from two nodes while leaders come and go. Each
// person learns what became of theirs, one of the two decides, and every node has
// that decision for good.
func TestG7ApproveAndRejectRaceToOneDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = 20181021
		rnd := rand.New(rand.NewPCG(seed, 0))
		c := consensustest.New(t, 3, consensustest.Options{})
		applyOrders(c)
		won := map[statestore.CutoverPhase]int{}
		changes := 0
		for round := range races {
			leader := c.WaitLeader()
			id, digest := proposeOrders(t, c, leader)
			nodes := c.Names()
			rnd.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			approve := statestore.ApproveCutover{
				ID: id, Evidence: digest, Reason: "site is gone", Signer: person("alice"),
				Waivers: []statestore.Waiver{{Gate: statestore.GateDestination}, {Gate: statestore.GateLag}, {Gate: statestore.GateFenced}},
			}
			reject := statestore.RejectCutover{ID: id, Reason: "it is not", Signer: person("bob")}

			var approved, rejected error
			var wg sync.WaitGroup
			heads := [2]time.Duration{time.Duration(rnd.IntN(8)) * time.Millisecond, time.Duration(rnd.IntN(8)) * time.Millisecond}
			wg.Go(func() {
				time.Sleep(heads[0])
				approved = insist(t, c, nodes[0], approve, "alice", fmt.Sprintf("approve-%d", round))
			})
			wg.Go(func() {
				time.Sleep(heads[1])
				rejected = insist(t, c, nodes[1], reject, "bob", fmt.Sprintf("reject-%d", round))
			})
			if rnd.IntN(4) == 0 {
				changes++
				time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
				c.Isolate(leader)
				time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
				c.Net.Heal()
			}
			wg.Wait()
			// A new leader may still have to apply what was decided under the last one.
			var phase statestore.CutoverPhase
			c.Until("every node has the same decision", func() bool {
				phase = ""
				return !slices.ContainsFunc(nodes, func(n string) bool {
					co := c.Store(n).State().Cutovers[id]
					if co == nil || co.Phase == statestore.Proposed {
						return true
					}
					if phase == "" {
						phase = co.Phase
					}
					return co.Phase != phase
				})
			})
			won[phase]++
			winner, loser := approved, rejected
			if phase == statestore.Rejected {
				winner, loser = rejected, approved
			}
			require.Contains(t, []statestore.CutoverPhase{statestore.Approved, statestore.Rejected}, phase, "seed %d round %d", seed, round)
			require.NoError(t, winner, "seed %d round %d: the cutover is %s", seed, round, phase)
			require.ErrorIs(t, loser, statestore.ErrDecided, "seed %d round %d: the cutover is %s", seed, round, phase)
			if phase == statestore.Approved {
				c.Propose(c.WaitLeader(), statestore.AbortCutover{ID: id, Reason: "next round", Signer: person("carol")})
			}
		}
		c.Settle()
		t.Logf("decisions %v, leader cut off in %d rounds", won, changes)
		require.Greater(t, won[statestore.Approved], races/10, "the race is one-sided")
		require.Greater(t, won[statestore.Rejected], races/10, "the race is one-sided")
	})
}

func person(name string) statestore.Signer {
	return statestore.Signer{User: name, Groups: []string{"approver"}, Via: "demo"}
}

// applyOrders makes an installation of one stateful service that one person moves.
func applyOrders(c *consensustest.Cluster) {
	leader := c.WaitLeader()
	check := &statestore.Check{Name: "check", TCP: &statestore.TCPCheck{Port: 5432}}
	eu, us := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.20")
	c.Propose(leader, statestore.Initialize{Installation: "test"})
	c.Propose(leader, statestore.ApplySpec{
		Spec: &statestore.Spec{
			Version: 1,
			Zones:   map[string]*statestore.Zone{"gslb.test.": {}},
			Clusters: map[string]*statestore.Cluster{
				"eu": {Region: "eu", IPv4: []netip.Addr{eu}},
				"us": {Region: "us", IPv4: []netip.Addr{us}},
			},
			Services: map[string]*statestore.Service{"orders": {
				Zone: "gslb.test.", Names: []string{"orders"}, Checks: statestore.Checks{All: []*statestore.Check{check}},
				Policy:    statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us"}},
				TTL:       statestore.TTL{Normal: statestore.Duration(30 * time.Second), Changing: statestore.Duration(5 * time.Second)},
				OnAllDown: statestore.OnAllDown{Mode: statestore.ServeLast},
				Stateful: &statestore.Stateful{
					Preferred: "eu", ProposeAfter: statestore.Duration(time.Minute),
					Approval: statestore.ApprovalPolicy{
						Name: "one-person", Required: 1, WaiversRequired: 1, From: []string{"approver"},
						ProposerMayApprove: true, TTL: statestore.Duration(30 * time.Minute),
					},
				},
			}},
			Access: statestore.Access{Roles: statestore.BuiltinRoles()},
		},
		Rotations: []statestore.RotationChange{{
			Service: "orders", Reason: "first",
			V4: statestore.Pool{Shares: []statestore.Share{{Cluster: "eu", Weight: 1, Endpoints: []netip.Addr{eu}}}},
		}},
	})
}

// proposeOrders proposes a planned move and returns its id and evidence.
func proposeOrders(t *testing.T, c *consensustest.Cluster, leader string) (id, digest string) {
	t.Helper()
	st := c.Store(leader).State()
	ev, err := st.Facts("orders", statestore.Planned, "us")
	require.NoError(t, err)
	for _, g := range statestore.Gates(statestore.Planned) {
		class := statestore.Clean
		switch g {
		case statestore.GateDestination:
			class = statestore.UnknownGate // nobody votes in this test
		case statestore.GateLag, statestore.GateFenced:
			class = statestore.NotConfigured
		}
		ev.Gates = append(ev.Gates, statestore.GateResult{Gate: g, Class: class})
	}
	c.Propose(leader, statestore.ProposeCutover{
		Service: "orders", To: "us", As: statestore.Planned, Reason: "practice", Signer: person("carol"), Evidence: ev, Basis: st.Basis("orders"),
	})
	id = c.Store(leader).State().Services["orders"].Ownership.Open
	return id, ev.Digest()
}

// insist proposes through one node until the outcome is known, as a client that
// repeats its request does, and returns the refusal.
func insist(t *testing.T, c *consensustest.Cluster, name string, cmd statestore.Command, actor, request string) error {
	issued := time.Now()
	for {
		if time.Since(issued) > time.Minute {
			t.Errorf("%s through %s: not known after a minute: %v", request, name, c.Node(name).Health())
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		res, err := c.Node(name).Propose(ctx, cmd, consensus.Origin{Actor: actor, Request: request, Issued: issued})
		cancel()
		switch {
		case err == nil:
			return res.Err
		case errors.Is(err, consensus.ErrUnknownOutcome), errors.Is(err, consensus.ErrNoLeader), errors.Is(err, context.DeadlineExceeded):
			time.Sleep(50 * time.Millisecond)
		default:
			t.Errorf("%s through %s: %v", request, name, err)
			return err
		}
	}
}
