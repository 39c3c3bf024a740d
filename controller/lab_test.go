package controller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// lab is a controller over a real store, whose proposals apply at once.
type lab struct {
	t     *testing.T
	ctx   context.Context
	store *statestore.Store
	ctl   *Controller
	out   syncBuffer
	clock func() time.Duration

	mu      sync.Mutex
	index   uint64
	term    uint64
	entries []entry // by the controller
	refuse  func(statestore.Command) error
	applied time.Time     // when the last entry was; log time follows it
	stalled time.Duration // added to the clock

	stop context.CancelFunc
	done chan error
}

type entry struct {
	at  time.Duration // since the lab began
	cmd statestore.Command
}

// syncBuffer is a log that test and controller may touch at once.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) lines(containing string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for line := range strings.Lines(s.b.String()) {
		if strings.Contains(line, containing) {
			out = append(out, line)
		}
	}
	return out
}

// leaseLAN is the lease of every lab, as on a LAN.
const leaseLAN = 3 * time.Second

// newLab returns an installation of one observing voter each in eu, us and ap,
// and a service web over clusters eu and us. Nobody leads yet; the term is 1.
func newLab(t *testing.T, edits ...func(*statestore.Spec)) *lab {
	t.Helper()
	start := time.Now()
	l := &lab{t: t, ctx: t.Context(), store: statestore.NewStore(), term: 1, applied: start}
	l.clock = func() time.Duration {
		l.mu.Lock()
		defer l.mu.Unlock()
		return time.Since(start) + l.stalled
	}
	l.ctl = New(Config{
		Name: "eu-1", Store: l.store, Lease: leaseLAN, Clock: l.clock,
		Log: slog.New(slog.NewTextHandler(&l.out, nil)).With("node", "eu-1"),
		Propose: func(_ context.Context, cmd statestore.Command, actor string) (statestore.Result, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.refuse != nil {
				if err := l.refuse(cmd); err != nil {
					l.entries = append(l.entries, entry{time.Since(start), cmd})
					var refusal *statestore.Refusal
					if errors.As(err, &refusal) {
						return statestore.Result{Err: err}, nil
					}
					return statestore.Result{}, err
				}
			}
			l.entries = append(l.entries, entry{time.Since(start), cmd})
			return l.applyLocked(cmd, actor), nil
		},
	})
	l.person(statestore.Initialize{Installation: "test", CA: statestore.TrustedCA{Fingerprint: "f", PEM: "p"}})
	for _, region := range []string{"eu", "us", "ap"} {
		l.person(statestore.UpsertMember{Member: statestore.Member{
			Name: region + "-1", Nonce: "n", Region: region, Role: statestore.Voter,
			Peer: "192.0.2.1:7654", Version: "1.0.0", Supports: 1, Observes: true,
		}})
	}
	spec := labSpec()
	for _, edit := range edits {
		edit(spec)
	}
	l.person(statestore.ApplySpec{Source: "test", Spec: spec, Rotations: policy.DiffSpec(l.st(), spec).Rotations})
	return l
}

func labSpec() *statestore.Spec {
	second := statestore.Duration(time.Second)
	return &statestore.Spec{
		Version: 1,
		Zones:   map[string]*statestore.Zone{"gslb.test.": {}},
		Clusters: map[string]*statestore.Cluster{
			"eu": {Region: "eu-west", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.10")}},
			"us": {Region: "us-east", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.20")}},
		},
		Services: map[string]*statestore.Service{"web": {
			Zone: "gslb.test.", Names: []string{"web"},
			Checks: statestore.Checks{All: []*statestore.Check{{
				Name: "check", Interval: second, Timeout: second, Fall: 3, Rise: 2, Recheck: second, StaleAfter: 3 * second,
				TCP: &statestore.TCPCheck{Port: 80},
			}}},
			Quorum:    statestore.Quorum{MinVotes: 2},
			Policy:    statestore.Policy{Type: statestore.Weighted},
			TTL:       statestore.TTL{Normal: 30 * second, Changing: 5 * second},
			OnAllDown: statestore.OnAllDown{Mode: statestore.ServeLast},
			OnStale:   statestore.OnStale{After: 30 * second, Answer: statestore.StaleKeep},
			Answer:    statestore.Answer{Clusters: 1, Addresses: 8},
		}},
		Safety: statestore.Safety{
			MinServingClusters: 1, MaxDrained: 1,
			Changes: statestore.Budget{Causes: 4, Per: statestore.Duration(10 * time.Minute)},
		},
	}
}

func (l *lab) st() *statestore.State { return l.store.State() }

// applyLocked applies a command as the log would. Callers hold mu.
func (l *lab) applyLocked(cmd statestore.Command, actor string) statestore.Result {
	l.index++
	elapsed := time.Since(l.applied)
	l.applied = time.Now()
	data, err := statestore.Encode(cmd, statestore.Meta{Actor: actor, Wall: time.Now(), Elapsed: elapsed})
	if err != nil {
		return statestore.Result{Err: err}
	}
	return l.store.Apply(l.index, l.term, data)
}

// person applies a command that the controller did not propose.
func (l *lab) person(cmd statestore.Command) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NoError(l.t, l.applyLocked(cmd, "alice").Err)
}

// lead starts the controller in the term after the last.
func (l *lab) lead() {
	l.t.Helper()
	l.mu.Lock()
	l.term++
	term := l.term
	l.mu.Unlock()
	ctx, stop := context.WithCancel(l.ctx)
	l.stop, l.done = stop, make(chan error, 1)
	go func() { l.done <- l.ctl.Run(ctx, term) }()
	synctest.Wait()
}

// resign ends the leadership.
func (l *lab) resign() {
	l.t.Helper()
	l.stop()
	require.NoError(l.t, <-l.done)
}

// stall makes the controller's clock jump: the process was stopped.
func (l *lab) stall(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled += d
}

// proposed returns what the controller proposed since the lab or forget.
func (l *lab) proposed(kinds ...statestore.Kind) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []entry
	for _, e := range l.entries {
		for _, k := range kinds {
			if e.cmd.Kind() == k {
				out = append(out, e)
			}
		}
		if len(kinds) == 0 {
			out = append(out, e)
		}
	}
	return out
}

func (l *lab) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// side returns the verdict on web at the cluster.
func (l *lab) side(cluster string) health.Side {
	ts, ok := l.st().Target(target(cluster))
	require.True(l.t, ok)
	return ts.Verdict.Side
}

func target(cluster string) health.Target {
	return health.Target{Service: "web", Cluster: cluster, Endpoint: labSpec().Clusters[cluster].IPv4[0]}
}

// targets returns what is voted on at the cluster.
func (l *lab) targets(cluster string) []health.Target {
	return slices.DeleteFunc(l.st().Spec.Targets(), func(t health.Target) bool { return t.Cluster != cluster })
}

// inRotation lists the clusters web answers with.
func (l *lab) inRotation() []string {
	var names []string
	for _, s := range l.st().Services["web"].Rotation.V4.Shares {
		names = append(names, s.Cluster)
	}
	return names
}

// observer is a node that votes and heartbeats through Exchange, as nodes do.
type observer struct {
	l     *lab
	name  string
	turn  chan struct{} // held while reporting; a mutex would hold virtual time up
	seq   uint64
	nonce uint64
	votes map[health.Target]health.Vote
	fresh map[health.Target]health.Vote // not acknowledged yet
	full  bool
	stop  context.CancelFunc
}

func (l *lab) observer(name string) *observer {
	return &observer{l: l, name: name, turn: make(chan struct{}, 1), votes: map[health.Target]health.Vote{}, fresh: map[health.Target]health.Vote{}, full: true}
}

// start heartbeats every second until pause.
func (o *observer) start() {
	ctx, stop := context.WithCancel(o.l.ctx)
	o.stop = stop
	go func() {
		for {
			_ = o.report(ctx) // the next one tries again
			if !wait(ctx, time.Second) {
				return
			}
		}
	}()
}

func (o *observer) pause() {
	o.stop()
	synctest.Wait()
}

// vote changes the observer's opinion and reports it.
func (o *observer) vote(side health.Side, clusters ...string) {
	o.turn <- struct{}{}
	for _, c := range clusters {
		v := health.Vote{Side: side, Since: time.Now()}
		for _, t := range o.l.targets(c) {
			o.votes[t], o.fresh[t] = v, v
		}
	}
	<-o.turn
	require.NoError(o.l.t, o.report(o.l.ctx))
}

func (o *observer) report(ctx context.Context) error {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	for range 3 {
		r := Report{Seq: o.seq, Nonce: o.nonce, Clock: time.Now(), Version: "1.0.0"}
		switch {
		case o.full:
			r.Seq, r.Full, r.Votes = o.seq+1, true, maps.Clone(o.votes)
		case len(o.fresh) > 0:
			r.Seq, r.Prev, r.Votes = o.seq+1, o.seq, maps.Clone(o.fresh)
		}
		reply, err := Exchange(ctx, r, func(ctx context.Context, r Report) (Reply, error) { return o.l.ctl.Report(ctx, o.name, r) })
		if err != nil {
			return err
		}
		o.nonce = reply.Nonce
		if !reply.NeedFull {
			o.seq, o.full = reply.Seq, false
			o.fresh = map[health.Target]health.Vote{}
			return nil
		}
		o.seq, o.full = max(o.seq, reply.Seq), true
	}
	return errors.New("the leader keeps asking for a full set")
}

// settled is a lab that leads and whose three observers see everything up.
func settled(t *testing.T, edits ...func(*statestore.Spec)) (*lab, map[string]*observer) {
	t.Helper()
	l := newLab(t, edits...)
	l.lead()
	os := map[string]*observer{}
	for name := range l.st().Members {
		o := l.observer(name)
		for _, c := range []string{"eu", "us"} {
			for _, t := range l.targets(c) {
				o.votes[t] = health.Vote{Side: health.Up, Since: time.Now()}
			}
		}
		o.start()
		os[name] = o
	}
	time.Sleep(3 * time.Second)
	require.Equal(t, health.Up, l.side("eu"))
	require.Equal(t, health.Up, l.side("us"))
	l.forget()
	return l, os
}
