package node

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/mesh"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// orders is an installation of one node with one stateful service, db over eu and
// us, both of which are up.
type orders struct {
	t    *testing.T
	dir  string
	cfg  *config.Node
	n    *Node
	stop func()
}

const ordersSpec = `
version: 1
defaults: { quorum: { min_votes: 1 } }
zones: { gslb.example.com: {} }
clusters:
  eu: { region: eu-west, ipv4: [127.0.8.1] }
  us: { region: us-east, ipv4: [127.0.8.2] }
services:
  db:
    stateful: { preferred: eu }
    policy: { type: failover, order: [eu, us] }
    check: { tcp: { port: %d }, interval: 300ms, timeout: 200ms, rise: 1 }
`

func ordersNode(t *testing.T, dir string) *config.Node {
	t.Helper()
	cfg, errs, _ := config.ParseNode("node.yaml", fmt.Appendf(nil, `
node: { name: eu-1, region: eu-west }
data_dir: %q
dns: { listen: ["127.0.0.1:0"] }
api: { listen: "127.0.0.1:0" }
peer: { listen: "127.0.0.1:0", advertise: "127.0.0.1:1", profile: lan }
observer: { allow: [127.0.0.0/8] }
`, dir))
	require.Empty(t, errs)
	return cfg
}

func newOrders(t *testing.T) *orders {
	t.Helper()
	dir := seededDir(t, "data")
	o := &orders{t: t, dir: dir, cfg: ordersNode(t, dir)}
	o.start()
	o.until("the first member", func(st *statestore.State) bool { return st.Members["eu-1"] != nil })
	applySpec(t, o.n, fmt.Sprintf(ordersSpec, listenOnBoth(t)))
	o.settled()
	return o
}

// settled waits until both sides are up and every observer is heard.
func (o *orders) settled() {
	o.t.Helper()
	o.until("both sides up", func(st *statestore.State) bool {
		return len(st.Unacknowledged()) == 0 && st.SideOf("db", "eu") == health.Up && st.SideOf("db", "us") == health.Up
	})
}

// listenOnBoth listens at both clusters' addresses, on one port.
func listenOnBoth(t *testing.T) int {
	t.Helper()
	for range 20 {
		eu, err := net.Listen("tcp", "127.0.8.1:0")
		require.NoError(t, err)
		port := eu.Addr().(*net.TCPAddr).Port
		us, err := net.Listen("tcp", fmt.Sprintf("127.0.8.2:%d", port))
		if err != nil {
			require.NoError(t, eu.Close())
			continue
		}
		t.Cleanup(func() { _, _ = eu.Close(), us.Close() })
		return port
	}
	t.Fatal("no port is free at both addresses")
	return 0
}

// start opens and runs the node; o.stop ends it.
func (o *orders) start() {
	o.t.Helper()
	n, err := Open(o.cfg, Options{Version: "test", Socket: filepath.Join(o.t.TempDir(), "sock")})
	require.NoError(o.t, err)
	o.run(n)
}

func (o *orders) run(n *Node) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	running := true
	o.n, o.stop = n, func() {
		if running {
			running = false
			cancel()
			require.NoError(o.t, <-ended)
		}
	}
	o.t.Cleanup(o.stop)
}

func (o *orders) state() *statestore.State { return o.n.Store().State() }

func (o *orders) until(what string, ok func(*statestore.State) bool) {
	o.t.Helper()
	require.Eventually(o.t, func() bool { return ok(o.state()) }, 20*time.Second, 10*time.Millisecond, what)
}

// propose commits a command that must be done, once there is a leader.
func (o *orders) propose(cmd func(*statestore.State) statestore.Command) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 20*time.Second)
	defer cancel()
	res, err := o.n.raft.Propose(ctx, cmd(o.state()), consensus.Origin{Actor: "root"})
	require.NoError(o.t, err)
	require.NoError(o.t, res.Err)
}

// root is at the local socket: one person who may do everything.
func root() statestore.Signer { return statestore.Signer{User: "root", Via: "socket"} }

// proposeMove proposes a planned move and returns the cutover's id.
func (o *orders) proposeMove(to string) string {
	o.t.Helper()
	o.propose(func(st *statestore.State) statestore.Command {
		cmd, _, blockers := policy.Propose(st, policy.Move{Service: "db", To: to, Kind: statestore.Planned}, root())
		require.Empty(o.t, blockers)
		cmd.Reason = "test"
		return cmd
	})
	return o.state().Ownership("db").Open
}

func (o *orders) approve(id string) {
	o.t.Helper()
	o.propose(func(st *statestore.State) statestore.Command {
		return statestore.ApproveCutover{
			ID: id, Evidence: st.Cutovers[id].Digest, Reason: "test", Signer: root(),
			Waivers: []statestore.Waiver{{Gate: statestore.GateLag}, {Gate: statestore.GateFenced}},
		}
	})
}

func (o *orders) phase(id string, p statestore.CutoverPhase) {
	o.t.Helper()
	o.until(string(p), func(st *statestore.State) bool { return st.Cutovers[id] != nil && st.Cutovers[id].Phase == p })
}

// move takes db to a cluster, all the way.
func (o *orders) move(to string) {
	o.t.Helper()
	o.settled()
	id := o.proposeMove(to)
	o.approve(id)
	o.phase(id, statestore.Done)
}

func (o *orders) confirm(active string) {
	o.t.Helper()
	o.propose(func(st *statestore.State) statestore.Command {
		return statestore.ConfirmActive{Service: "db", Active: active, Reason: "test", Signer: root(), Rotation: policy.ActiveRotation(st, "db", active)}
	})
}

// says waits until DNS answers so: a cluster, or a code.
func (o *orders) says(want string) {
	o.t.Helper()
	require.Eventually(o.t, func() bool { return answered(o.t, o.n) == want }, 10*time.Second, 10*time.Millisecond, "want %s", want)
}

// answered is what DNS says of db: a cluster, or a code.
func answered(t *testing.T, n *Node) string {
	r, err := dnsclient.Query(t.Context(), n.dns.Addrs()[0].String(), "db.gslb.example.com", "A", dnsclient.Options{Timeout: time.Second})
	switch {
	case err != nil:
		return err.Error()
	case len(r.Addresses) == 1:
		return map[netip.Addr]string{netip.MustParseAddr("127.0.8.1"): "eu", netip.MustParseAddr("127.0.8.2"): "us"}[r.Addresses[0]]
	}
	return r.Rcode
}

func (o *orders) backup() *statestore.State {
	o.t.Helper()
	var b bytes.Buffer
	require.NoError(o.t, statestore.WriteSnapshot(&b, o.state()))
	st, err := statestore.ReadSnapshot(&b)
	require.NoError(o.t, err)
	return st
}

var testRecovery = RecoverOptions{Actor: "ann", Reason: "two sites lost", Version: "test"}

// TestI7ALostQuorumIsRecovered: the survivor leads alone in the next generation,
// answers what it last answered, and a person's word makes an epoch that was never
// there before.
func TestI7ALostQuorumIsRecovered(t *testing.T) {
	o := newOrders(t)
	o.says("eu")
	o.move("us")
	o.says("us")
	require.EqualValues(t, 2, o.state().Ownership("db").Epoch)
	pending := o.proposeMove("eu")
	nonce := o.n.id.Nonce

	_, err := OpenRecovery(o.cfg, testRecovery)
	require.ErrorIs(t, err, ErrInUse, "while the server runs")
	o.stop()

	dry, err := OpenRecovery(o.cfg, testRecovery)
	require.NoError(t, err)
	require.EqualValues(t, 2, dry.Generation)
	dry.Close()

	r, err := OpenRecovery(o.cfg, testRecovery)
	require.NoError(t, err)
	require.Equal(t, "the Raft store", r.Source)
	require.Empty(t, r.Warnings)
	require.EqualValues(t, 2, r.Generation)
	require.Equal(t, []string{pending}, r.Void())
	require.Equal(t, []string{"db"}, r.Unconfirmed())
	kept, err := r.Begin(time.Now())
	require.NoError(t, err)
	require.True(t, consensus.StoreExists(kept), "the old store is kept")
	r.Close()

	o.start()
	require.NotEqual(t, nonce, o.n.id.Nonce, "another server to raft")
	require.Equal(t, "us", answered(t, o.n), "it answers from the start")
	o.until("a leader", func(*statestore.State) bool { return o.n.raft.IsLeader() })
	st := o.state()
	require.EqualValues(t, 2, st.Generation)
	require.Len(t, st.Members, 1)
	require.Equal(t, statestore.Void, st.Cutovers[pending].Phase)
	require.True(t, st.Ownership("db").Unconfirmed)
	o.says("us")

	o.confirm("us")
	own := o.state().Ownership("db")
	require.EqualValues(t, 2, own.Generation)
	require.Greater(t, own.Epoch, uint64(2))
	require.False(t, own.Unconfirmed)
	o.says("us")
	o.move("eu")
	o.says("eu")
	o.stop()
	o.start()
	require.Equal(t, "eu", answered(t, o.n))
}

// TestI7ABackupIsRestored: on an empty host, from a backup that is older than the
// last move.
func TestI7ABackupIsRestored(t *testing.T) {
	o := newOrders(t)
	backup := o.backup()
	o.move("us")
	later := o.state().Ownership("db")
	o.stop()

	_, err := OpenRestore(o.cfg, backup, "q.snap", testRecovery)
	require.ErrorIs(t, err, ErrNotEmpty)

	dir := filepath.Join(t.TempDir(), "fresh")
	cfg := ordersNode(t, dir)
	above := testRecovery
	above.Above = 4
	r, err := OpenRestore(cfg, backup, "q.snap", above)
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Generation)
	require.NoDirExists(t, dir, "nothing is written before Begin")
	kept, err := r.Begin(time.Now())
	require.NoError(t, err)
	require.Empty(t, kept)
	r.Close()

	o.cfg = cfg
	o.start()
	require.Equal(t, "eu", answered(t, o.n), "on_stale: keep answers what the backup says")
	o.until("a leader", func(*statestore.State) bool { return o.n.raft.IsLeader() })
	st := o.state()
	require.EqualValues(t, 5, st.Generation)
	require.Equal(t, backup.Installation, st.Installation)
	require.True(t, st.Ownership("db").Unconfirmed)
	require.Len(t, st.Trust, 2, "the old CA, whose key is lost, and the new one")
	require.Equal(t, o.n.mesh.Issuer(), st.Trust[1].Fingerprint)
	_, err = mesh.LoadAuthority(MeshDir(dir))
	require.NoError(t, err, "this node can sign for those that join")

	o.confirm("us")
	own := o.state().Ownership("db")
	require.NotEqual(t, [2]uint64{later.Generation, later.Epoch}, [2]uint64{own.Generation, own.Epoch})
	require.Greater(t, own.Generation, later.Generation)
	o.says("us")
}

// TestARecoveryTakesTheLastKnownGoodStateWhereTheStoreIsGone, and one that was cut
// short can be made again.
func TestARecoveryTakesTheLastKnownGoodStateWhereTheStoreIsGone(t *testing.T) {
	o := newOrders(t)
	o.move("us")
	o.says("us")
	o.stop()
	require.NoError(t, os.RemoveAll(filepath.Join(o.dir, raftFolder)))
	for generation := uint64(2); generation <= 3; generation++ {
		r, err := OpenRecovery(o.cfg, testRecovery)
		require.NoError(t, err)
		require.Equal(t, generation, r.Generation)
		if generation == 2 {
			require.Equal(t, "the last known good state", r.Source)
			st, err := r.next(identity{Name: "eu-1", Nonce: "x"}, time.Now())
			require.NoError(t, err)
			require.NoError(t, r.keep(st)) // and then the power failed
		} else {
			_, err = r.Begin(time.Now())
			require.NoError(t, err)
		}
		r.Close()
	}
	o.start()
	o.until("a leader", func(*statestore.State) bool { return o.n.raft.IsLeader() })
	o.says("us")
	require.EqualValues(t, 3, o.state().Generation)

	empty := ordersNode(t, t.TempDir())
	_, err := OpenRecovery(empty, testRecovery)
	require.ErrorIs(t, err, ErrNothingToRecover)
}

// TestG2ARestartWhileACutoverIsUnderWayAnswersNothingOld: a member that never
// acknowledges keeps it fencing, over a restart and a recovery.
func TestG2ARestartWhileACutoverIsUnderWayAnswersNothingOld(t *testing.T) {
	o := newOrders(t)
	o.propose(func(*statestore.State) statestore.Command {
		return statestore.UpsertMember{Member: statestore.Member{
			Name: "us-1", Nonce: "1", Region: "us-east", Role: statestore.Nonvoter, Version: "test", Supports: statestore.SupportedLevel,
		}}
	})
	id := o.proposeMove("us")
	o.approve(id)
	o.phase(id, statestore.Fencing)
	o.says("SERVFAIL")
	o.until("its own acknowledgement", func(*statestore.State) bool {
		nodes, leads := o.n.control.Acknowledged(id)
		return leads && fmt.Sprint(nodes) == "[eu-1]"
	})
	o.stop()

	o.start()
	require.Equal(t, "SERVFAIL", answered(t, o.n), "before raft has said anything")
	o.until("a leader that heard it again", func(*statestore.State) bool {
		nodes, _ := o.n.control.Acknowledged(id)
		return fmt.Sprint(nodes) == "[eu-1]"
	})
	require.Equal(t, "SERVFAIL", answered(t, o.n))
	o.stop()

	r, err := OpenRecovery(o.cfg, testRecovery)
	require.NoError(t, err)
	require.Equal(t, []string{id}, r.Void())
	_, err = r.Begin(time.Now())
	require.NoError(t, err)
	r.Close()
	o.start()
	o.until("a leader", func(*statestore.State) bool { return o.n.raft.IsLeader() })
	require.Equal(t, statestore.Void, o.state().Cutovers[id].Phase)
	o.says("SERVFAIL")
	e, _ := o.n.tables.table.Load().Epoch("db")
	require.Equal(t, "a cutover was under way when the installation was recovered", e.Withheld)
	o.confirm("eu")
	o.says("eu")
	require.Greater(t, o.state().Ownership("db").Epoch, uint64(2), "the reserved one is never used again")
}
