package routing

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// ownedState is testState with db stateful: eu is active under epoch 12.
func ownedState() *statestore.State {
	st := testState()
	st.Spec.Services["db"].Stateful = &statestore.Stateful{Preferred: "eu"}
	run := st.Services["db"]
	run.Rotation.V4.Shares = []statestore.Share{share("eu", 1, "192.0.2.10", "192.0.2.11")}
	run.Rotation.V6.Shares = []statestore.Share{share("eu", 1, "2001:db8:1::10")}
	run.Ownership = &statestore.Ownership{Active: "eu", Epoch: 12, Generation: 1}
	return st
}

// owned returns ownedState with its ownership edited.
func owned(edit func(*statestore.Ownership)) *statestore.State {
	st := ownedState()
	edit(st.Services["db"].Ownership)
	return st
}

func ask(t testing.TB, st *statestore.State, local Local, q Query) (Answer, []Step) {
	t.Helper()
	table, err := Update(nil, st, local)
	require.NoError(t, err)
	a, tr := Select(table, q)
	return a, tr.Steps()
}

func TestStatefulAnswers(t *testing.T) {
	moving := func(o *statestore.Ownership) { o.Open, o.Next = "CUT-17", 13 }
	unconfirmed := func(o *statestore.Ownership) { o.Unconfirmed = true }
	lastUs := Local{Active: map[string]string{"db": "us"}}
	onStale := func(st *statestore.State, a statestore.StaleAnswer) *statestore.State {
		st.Spec.Services["db"].OnStale.Answer = a
		return st
	}
	tests := []struct {
		name  string
		st    *statestore.State
		local Local
		typ   string
		stale time.Duration
		want  string
	}{
		{"the active side", ownedState(), Local{}, "A", 0, "NOERROR A 192.0.2.10,192.0.2.11"},
		{"and its other family", ownedState(), Local{}, "AAAA", 0, "NOERROR AAAA 2001:db8:1::10"},
		{"an active side without the family has no data", owned(func(o *statestore.Ownership) { o.Active = "us" }), Local{}, "AAAA", 0, "NODATA"},
		{"a rotation of another cluster is not answered", owned(func(o *statestore.Ownership) { o.Active = "us" }), Local{}, "A", 0, "NOERROR A 198.51.100.10"},
		{"an open cutover changes nothing", owned(func(o *statestore.Ownership) { o.Open = "CUT-17" }), Local{}, "A", 0, "NOERROR A 192.0.2.10,192.0.2.11"},
		{"nobody while it moves", owned(moving), Local{}, "A", 0, "SERVFAIL"},
		{"nor of the other family", owned(moving), Local{}, "AAAA", 0, "SERVFAIL"},
		{"moving or not, other types have no data", owned(moving), Local{}, "TXT", 0, "NODATA"},
		{"stale while it moves", owned(moving), Local{}, "A", time.Hour, "SERVFAIL"},
		{"withheld by this node", ownedState(), Local{Withheld: map[string]string{"db": "disk"}}, "A", 0, "SERVFAIL"},
		{"another service's being withheld", ownedState(), Local{Withheld: map[string]string{"web": "disk"}}, "A", 0, "NOERROR A 192.0.2.10,192.0.2.11"},
		{"stale is kept", ownedState(), Local{}, "A", time.Hour, "NOERROR A 192.0.2.10,192.0.2.11"},
		{"stale says servfail", onStale(ownedState(), statestore.StaleServFail), Local{}, "A", time.Hour, "SERVFAIL"},
		{"stale says refuse", onStale(ownedState(), statestore.StaleRefuse), Local{}, "A", time.Hour, "REFUSED"},
		{"what the node knew counts only while unconfirmed", ownedState(), lastUs, "A", 0, "NOERROR A 192.0.2.10,192.0.2.11"},
		{"unconfirmed: what this node last answered", owned(unconfirmed), lastUs, "A", 0, "NOERROR A 198.51.100.10"},
		{"unconfirmed, unknown and kept: the state's", owned(unconfirmed), Local{}, "A", 0, "NOERROR A 192.0.2.10,192.0.2.11"},
		{"unconfirmed, unknown, servfail", onStale(owned(unconfirmed), statestore.StaleServFail), Local{}, "A", 0, "SERVFAIL"},
		{"unconfirmed, unknown, refuse", onStale(owned(unconfirmed), statestore.StaleRefuse), Local{}, "A", 0, "REFUSED"},
		{"unconfirmed, known, refuse when stale only", onStale(owned(unconfirmed), statestore.StaleRefuse), lastUs, "A", 0, "NOERROR A 198.51.100.10"},
		{"unconfirmed and withheld", onStale(owned(unconfirmed), statestore.StaleRefuse), Local{Withheld: map[string]string{"db": "moving"}}, "A", 0, "SERVFAIL"},
		{"no ownership answers nobody", func() *statestore.State { st := ownedState(); st.Services["db"].Ownership = nil; return st }(), Local{}, "A", 0, "SERVFAIL"},
		{"a lost rotation is not an empty answer", func() *statestore.State {
			st := ownedState()
			st.Services["db"].Rotation.V4.Shares = nil
			return st
		}(), Local{}, "A", 0, "NOERROR A 192.0.2.10,192.0.2.11"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := query("db.gslb.test.", tt.typ)
			q.Stale = tt.stale
			a, _ := ask(t, tt.st, tt.local, q)
			require.Equal(t, tt.want, shown(a))
			if tt.want == "SERVFAIL" && tt.stale == 0 {
				require.NotEmpty(t, a.Withheld)
			}
		})
	}
}

func TestAServiceWithoutTheFamilyHasNoDataWhateverMoves(t *testing.T) {
	st := owned(func(o *statestore.Ownership) { o.Next = 13 })
	st.Spec.Clusters["eu"].IPv6 = nil
	a, _ := ask(t, st, Local{}, query("db.gslb.test.", "AAAA"))
	require.Equal(t, "NODATA", shown(a))
}

func TestTTLIsChangingWhileACutoverIsOpen(t *testing.T) {
	ttl := func(st *statestore.State) time.Duration {
		a, _ := ask(t, st, Local{}, query("db.gslb.test.", "A"))
		return a.TTL()
	}
	require.Equal(t, 30*time.Second, ttl(ownedState()))
	require.Equal(t, 5*time.Second, ttl(owned(func(o *statestore.Ownership) { o.Open = "CUT-17" })))
}

func TestStatefulTraces(t *testing.T) {
	down := func(st *statestore.State) *statestore.State {
		for target, ts := range st.Services["db"].Targets {
			if target.Cluster == "eu" {
				ts.Verdict.Side = health.Down
			}
		}
		return st
	}
	tests := []struct {
		name          string
		st            *statestore.State
		local         Local
		state, answer Step
	}{
		{
			"up", ownedState(),
			Local{},
			Step{"state", "active is eu, epoch 12", ""},
			Step{"answer", "A 192.0.2.10, 192.0.2.11  TTL 30", "a stateful name keeps its active side until a cutover is done"},
		},
		{
			"down, before a proposal", down(ownedState()),
			Local{},
			Step{"state", "active is eu, epoch 12", "verdict down, but moves need approval"},
			Step{"answer", "A 192.0.2.10, 192.0.2.11  TTL 30", "a stateful name keeps its active side until a cutover is done"},
		},
		{
			"down, with a proposal", down(owned(func(o *statestore.Ownership) { o.Open = "CUT-17" })),
			Local{},
			Step{"state", "active is eu, epoch 12", "verdict down, but moves need approval (CUT-17)"},
			Step{"answer", "A 192.0.2.10, 192.0.2.11  TTL 5 (changing)", "a stateful name keeps its active side until a cutover is done"},
		},
		{
			"planned", owned(func(o *statestore.Ownership) { o.Open = "CUT-17" }),
			Local{},
			Step{"state", "active is eu, epoch 12", "CUT-17 is open"},
			Step{"answer", "A 192.0.2.10, 192.0.2.11  TTL 5 (changing)", "a stateful name keeps its active side until a cutover is done"},
		},
		{
			"moving", owned(func(o *statestore.Ownership) { o.Open, o.Next = "CUT-17", 13 }),
			Local{},
			Step{"state", "active was eu, epoch 12 -> 13", "a cutover is under way: CUT-17; nobody is answered until it is published"},
			Step{"answer", "SERVFAIL", "while_moving: servfail"},
		},
		{
			"withheld", ownedState(),
			Local{Withheld: map[string]string{"db": "epoch 12 is not on disk"}},
			Step{"state", "active is eu, epoch 12", "withheld on this node: epoch 12 is not on disk"},
			Step{"answer", "SERVFAIL", "withheld on this node"},
		},
		{
			"unconfirmed and known", owned(func(o *statestore.Ownership) { o.Unconfirmed = true }),
			Local{Active: map[string]string{"db": "us"}},
			Step{"state", "unconfirmed; this node last answered with us", "a person must name the active side: quorate thaw db --active CLUSTER"},
			Step{"answer", "A 198.51.100.10  TTL 30", "answered as last known here until a person names the active side"},
		},
		{
			"unconfirmed and unknown", owned(func(o *statestore.Ownership) { o.Unconfirmed = true }),
			Local{},
			Step{"state", "unconfirmed; the recovered state says eu, epoch 12", "a person must name the active side: quorate thaw db --active CLUSTER"},
			Step{"answer", "A 192.0.2.10, 192.0.2.11  TTL 30", "answered as last known here until a person names the active side"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, steps := ask(t, tt.st, tt.local, query("db.gslb.test.", "A"))
			want := []Step{
				{"name", "db.gslb.test. -> service db (stateful, failover)", ""},
				{"client", "203.0.113.99 (query source; no ECS)", "a stateful service answers every client alike"},
				{"candidates", "eu, us", ""},
				tt.state, tt.answer,
			}
			if diff := cmp.Diff(want, steps); diff != "" {
				t.Errorf("trace (-want +got):\n%s", diff)
			}
		})
	}
}

// TestI1StatefulAnswersNeverVaryByClient asks as random clients, with a policy that
// would draw: the answer is of one cluster, the same for all.
func TestI1StatefulAnswersNeverVaryByClient(t *testing.T) {
	st := ownedState()
	st.Spec.Services["db"].Policy.Type = statestore.Weighted
	st.Spec.Services["db"].Answer.Clusters = 2
	st.Services["db"].Rotation.V4.Shares = append(st.Services["db"].Rotation.V4.Shares, share("us", 9, "198.51.100.10"))
	table := compile(t, st)
	rapid.Check(t, func(rt *rapid.T) {
		q := query("db.gslb.test.", "A")
		q.Draw = rapid.Uint64().Draw(rt, "draw")
		q.Client = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(rt, "client")))
		q.Subnet = netip.PrefixFrom(q.Client, 24).Masked()
		a, _ := Select(table, q)
		require.Equal(rt, []string{"eu"}, a.Clusters)
		require.Equal(rt, "NOERROR A 192.0.2.10,192.0.2.11", shown(a))
	})
}

func TestEpochsSayHowFarATableIs(t *testing.T) {
	table := compile(t, owned(func(o *statestore.Ownership) { o.Open, o.Next = "CUT-17", 13 }))
	require.Equal(t, []Epoch{{Service: "db", Generation: 1, Epoch: 13, Active: "eu", Cutover: "CUT-17", Moving: true}}, table.Epochs())
	e, ok := compile(t, ownedState()).Epoch("db")
	require.True(t, ok)
	require.Equal(t, Epoch{Service: "db", Generation: 1, Epoch: 12, Active: "eu", Answers: "eu"}, e)
	_, ok = table.Epoch("web")
	require.False(t, ok, "a stateless service has none")
}

// TestUpdateFollowsWhatTheNodeKnows: with nothing else changed, a service is
// withheld, and answered again, as the node says.
func TestUpdateFollowsWhatTheNodeKnows(t *testing.T) {
	st := owned(func(o *statestore.Ownership) { o.Unconfirmed = true })
	locals := []Local{
		{},
		{Withheld: map[string]string{"db": "disk"}},
		{Active: map[string]string{"db": "us"}},
		{Active: map[string]string{"db": "eu"}},
		{Withheld: map[string]string{"db": "other"}, Active: map[string]string{"db": "us"}},
	}
	table := compile(t, st)
	draw := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		local := locals[draw.IntN(len(locals))]
		fresh, err := Update(nil, st, local)
		require.NoError(t, err)
		web := table.service("web")
		table, err = Update(table, st, local)
		require.NoError(t, err)
		require.Equal(t, prepared(fresh), prepared(table))
		require.Same(t, web, table.service("web"), "a stateless service is shared")
	}
}

func TestSelectOfAStatefulServiceDoesNotAllocate(t *testing.T) {
	for name, st := range map[string]*statestore.State{"active": ownedState(), "moving": owned(func(o *statestore.Ownership) { o.Next = 13 })} {
		table, q := compile(t, st), query("db.gslb.test.", "A")
		if n := testing.AllocsPerRun(100, func() { Select(table, q) }); n != 0 {
			t.Errorf("Select of a service that is %s allocates %v times, want 0", name, n)
		}
	}
}
