package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

var (
	eu4 = netip.MustParseAddr("192.0.2.10")
	us4 = netip.MustParseAddr("198.51.100.10")
	dr4 = netip.MustParseAddr("203.0.113.10")
)

// canary is the secret of every token of a test: it must never come back.
const canary = "CANARYsecretCANARYsecretCANARY00"

// rig is a server around a real store, with a proposer that applies at once.
type rig struct {
	t      testing.TB
	store  *statestore.Store
	server *Server
	ts     *httptest.Server
	cfg    Config
	logs   *lockedBuffer
	reg    *prometheus.Registry

	mu      sync.Mutex // protects what follows
	index   uint64
	fail    error // of the next proposals
	quorum  QuorumView
	noTable bool
	unbound bool
	before  func() // runs once before the next proposal applies
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t testing.TB, edit ...func(*Config)) *rig {
	r := &rig{t: t, store: statestore.NewStore(), logs: &lockedBuffer{}, reg: prometheus.NewRegistry()}
	r.quorum = QuorumView{
		HasQuorum: true, Leader: "us-1", Voters: 3, VotersUp: 3, Tolerates: 1,
		Servers: []RaftServer{{Name: "eu-1", Voter: true, Reachable: true}, {Name: "us-1", Voter: true, Reachable: true}, {Name: "ap-1", Voter: true, Reachable: true}},
	}
	r.cfg = Config{
		Node: "eu-1", Version: "1.0.0", Store: r.store, Proposer: r,
		Quorum: func() QuorumView {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.quorum
		},
		Table:     r.table,
		Decode:    decodeJSON,
		Bound:     func() bool { r.mu.Lock(); defer r.mu.Unlock(); return !r.unbound },
		ReadIndex: func(context.Context) (uint64, error) { return r.store.State().Index, nil },
		MintJoinToken: func() (JoinSecret, error) {
			return JoinSecret{ID: "j1", Token: "qjt1." + canary, Hash: sha256.Sum256([]byte("j"))}, nil
		},
		NodeConfig: func() string { return "name: eu-1\n" },
		LogLevel:   &slog.LevelVar{},
		Log:        slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: r.reg, Gatherer: r.reg,
	}
	for _, f := range edit {
		f(&r.cfg)
	}
	var err error
	r.server, err = New(r.cfg)
	require.NoError(t, err)
	r.ts = httptest.NewServer(r.server.Handler())
	t.Cleanup(func() {
		r.server.stopOnce.Do(func() { close(r.server.stopping) })
		r.ts.Close()
	})
	r.setup()
	return r
}

// Propose applies a command as consensus would on the only voter.
func (r *rig) Propose(_ context.Context, cmd statestore.Command, o Origin) (statestore.Result, error) {
	r.mu.Lock()
	err, before := r.fail, r.before
	r.before = nil
	r.mu.Unlock()
	if err != nil {
		return statestore.Result{}, err
	}
	if before != nil {
		before()
	}
	return r.apply(cmd, o), nil
}

func (r *rig) apply(cmd statestore.Command, o Origin) statestore.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, err := statestore.Encode(cmd, statestore.Meta{
		Actor: o.Actor, Request: o.Request, Issued: o.Issued, Wall: time.Now().UTC(), Elapsed: time.Millisecond,
	})
	require.NoError(r.t, err)
	r.index++
	return r.store.Apply(r.index, 1, data)
}

func (r *rig) must(cmds ...statestore.Command) {
	r.t.Helper()
	for _, cmd := range cmds {
		require.NoError(r.t, r.apply(cmd, Origin{Actor: "setup"}).Err, "%T", cmd)
	}
}

func (r *rig) table() *routing.Table {
	r.mu.Lock()
	none := r.noTable
	r.mu.Unlock()
	if none {
		return nil
	}
	t, err := routing.Compile(r.store.State())
	require.NoError(r.t, err)
	return t
}

func (r *rig) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// setup makes an installation of three nodes, a service "web" over three clusters
// that are up, and a token for each role, named like it.
func (r *rig) setup() {
	r.must(statestore.Initialize{Installation: "test", CA: statestore.TrustedCA{Fingerprint: "ab12", PEM: "-"}})
	for _, region := range []string{"eu", "us", "ap"} {
		r.must(statestore.UpsertMember{Member: statestore.Member{
			Name: region + "-1", Nonce: "n", Region: region, Role: statestore.Voter, Observes: true,
			Supports: statestore.SupportedLevel, Version: "1.0.0", Peer: region + "-1:7654", CA: "ab12",
			DNS: statestore.Advertise{IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.53")}},
		}})
	}
	spec := testSpec()
	r.must(statestore.ApplySpec{Source: specText(spec), Spec: spec, Rotations: policy.Rotations(r.store.State(), spec, nil, nil)})
	r.votes(1, true, nil)
	for _, role := range []string{"viewer", "operator", "admin", "webops"} {
		r.must(statestore.PutToken{ID: role, User: role + "-user", Groups: []string{role}, Hash: sha256.Sum256([]byte(canary)), Root: true})
	}
}

// votes casts everybody's votes: up but for what bad says.
func (r *rig) votes(seq uint64, full bool, bad map[health.ObserverID][]string) {
	r.t.Helper()
	st := r.store.State()
	var batches []statestore.VoteBatch
	for _, o := range []health.ObserverID{"ap-1", "eu-1", "us-1"} {
		b := statestore.VoteBatch{Observer: o, Seq: seq, Prev: seq - 1, Full: full, Votes: map[health.Target]health.Vote{}}
		for _, t := range st.Spec.Targets() {
			v := health.Vote{Side: health.Up, Since: time.Now()}
			for _, c := range bad[o] {
				if t.Cluster == c {
					v.Side, v.Reason = health.Down, "refused"
				}
			}
			b.Votes[t] = v
		}
		batches = append(batches, b)
	}
	r.must(statestore.CastVotes{Batches: batches})
}

func testSpec() *statestore.Spec {
	check := &statestore.Check{
		Name: "check", Interval: statestore.Duration(10 * time.Second), Timeout: statestore.Duration(3 * time.Second),
		Fall: 3, Rise: 2, Recheck: statestore.Duration(2 * time.Second), StaleAfter: statestore.Duration(30 * time.Second),
		TCP: &statestore.TCPCheck{Port: 443},
	}
	service := func(name string, only ...string) *statestore.Service {
		return &statestore.Service{
			Zone: "gslb.test.", Names: []string{name},
			Clusters:  statestore.Selector{Only: only},
			Checks:    statestore.Checks{All: []*statestore.Check{check}},
			Quorum:    statestore.Quorum{MinVotes: 2},
			Policy:    statestore.Policy{Type: statestore.Weighted},
			TTL:       statestore.TTL{Normal: statestore.Duration(30 * time.Second), Changing: statestore.Duration(5 * time.Second)},
			OnAllDown: statestore.OnAllDown{Mode: statestore.ServeLast},
			OnStale:   statestore.OnStale{Answer: statestore.StaleKeep},
			Answer:    statestore.Answer{Clusters: 1, Addresses: 8},
		}
	}
	roles := statestore.BuiltinRoles()
	roles["webops"] = &statestore.Role{
		Groups: []string{"webops"}, Can: []statestore.Capability{statestore.CanRead, statestore.CanDrain, statestore.CanFreeze}, Services: []string{"web"},
	}
	return &statestore.Spec{
		Version: 1,
		Zones:   map[string]*statestore.Zone{"gslb.test.": {NSTTL: statestore.Duration(time.Hour)}},
		Clusters: map[string]*statestore.Cluster{
			"eu": {ID: 1, Region: "eu-west", IPv4: []netip.Addr{eu4}, Check: check},
			"us": {ID: 2, Region: "us-east", IPv4: []netip.Addr{us4}},
			"dr": {ID: 3, Region: "eu-central", IPv4: []netip.Addr{dr4}},
		},
		Services: map[string]*statestore.Service{"web": service("web", "eu", "us", "dr"), "shop": service("shop", "eu", "us")},
		Safety: statestore.Safety{
			MinServingClusters: 1, MaxDrained: 1,
			Changes: statestore.Budget{Causes: 4, Per: statestore.Duration(10 * time.Minute)},
			Plan:    statestore.PlanGuard{MaxUpdateRatio: 1, MaxDeleteRatio: 0.3},
		},
		Access:    statestore.Access{Roles: roles},
		Retention: statestore.Retention{Events: statestore.Duration(24 * time.Hour), Revisions: 10},
	}
}

// specText writes a spec in the format of decodeJSON.
func specText(spec *statestore.Spec) string {
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(data)
}

// decodeJSON stands for config's decoder: the API only hands text and positions on.
func decodeJSON(name string, source []byte) Decoded {
	var spec statestore.Spec
	if err := json.Unmarshal(source, &spec); err != nil {
		return Decoded{Errors: []apitype.FieldError{{File: name, Line: 1, Column: 1, Pointer: "services.web", Message: "must be a spec"}}}
	}
	d := Decoded{Spec: &spec, Warnings: []string{"a warning of the decoder"}}
	if bytes.Contains(source, []byte(`"spillover"`)) {
		d.Unused = []apitype.FieldError{{File: name, Line: 3, Column: 5, Pointer: "services.web.spillover", Message: "has no behaviour in this version"}}
	}
	return d
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) problem(t testing.TB) apitype.Problem {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.body)
	var p apitype.Problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	return p
}

// items decodes an envelope.
func items[T any](t testing.TB, a answer) []T {
	t.Helper()
	require.Less(t, a.status, 300, a.body)
	var e apitype.Envelope[T]
	require.NoError(t, json.Unmarshal([]byte(a.body), &e), a.body)
	require.Equal(t, "v1", e.API)
	return e.Items
}

// as calls the API with the token of a role; none with an empty role.
func (r *rig) as(role, method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.ts.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if role != "" {
		req.Header.Set("Authorization", "Bearer qt1."+role+"."+canary)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return answer{resp.StatusCode, resp.Header, string(data)}
}

func (r *rig) get(path string, headers ...string) answer {
	return r.as("admin", http.MethodGet, path, "", headers...)
}

func (r *rig) post(path, body string, headers ...string) answer {
	return r.as("admin", http.MethodPost, path, body, headers...)
}

// apply1 makes a spec the next revision, whatever the rails say.
func (r *rig) apply1(spec *statestore.Spec) {
	r.t.Helper()
	st := r.store.State()
	r.must(statestore.ApplySpec{Base: st.Revision, Source: specText(spec), Spec: spec, Rotations: policy.Rotations(st, spec, nil, nil)})
}

// settle commits what automation wants.
func (r *rig) settle() {
	r.t.Helper()
	for _, p := range policy.Plan(r.store.State(), policy.Waits{}) {
		r.must(p.Command)
	}
}

// without returns the spec without some services.
func without(spec *statestore.Spec, services ...string) *statestore.Spec {
	for _, name := range services {
		delete(spec.Services, name)
	}
	return spec
}

// jsonText is a text as a body holds it.
func jsonText(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data[1 : len(data)-1])
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}
