package policy

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// tester is what *testing.T and *rapid.T share.
type tester interface {
	require.TestingT
	Helper()
}

// world is a real store with an installation in it, driven entry by entry.
type world struct {
	t     tester
	store *statestore.Store
	index uint64
	seq   map[string]uint64
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newWorld returns an installation of one observing voter a region that runs spec.
func newWorld(t tester, spec *statestore.Spec, regions ...string) *world {
	t.Helper()
	w := newMembers(t, regions...)
	w.do(applyOf(w.st(), spec))
	return w
}

// newMembers is newWorld without a spec.
func newMembers(t tester, regions ...string) *world {
	t.Helper()
	w := &world{t: t, store: statestore.NewStore(), seq: map[string]uint64{}}
	w.do(statestore.Initialize{Installation: "test", CA: statestore.TrustedCA{Fingerprint: "f", PEM: "p"}})
	for _, r := range regions {
		w.do(statestore.UpsertMember{Member: member(r)})
	}
	return w
}

func member(region string) statestore.Member {
	return statestore.Member{
		Name: region + "-1", Nonce: "n", Region: region, Role: statestore.Voter,
		Peer: "192.0.2.1:7654", Version: "1.0.0", Supports: 1, Observes: true,
		DNS: statestore.Advertise{IPv4: addrs("192.0.2.53")},
	}
}

func applyOf(st *statestore.State, spec *statestore.Spec) statestore.ApplySpec {
	return statestore.ApplySpec{Base: st.Revision, Source: "test", Spec: spec, Rotations: DiffSpec(st, spec).Rotations}
}

func (w *world) st() *statestore.State { return w.store.State() }

// try applies a command, a second of log time after the one before.
func (w *world) try(cmd statestore.Command) error {
	w.t.Helper()
	w.index++
	data, err := statestore.Encode(cmd, statestore.Meta{Actor: "test", Wall: epoch, Elapsed: time.Second})
	require.NoError(w.t, err)
	return w.store.Apply(w.index, 1, data).Err
}

func (w *world) do(cmd statestore.Command) {
	w.t.Helper()
	require.NoError(w.t, w.try(cmd), "%#v", cmd)
}

// vote has an observer vote side on every endpoint of the clusters, for all
// services; its other votes stay.
func (w *world) vote(observer string, side health.Side, clusters ...string) {
	w.t.Helper()
	votes := map[health.Target]health.Vote{}
	for t, ts := range TargetStates(w.st()) {
		if v, ok := ts.Votes[health.ObserverID(observer)]; ok {
			votes[t] = v
		}
		for _, c := range clusters {
			if t.Cluster == c {
				votes[t] = health.Vote{Side: side, Since: epoch}
			}
		}
	}
	w.voteFull(observer, votes)
}

func (w *world) voteFull(observer string, votes map[health.Target]health.Vote) {
	w.t.Helper()
	w.seq[observer]++
	w.do(statestore.CastVotes{Batches: []statestore.VoteBatch{{
		Observer: health.ObserverID(observer), Seq: w.seq[observer], Full: true, Votes: votes,
	}}})
}

// all has every observer vote side on the clusters.
func (w *world) all(side health.Side, clusters ...string) {
	w.t.Helper()
	for name := range w.st().Members {
		w.vote(name, side, clusters...)
	}
}

// settle commits plans until there is nothing to do and returns the rounds it took.
func (w *world) settle() int {
	w.t.Helper()
	for round := range 10 {
		plan := Plan(w.st(), Waits{})
		if len(plan) == 0 {
			return round
		}
		for _, p := range plan {
			if err := w.try(p.Command); err != nil {
				require.ErrorIs(w.t, err, statestore.ErrStale, "%s: %#v", p.Subject, p.Command)
			}
		}
	}
	require.Fail(w.t, "the plan has no end", "%+v", Plan(w.st(), Waits{}))
	return 0
}

// pool lists "cluster weight" of the service's IPv4 pool, and its mode.
func (w *world) pool(service string) (clusters []string, mode statestore.AllDownMode) {
	p := w.st().Services[service].Rotation.V4
	for _, s := range p.Shares {
		clusters = append(clusters, s.Cluster)
	}
	return clusters, p.AllDown
}

// testSpec has clusters eu, us and ap with one IPv4 address each, and one
// weighted service "web" over all of them.
func testSpec(edits ...func(*statestore.Spec)) *statestore.Spec {
	sp := &statestore.Spec{
		Version: 1,
		Zones:   map[string]*statestore.Zone{"gslb.example.com.": {NSTTL: statestore.Duration(time.Hour)}},
		Clusters: map[string]*statestore.Cluster{
			"eu": {Region: "eu-west", IPv4: addrs("192.0.2.10")},
			"us": {Region: "us-east", IPv4: addrs("192.0.2.20")},
			"ap": {Region: "ap-south", IPv4: addrs("192.0.2.30")},
		},
		Services: map[string]*statestore.Service{"web": testService("web")},
		Safety: statestore.Safety{
			MinServingClusters: 1, MaxDrained: 1,
			Changes: statestore.Budget{Causes: 4, Per: statestore.Duration(10 * time.Minute)},
			Plan:    statestore.PlanGuard{MaxUpdateRatio: 0.3, MaxDeleteRatio: 0.3},
		},
		Retention: statestore.Retention{Events: statestore.Duration(time.Hour), Revisions: 10},
	}
	for _, edit := range edits {
		edit(sp)
	}
	return sp
}

func testService(name string) *statestore.Service {
	second := statestore.Duration(time.Second)
	return &statestore.Service{
		Zone: "gslb.example.com.", Names: []string{name},
		Checks: statestore.Checks{All: []*statestore.Check{{
			Name: "check", Interval: 10 * second, Timeout: second, Fall: 3, Rise: 2, Recheck: second, StaleAfter: 30 * second,
			TCP: &statestore.TCPCheck{Port: 80},
		}}},
		Quorum:    statestore.Quorum{MinVotes: 2},
		Policy:    statestore.Policy{Type: statestore.Weighted},
		TTL:       statestore.TTL{Normal: 30 * second, Changing: 5 * second},
		OnAllDown: statestore.OnAllDown{Mode: statestore.ServeLast},
		OnStale:   statestore.OnStale{After: 30 * second, Answer: statestore.StaleKeep},
		Answer:    statestore.Answer{Clusters: 1, Addresses: 8},
	}
}

func addrs(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}

// web edits the service web of a test spec.
func web(edit func(*statestore.Service)) func(*statestore.Spec) {
	return func(sp *statestore.Spec) { edit(sp.Services["web"]) }
}

// clone returns a spec that shares nothing a test edits with sp.
func clone(sp *statestore.Spec, edits ...func(*statestore.Spec)) *statestore.Spec {
	next := *sp
	next.Zones, next.Clusters, next.Services = maps.Clone(sp.Zones), maps.Clone(sp.Clusters), map[string]*statestore.Service{}
	for name, s := range sp.Services {
		copied := *s
		next.Services[name] = &copied
	}
	for _, edit := range edits {
		edit(&next)
	}
	return &next
}

var regions = []string{"eu", "us", "ap"}

// upWorld is a world of three regions that all see every cluster up.
func upWorld(t *testing.T, edits ...func(*statestore.Spec)) *world {
	t.Helper()
	w := newWorld(t, testSpec(edits...), regions...)
	w.all(health.Up, sortedKeys(w.st().Spec.Clusters)...)
	w.settle()
	return w
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
