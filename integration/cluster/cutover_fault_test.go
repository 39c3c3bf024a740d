//go:build integration

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

// muffle drops what h sends to o's peer port and nothing else: h goes on following
// o, and o hears neither its acknowledgements nor its reports.
func (h *host) muffle(t *testing.T, o *host) {
	t.Helper()
	run(t, "ip", "netns", "exec", h.ns, "iptables", "-w", "-A", "OUTPUT", "-p", "tcp", "-d", o.addr.String(), "--dport", fmt.Sprint(peerPort), "-j", "DROP")
}

// inOrder checks that a node answered sides in this order, each once, and not
// necessarily all; nobody's answers between do not matter.
func inOrder(t *testing.T, log *answers, n *node, sides ...string) {
	t.Helper()
	got := slices.Compact(slices.DeleteFunc(log.of(n.name), func(a string) bool { return a == "SERVFAIL" }))
	rest := sides
	for _, a := range got {
		at := slices.Index(rest, a)
		require.GreaterOrEqualf(t, at, 0, "%s answered %v, wanted in order %v", n.name, got, sides)
		rest = rest[at+1:]
	}
}

// fence brings a planned move of orders to where it waits for one node's
// acknowledgement, which cannot come: the node has heard of it, and is heard no more.
func (in *installation) fence(quiet, leader *node, to string) string {
	in.t.Helper()
	eventually(in.t, settle, "all is well", in.allWell)
	co := in.propose(leader, to, "planned")
	quiet.muffle(in.t, leader.host)
	require.NoError(in.t, in.approve(leader, co.ID))
	in.ended(in.nodes, co.ID, "fencing")
	eventually(in.t, settle, quiet.name+" answers nobody", func(ctx context.Context) error { return in.answersNobody(ctx, quiet) })
	return co.ID
}

// answersNobody checks that n says SERVFAIL for orders.
func (in *installation) answersNobody(ctx context.Context, n *node) error {
	err := in.answersOrders(ctx, n, "eu")
	if err == nil || !strings.Contains(err.Error(), "answers SERVFAIL") {
		return fmt.Errorf("%s: %w", n.name, errors.Join(errors.New("want SERVFAIL"), err))
	}
	return nil
}

// G2, G4: nodes die at each step of a move: the one whose word is missing though it
// has the new epoch on disk, the leader, all three, and whoever when it is
// published. No node answers an older side after a newer one, and no two nodes both.
func TestKillsAtEachStepOfAMove(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"))
	side, epoch := "eu", uint64(1)
	var took durations
	victims := []struct {
		name    string
		fencing bool // else as soon as it is published
		who     func(quiet, leader *node) []*node
	}{
		{"the one that is not heard", true, func(quiet, _ *node) []*node { return []*node{quiet} }},
		{"the leader under way", true, func(_, leader *node) []*node { return []*node{leader} }},
		{"all under way", true, func(_, _ *node) []*node { return in.others() }},
		{"the leader right after", false, func(_, leader *node) []*node { return []*node{leader} }},
		{"a follower right after", false, func(quiet, _ *node) []*node { return []*node{quiet} }},
		{"all right after", false, func(_, _ *node) []*node { return in.others() }},
	}
	for _, v := range victims {
		leader := in.leader()
		quiet := in.others(leader)[0]
		who := v.who(quiet, leader)
		stop := in.follow()
		var id string
		if v.fencing {
			id = in.fence(quiet, leader, other(side))
		} else {
			eventually(t, settle, "all is well", in.allWell)
			co := in.propose(leader, other(side), "planned")
			id = co.ID
			require.NoError(t, in.approve(leader, id))
			in.ended([]*node{leader}, id, "done")
		}
		begun := time.Now()
		in.kill(who...)
		for _, n := range in.nodes {
			n.mend(t)
		}
		for i, n := range who {
			in.restart(n)
			if v.fencing && len(who) == 3 && i == 0 {
				stays(t, time.Second, "alone, it answers nobody", func(ctx context.Context) error { return in.answersNobody(ctx, n) })
			}
		}
		in.ended(in.nodes, id, "done")
		epoch++
		in.ordersMoved(in.nodes, other(side), epoch)
		took = append(took, time.Since(begun))
		in.caughtUp(who...)
		log := stop()
		require.Nilf(t, log.overlap(side, other(side)), "%s: both sides were answered", v.name)
		for _, n := range in.nodes {
			inOrder(t, log, n, side, other(side))
		}
		side = other(side)
	}
	fmt.Printf("MEASURED %-38s kill to the new answer on every node, restarts included: %s\n", t.Name(), took)
}

// G2: a node restarts, alone, from a last known good state that is older than the
// last move it took part in. It withholds the service, and that one only.
func TestG2RestartFromAnOlderLastKnownGoodState(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"))
	old := in.nodes[1]
	pause(t, 300*time.Millisecond) // the last known good file is flushed every 100 ms
	kept := map[string][]byte{}
	for _, name := range []string{"lkg.base", "lkg.journal"} {
		text, err := os.ReadFile(filepath.Join(old.dir, "lkg", name))
		require.NoError(t, err)
		kept[name] = text
	}
	co := in.propose(in.nodes[0], "us", "planned")
	require.NoError(t, in.approve(in.nodes[0], co.ID))
	in.ordersMoved(in.nodes, "us", 2)

	in.kill(in.nodes...)
	for name, text := range kept {
		require.NoError(t, os.WriteFile(filepath.Join(old.dir, "lkg", name), text, 0o600))
	}
	stop := in.follow()
	in.restart(old)
	stays(t, 2*time.Second, "below its floor", func(ctx context.Context) error { return in.answersNobody(ctx, old) })
	stdout, _, _ := old.cli("explain", ordersName, "--node", old.name)
	require.Contains(t, stdout, "it has gone on to generation 1, epoch 2 before")
	for _, n := range []*node{in.nodes[0], in.nodes[2]} {
		in.restart(n)
	}
	in.ordersMoved(in.nodes, "us", 2)
	in.caughtUp(in.nodes...)
	log := stop()
	require.Zero(t, log.count("eu"), "the old side was answered")

	// A node whose epochs are lost, with a state that is as old, answers with that
	// service only what the others do.
	in.kill(old)
	for name, text := range kept {
		require.NoError(t, os.WriteFile(filepath.Join(old.dir, "lkg", name), text, 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(old.dir, "lkg", "lkg.floor")))
	stop = in.follow()
	in.restart(old)
	in.ordersMoved(in.nodes, "us", 2)
	in.caughtUp(old)
	log = stop()
	require.Zero(t, log.count("eu"), "the old side was answered")
}

// P5: a node that joins after moves learns their history on the way. It answers
// with none of it.
func TestJoiningNodeAnswersNoHistory(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"), "sa-1")
	fresh := in.nodes[3]
	side, epoch := "eu", uint64(1)
	for range 3 {
		co := in.propose(in.nodes[0], other(side), "planned")
		require.NoError(t, in.approve(in.nodes[0], co.ID))
		side, epoch = other(side), epoch+1
		in.ordersMoved(in.others(), side, epoch)
	}
	require.Equal(t, "us", side)
	stop := in.follow()
	in.joinLate(fresh, in.nodes[1])
	in.ordersMoved(in.nodes, side, epoch)
	log := stop()
	fmt.Printf("SEEN     %-38s %s answered %v\n", t.Name(), fresh.name, log.of(fresh.name))
	require.Zero(t, log.count("eu"), "the old side was answered")
}

// A follower stands still over two moves that people let go on without it. It goes
// through them in order, and never back.
func TestStoppedNodeOverTwoMoves(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"))
	slow := in.others(in.leader())[0]
	rest := in.others(slow)
	alice, bob := in.approver("alice"), in.approver("bob")
	stop := in.follow()
	in.watch.away(slow.name)
	in.cut(slow)
	slow.signal(syscall.SIGSTOP)
	begun := time.Now()
	for i, to := range []string{"us", "ap"} {
		id := in.propose(rest[0], to, "planned").ID
		eventually(t, settle, slow.name+" is known to be silent", func(ctx context.Context) error {
			co, err := in.cutover(ctx, rest[0], id)
			// Its silence is committed before the evidence that people sign names it.
			if facts := fmt.Sprint(co.Facts); err == nil && !strings.Contains(facts, slow.name) {
				err = fmt.Errorf("evidence %s", facts)
			}
			return err
		})
		in.sign(rest[0], alice, id, "nodes_acknowledged")
		in.sign(rest[1], bob, id, "nodes_acknowledged")
		in.ended(rest, id, "done")
		in.ordersMoved(rest, to, uint64(i+2))
	}
	pause(t, max(0, 10*time.Second-time.Since(begun)))
	slow.signal(syscall.SIGCONT)
	woken := time.Now()
	in.answering(slow)
	in.ordersMoved(in.nodes, "ap", 3)
	late := time.Since(woken)
	in.caughtUp(slow)
	log := stop()
	fmt.Printf("MEASURED %-38s woken to the answer of two moves later: %s; answered %v\n", t.Name(), late.Round(time.Millisecond), log.of(slow.name))
	inOrder(t, log, slow, "eu", "us", "ap")
	for _, n := range rest {
		inOrder(t, log, n, "eu", "us", "ap")
	}
}

// approver makes a token at the local socket, and returns the file that holds it.
func (in *installation) approver(user string) string {
	in.t.Helper()
	path := filepath.Join(in.t.TempDir(), user+".token")
	token := in.nodes[0].must("token", "create", user, "--groups", "approver,admin")
	require.NoError(in.t, os.WriteFile(path, []byte(token), 0o600))
	return path
}

// as runs a client command through n's listener with a token.
func (n *node) as(token string, args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	return n.cli(append(args, "--addr", fmt.Sprintf("http://%s:7653", n.addr), "--token-file", token)...)
}

// approve signs what n shows of a cutover, with the waivers it asks for, and looks
// again where that was replaced meanwhile.
func (in *installation) approve(n *node, id string, more ...string) (signed error) {
	in.t.Helper()
	eventually(in.t, settle, "a signature of "+id+" through "+n.name, func(ctx context.Context) error {
		co, err := in.cutover(ctx, n, id)
		if err != nil {
			return err
		}
		_, signed = n.api.Approve(ctx, id, apitype.ApproveRequest{
			Evidence: co.Evidence, Waivers: slices.Concat(notEnforced, more), Reason: "a scenario wants it",
		}, client.NewKey())
		var refused *client.ProblemError
		if errors.As(signed, &refused) && refused.Name() == apitype.ProblemEvidence {
			return signed // it was replaced meanwhile: look again, as a person does
		}
		return nil
	})
	return signed
}

// sign approves what n shows, with a token and the waivers that every move needs.
// Where the evidence was replaced meanwhile, the person looks again.
func (in *installation) sign(n *node, token, id string, more ...string) {
	in.t.Helper()
	eventually(in.t, settle, "a signature of "+id+" through "+n.name, func(ctx context.Context) error {
		co, err := in.cutover(ctx, n, id)
		if err != nil {
			return err
		}
		args := []string{"approve", id, "--evidence", co.Evidence, "--reason", "a scenario wants it", "--confirm", "orders"}
		for _, w := range slices.Concat(notEnforced, more) {
			args = append(args, "--waive", w)
		}
		stdout, stderr, code := n.as(token, args...)
		if code == client.ExitConflict && strings.Contains(stderr, "the evidence is") {
			return errors.New(stderr)
		}
		require.Zerof(in.t, code, "quorate %s: %s%s", strings.Join(args, " "), stdout, stderr)
		return nil
	})
}

// A node dies after it was heard and before it has acknowledged: the name is dark,
// the node is named, a spec cannot change the service, and either two people let
// the move go on without it, or it is aborted under a new epoch.
func TestDeadNodeHoldsUpAMoveUntilPeopleSpeak(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"))
	alice, bob := in.approver("alice"), in.approver("bob")
	leader := in.leader()
	dead := in.others(leader)[0]
	rest := in.others(dead)

	stop := in.follow()
	id := in.fence(dead, leader, "us")
	in.kill(dead) // and its link stays cut: what it had sent would still arrive
	begun := time.Now()
	for _, n := range rest {
		eventually(t, settle, n.name+" says who is waited for", func(context.Context) error {
			stdout, stderr, code := n.cli("cutover", "show", id)
			if code != 0 || !strings.Contains(stdout, dead.name) {
				return fmt.Errorf("exit %d: %s%s", code, stdout, stderr)
			}
			return nil
		})
	}
	stays(t, 2*time.Second, "the name is dark", func(ctx context.Context) error {
		for _, n := range rest {
			if err := in.answersNobody(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})

	// The spec may change, but not this service.
	text, err := os.ReadFile(in.specPath)
	require.NoError(t, err)
	changed := strings.Replace(string(text), "order: [eu, us, ap] }", "order: [us, eu, ap] }", 1)
	require.NoError(t, os.WriteFile(in.specPath, []byte(changed), 0o644))
	stdout, stderr, code := rest[0].cli("apply", "-f", in.specPath, "--reason", "another order")
	require.Equalf(t, client.ExitRefused, code, "%s%s", stdout, stderr)
	require.Contains(t, stdout+stderr, "services.orders: "+id+" is under way, so nothing about it can change")
	require.NoError(t, os.WriteFile(in.specPath, []byte(strings.Replace(string(text), "interval: 1s", "interval: 900ms", 1)), 0o644))
	stdout, stderr, code = rest[0].cli("apply", "-f", in.specPath, "--reason", "another check of all")
	require.Equalf(t, client.ExitRefused, code, "%s%s", stdout, stderr)

	// A waiver that names another node is none, and one person's is not enough.
	waive := func(n *node, token, node string) (string, int) {
		co, err := in.cutover(t.Context(), n, id)
		require.NoError(t, err)
		stdout, stderr, code := n.as(token, "approve", id, "--evidence", co.Evidence, "--waive", "nodes_acknowledged="+node,
			"--reason", "it burnt down", "--confirm", "orders")
		return stdout + stderr, code
	}
	said, code := waive(rest[0], alice, dead.name)
	require.Zero(t, code, said)
	said, code = waive(rest[1], alice, dead.name)
	require.Equal(t, client.ExitConflict, code, "one person signs once: %s", said)
	pause(t, time.Second)
	in.ended(rest, id, "fencing")
	said, code = waive(rest[1], bob, dead.name)
	require.Zero(t, code, said)
	in.ended(rest, id, "done")
	in.ordersMoved(rest, "us", 2)
	fmt.Printf("MEASURED %-38s dark until two people named the dead node: %s\n", t.Name(), time.Since(begun).Round(100*time.Millisecond))

	// Back with its old disk it was told that nobody is answered under epoch 2.
	dead.mend(t)
	in.restart(dead)
	in.ordersMoved(in.nodes, "us", 2)
	in.caughtUp(dead)
	log := stop()
	require.Nil(t, log.overlap("eu", "us"), "both sides were answered")
	for _, n := range in.nodes {
		inOrder(t, log, n, "eu", "us")
	}

	// The other way out: the source goes on under an epoch that was never used.
	stop = in.follow()
	id = in.fence(dead, in.leaderBut(dead), "eu")
	in.kill(dead)
	stdout, stderr, code = rest[0].as(alice, "cutover", "abort", id, "--reason", "not without it", "--confirm", "orders")
	require.Zerof(t, code, "%s%s", stdout, stderr)
	in.ended(rest, id, "aborted")
	in.ordersMoved(rest, "us", 4)
	dead.mend(t)
	in.restart(dead)
	in.ordersMoved(in.nodes, "us", 4)
	in.caughtUp(dead)
	log = stop()
	require.Zero(t, log.count("eu"), "the destination of an aborted move was answered")
}

// leaderBut returns the leader, which must not be n: n's acknowledgement is to be lost.
func (in *installation) leaderBut(n *node) *node {
	in.t.Helper()
	if in.leader() == n {
		other := in.others(n)[0]
		in.kill(n)
		in.t.Logf("%s led; it is restarted so that another does", n.name)
		eventually(in.t, settle, "another leads", func(ctx context.Context) error {
			st, err := other.status(ctx)
			if err == nil && (st.Quorum.Leader == n.name || st.Quorum.Leader == "") {
				err = errors.New("not yet")
			}
			return err
		})
		in.restart(n)
		in.caughtUp(n)
	}
	return in.leader()
}

// P-5: a link works one way only while a move is decided. Whatever becomes of it, no
// two nodes answer both sides, and it ends once the link works again.
func TestOneWayLinksDuringAMove(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"))
	side, epoch := "eu", uint64(1)
	for _, leads := range []bool{false, true} {
		for _, cut := range []string{"mute", "deaf"} {
			eventually(t, settle, "all is well", in.allWell)
			sick := in.leader()
			if !leads {
				sick = in.others(sick)[0]
			}
			rest := in.others(sick)
			stop := in.follow()
			co := in.propose(rest[0], other(side), "planned")
			in.cut(sick)
			if cut == "mute" {
				sick.mute(t, hosts(rest)...)
			} else {
				sick.deafen(t, hosts(rest)...)
			}
			err := in.approve(rest[0], co.ID)
			pause(t, 3*time.Second)
			var phase string
			if got, err := in.cutover(t.Context(), rest[0], co.ID); err == nil {
				phase = got.Phase
			}
			sick.mend(t)
			in.caughtUp(sick)
			eventually(t, settle, "all is well again", in.allWell)
			got, again := in.cutover(t.Context(), rest[0], co.ID)
			require.NoError(t, again)
			if got.Phase == "proposed" { // the silent node is other evidence, or the approval was lost
				require.NoError(t, in.approve(rest[0], co.ID))
			}
			in.ended(in.nodes, co.ID, "done")
			epoch++
			in.ordersMoved(in.nodes, other(side), epoch)
			log := stop()
			fmt.Printf("SEEN     %-38s %s %s, leads %t: approval %v, %s after 3 s\n", t.Name(), sick.name, cut, leads, err, phase)
			require.Nil(t, log.overlap(side, other(side)), "both sides were answered")
			for _, n := range in.nodes {
				inOrder(t, log, n, side, other(side))
			}
			side = other(side)
		}
	}
}
