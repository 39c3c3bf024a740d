package statestore

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// start is the wall clock of every test's first entry.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	eu4 = netip.MustParseAddr("192.0.2.10")
	us4 = netip.MustParseAddr("192.0.2.20")
	dr4 = netip.MustParseAddr("192.0.2.30")
	eu6 = netip.MustParseAddr("2001:db8::10")
)

// rig applies commands to a store as consensus would, one index after another.
type rig struct {
	t     testing.TB
	store *Store
	index uint64
	term  uint64
	log   [][]byte // every entry, for replays
	terms []uint64
}

func newRig(t testing.TB) *rig { return &rig{t: t, store: NewStore(), term: 1} }

func (r *rig) st() *State { return r.store.State() }

// do applies cmd one second after the entry before.
func (r *rig) do(cmd Command) error { return r.doAs("ann", cmd) }

func (r *rig) doAs(actor string, cmd Command) error {
	return r.doMeta(cmd, Meta{Actor: actor, Elapsed: time.Second})
}

func (r *rig) doMeta(cmd Command, m Meta) error {
	r.t.Helper()
	r.index++
	if m.Wall.IsZero() {
		m.Wall = start.Add(time.Duration(r.index) * time.Second)
	}
	data, err := Encode(cmd, m)
	require.NoError(r.t, err)
	r.log, r.terms = append(r.log, data), append(r.terms, r.term)
	before := r.st()
	res := r.store.Apply(r.index, r.term, data)
	require.Equal(r.t, r.index, res.Index)
	if errors.Is(res.Err, ErrUndecodable) {
		r.t.Fatalf("entry %d of kind %d: %v", r.index, cmd.Kind(), res.Err)
	}
	after := r.st()
	if after.Audit.Count > before.Audit.Count+1 {
		r.t.Fatalf("entry %d of kind %d made %d audit records", r.index, cmd.Kind(), after.Audit.Count-before.Audit.Count)
	}
	return res.Err
}

func (r *rig) must(cmds ...Command) {
	r.t.Helper()
	for _, c := range cmds {
		if err := r.do(c); err != nil {
			r.t.Fatalf("command %T %+v: %v", c, c, err)
		}
	}
}

// member returns an observing voter named after its region.
func member(region string) Member {
	return Member{Name: region + "-1", Nonce: "n", Region: region, Role: Voter, Observes: true, Supports: SupportedLevel, Version: "1.0.0"}
}

// testSpec is a weighted service over eu, us and dr.
func testSpec() *Spec {
	sp := emptySpec()
	sp.Zones["gslb.test."] = &Zone{}
	sp.Clusters["eu"] = &Cluster{ID: 1, Region: "eu", IPv4: []netip.Addr{eu4}, Check: &Check{Name: "door", TCP: &TCPCheck{Port: 443}}}
	sp.Clusters["us"] = &Cluster{ID: 2, Region: "us", IPv4: []netip.Addr{us4}}
	sp.Clusters["dr"] = &Cluster{ID: 3, Region: "dr", IPv4: []netip.Addr{dr4}, Labels: map[string]string{"tier": "dr"}}
	sp.Services["web"] = &Service{
		Zone: "gslb.test.", Names: []string{"web"},
		Checks:    Checks{All: []*Check{{Name: "check", TCP: &TCPCheck{Port: 80}}}},
		Policy:    Policy{Type: Weighted},
		TTL:       TTL{Normal: Duration(30 * time.Second), Changing: Duration(5 * time.Second)},
		OnAllDown: OnAllDown{Mode: ServeLast},
	}
	sp.Safety = Safety{MinServingClusters: 1, MaxDrained: 1, Changes: Budget{Causes: 1, Per: Duration(10 * time.Minute)}}
	return sp
}

var addrOf = map[string]netip.Addr{"eu": eu4, "us": us4, "dr": dr4}

// pool returns a pool of the clusters, weight one each.
func pool(clusters ...string) Pool {
	var p Pool
	for _, c := range clusters {
		p.Shares = append(p.Shares, Share{Cluster: c, Weight: 1, Endpoints: []netip.Addr{addrOf[c]}})
	}
	return p
}

func change(clusters ...string) RotationChange {
	return RotationChange{Service: "web", V4: pool(clusters...), Reason: "test"}
}

func web(cluster string) health.Target {
	return health.Target{Service: "web", Cluster: cluster, Endpoint: addrOf[cluster]}
}

func door(cluster string) health.Target {
	return health.Target{Cluster: cluster, Endpoint: addrOf[cluster]}
}

// running returns a rig of an installation with three regions that vote
// everything up, and a rotation over all clusters.
func running(t testing.TB) *rig {
	t.Helper()
	r := newRig(t)
	r.must(
		Initialize{Installation: "demo", CA: TrustedCA{Fingerprint: "aa", PEM: "pem"}},
		UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")},
		ApplySpec{Spec: testSpec(), Source: "# mine", Rotations: []RotationChange{change("dr", "eu", "us")}},
	)
	r.allVote(health.Up)
	return r
}

// allVote has every observer vote side on every target, in a full batch.
func (r *rig) allVote(side health.Side) {
	r.t.Helper()
	var batches []VoteBatch
	for _, name := range sortedKeys(r.st().Members) {
		b := VoteBatch{Observer: health.ObserverID(name), Seq: r.seq(name) + 1, Full: true, Votes: map[health.Target]health.Vote{}}
		for _, t := range r.st().Spec.Targets() {
			b.Votes[t] = health.Vote{Side: side, Since: start}
		}
		batches = append(batches, b)
	}
	r.must(CastVotes{Batches: batches})
}

func (r *rig) seq(observer string) uint64 {
	if o := r.st().Observers[health.ObserverID(observer)]; o != nil {
		return o.Seq
	}
	return 0
}

// vote returns a batch that follows the observer's last one.
func (r *rig) vote(observer string, side health.Side, targets ...health.Target) VoteBatch {
	seq := r.seq(observer)
	b := VoteBatch{Observer: health.ObserverID(observer), Prev: seq, Seq: seq + 1, Votes: map[health.Target]health.Vote{}}
	for _, t := range targets {
		b.Votes[t] = health.Vote{Side: side, Reason: "timeout", Since: start}
	}
	return b
}

func (r *rig) cast(observer string, side health.Side, targets ...health.Target) {
	r.t.Helper()
	r.must(CastVotes{Batches: []VoteBatch{r.vote(observer, side, targets...)}})
}

func (r *rig) verdict(t health.Target) health.Verdict {
	r.t.Helper()
	ts, ok := r.st().Target(t)
	require.True(r.t, ok, "target %s is not configured", t)
	return ts.Verdict
}

func (r *rig) rotate(clusters ...string) Rotate {
	return Rotate{RotationChange: change(clusters...), Basis: r.st().Basis("web")}
}
