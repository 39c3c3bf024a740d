package routing

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// shown is an answer in one line: kind, aliases, records.
func shown(a Answer) string {
	parts := []string{a.Kind.String()}
	for _, c := range a.Chain {
		parts = append(parts, TypeName(c.Set.Type), c.Set.Text[0])
	}
	if a.Set != nil {
		parts = append(parts, TypeName(a.Set.Type), strings.Join(a.Set.Text, ","))
	}
	return strings.Join(parts, " ")
}

func compile(t testing.TB, st *statestore.State) *Table {
	t.Helper()
	table, err := Compile(st)
	require.NoError(t, err)
	return table
}

func TestSelect(t *testing.T) {
	table := compile(t, testState())
	tests := []struct {
		name, ask, typ, want string
	}{
		{"a service answers with its first draw", "web.gslb.test.", "A", "NOERROR A 192.0.2.10,192.0.2.11"},
		{"any case and no final dot", "WEB.Gslb.Test", "A", "NOERROR A 192.0.2.10,192.0.2.11"},
		{"the apex can be a service", "gslb.test.", "A", "NOERROR A 192.0.2.10,192.0.2.11"},
		{"v6 apart from v4", "web.gslb.test.", "AAAA", "NOERROR AAAA 2001:db8:1::10"},
		{"failover takes the first in order", "db.gslb.test.", "A", "NOERROR A 192.0.2.10,192.0.2.11"},
		{"other types at a service are no data", "web.gslb.test.", "HTTPS", "NODATA"},
		{"static beside a service", "gslb.test.", "TXT", `NOERROR TXT "v=spf1 -all"`},
		{"soa at the apex", "gslb.test.", "SOA", "NOERROR SOA ns-eu-1.gslb.test. hostmaster.gslb.test. 67108897 3600 900 604800 30"},
		{"ns are the answering members", "gslb.test.", "NS", "NOERROR NS ns-ap.example.net.,ns-eu-1.gslb.test.,ns-us-1.gslb.test."},
		{"glue answers as a name", "ns-eu-1.gslb.test.", "A", "NOERROR A 203.0.113.1"},
		{"glue of v6", "ns-eu-1.gslb.test.", "AAAA", "NOERROR AAAA 2001:db8:f::1"},
		{"glue without v6 is no data", "ns-us-1.gslb.test.", "AAAA", "NODATA"},
		{"a member that answers nobody has no name", "ns-aa-1.gslb.test.", "A", "NXDOMAIN"},
		{"an alias out of our data", "status.gslb.test.", "A", "NOERROR CNAME status.example.net."},
		{"an alias to a service", "www.gslb.test.", "A", "NOERROR CNAME web.gslb.test. A 192.0.2.10,192.0.2.11"},
		{"an alias to a service without that type", "www.gslb.test.", "MX", "NODATA CNAME web.gslb.test."},
		{"the alias itself", "www.gslb.test.", "CNAME", "NOERROR CNAME web.gslb.test."},
		{"an alias to nothing", "gone.gslb.test.", "A", "NXDOMAIN CNAME nowhere.gslb.test."},
		{"a loop ends where it began", "loop.gslb.test.", "A", "NOERROR CNAME loop.gslb.test."},
		{"no such name", "nope.gslb.test.", "A", "NXDOMAIN"},
		{"nothing below a service", "x.web.gslb.test.", "A", "NXDOMAIN"},
		{"an empty non-terminal has no data", "empty.gslb.test.", "A", "NODATA"},
		{"a wildcard", "a.wild.gslb.test.", "A", "NOERROR A 192.0.2.77"},
		{"a wildcard over labels", "a.b.wild.gslb.test.", "A", "NOERROR A 192.0.2.77"},
		{"a wildcard without that type", "a.wild.gslb.test.", "TXT", "NODATA"},
		{"a name hides the wildcard", "x.wild.gslb.test.", "A", "NODATA"},
		{"a name hides the wildcard below it", "a.x.wild.gslb.test.", "A", "NXDOMAIN"},
		{"a wildcard alias", "q.alias.gslb.test.", "A", "NOERROR CNAME db.gslb.test. A 192.0.2.10,192.0.2.11"},
		{"the wildcard's parent is empty", "wild.gslb.test.", "A", "NODATA"},
		{"any is the least", "web.gslb.test.", "ANY", `NOERROR HINFO "RFC8482" ""`},
		{"any at an empty non-terminal", "empty.gslb.test.", "ANY", "NODATA"},
		{"out of zone", "example.com.", "A", "REFUSED"},
		{"above the zone", "test.", "NS", "REFUSED"},
		{"the root", ".", "NS", "REFUSED"},
		{"a name that only ends alike", "xgslb.test.", "A", "REFUSED"},
		{"an escaped dot is no label", `web\.gslb.test.`, "A", "REFUSED"},
		{"an empty name", "", "A", "REFUSED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, tr := Select(table, query(tt.ask, tt.typ))
			require.Equal(t, tt.want, shown(a))
			require.NotEmpty(t, tr.Steps())
		})
	}
}

func TestAnswersOnAllDownAndStale(t *testing.T) {
	last := []statestore.Share{share("us", 1, "198.51.100.10")}
	tests := []struct {
		name  string
		edit  func(*statestore.Service, *statestore.Pool)
		stale time.Duration
		want  string
		says  bool // Stale
	}{
		{"serve_last keeps the last", func(_ *statestore.Service, p *statestore.Pool) { p.AllDown, p.Shares = statestore.ServeLast, last }, 0, "NOERROR A 198.51.100.10", false},
		{"serve_all answers by policy over all", func(_ *statestore.Service, p *statestore.Pool) { p.AllDown = statestore.ServeAll }, 0, "NOERROR A 192.0.2.10,192.0.2.11", false},
		{"nodata when declared", func(_ *statestore.Service, p *statestore.Pool) { p.AllDown = statestore.NoData }, 0, "NODATA", false},
		{"servfail when declared", func(_ *statestore.Service, p *statestore.Pool) { p.AllDown = statestore.ServFail }, 0, "SERVFAIL", false},
		{"the sorry address", func(s *statestore.Service, p *statestore.Pool) {
			p.AllDown, s.OnAllDown.Sorry = statestore.Sorry, addrs("2001:db8::5", "192.0.2.250")
		}, 0, "NOERROR A 192.0.2.250", false},
		{"no sorry address of the family", func(s *statestore.Service, p *statestore.Pool) {
			p.AllDown, s.OnAllDown.Sorry = statestore.Sorry, addrs("2001:db8::5")
		}, 0, "NODATA", false},
		{"a lost rotation is not an empty answer", func(_ *statestore.Service, p *statestore.Pool) { p.Shares = nil }, 0, "NOERROR A 192.0.2.10,192.0.2.11", false},
		{"stale is kept, and said", func(*statestore.Service, *statestore.Pool) {}, time.Hour, "NOERROR A 192.0.2.10,192.0.2.11", true},
		{"not stale at the limit", func(s *statestore.Service, _ *statestore.Pool) { s.OnStale.Answer = statestore.StaleServFail }, 30 * time.Second, "NOERROR A 192.0.2.10,192.0.2.11", false},
		{"stale servfail", func(s *statestore.Service, _ *statestore.Pool) { s.OnStale.Answer = statestore.StaleServFail }, 31 * time.Second, "SERVFAIL", true},
		{"stale refuse", func(s *statestore.Service, _ *statestore.Pool) { s.OnStale.Answer = statestore.StaleRefuse }, 31 * time.Second, "REFUSED", true},
		{"the address limit", func(s *statestore.Service, _ *statestore.Pool) { s.Answer.Addresses = 1 }, 0, "NOERROR A 192.0.2.10", false},
		{"failover never answers with two clusters", func(s *statestore.Service, _ *statestore.Pool) { s.Answer.Clusters = 2 }, 0, "NOERROR A 192.0.2.10,192.0.2.11", false},
		{"failover goes on to the next", func(_ *statestore.Service, p *statestore.Pool) { p.Shares = last }, 0, "NOERROR A 198.51.100.10", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := testState()
			tt.edit(st.Spec.Services["db"], &st.Services["db"].Rotation.V4)
			q := query("db.gslb.test.", "A")
			q.Stale = tt.stale
			a, _ := Select(compile(t, st), q)
			require.Equal(t, tt.want, shown(a))
			require.Equal(t, tt.says, a.Stale)
		})
	}
}

func TestTTLIsChangingWhileATargetIsSuspect(t *testing.T) {
	st := testState()
	a, _ := Select(compile(t, st), query("web.gslb.test.", "A"))
	require.EqualValues(t, 30, a.Set.TTL)
	for _, ts := range st.Services["web"].Targets {
		ts.Verdict.Mark = health.Contested
		break
	}
	table := compile(t, st)
	a, _ = Select(table, query("web.gslb.test.", "A"))
	require.EqualValues(t, 5, a.Set.TTL)
	a, _ = Select(table, query("db.gslb.test.", "A"))
	require.EqualValues(t, 30, a.Set.TTL, "another service")
}

func TestWeightedSharesFollowTheWeights(t *testing.T) {
	table := compile(t, testState())
	const n = 20000
	count := map[string]int{}
	draw := uint64(1)
	for range n {
		draw = mix(draw)
		q := query("web.gslb.test.", "A")
		q.Draw = draw
		a, _ := Select(table, q)
		require.Len(t, a.Clusters, 1)
		count[a.Clusters[0]]++
	}
	if got := float64(count["eu"]) / n; math.Abs(got-0.75) > 0.015 {
		t.Errorf("eu has %.3f of the answers with weight 75 of 100, want 0.75 +- 0.015: %v", got, count)
	}
}

func TestWeightsOfZero(t *testing.T) {
	st := testState()
	shares := st.Services["web"].Rotation.V4.Shares
	shares[0].Weight = 0
	a, _ := Select(compile(t, st), Query{Name: "web.gslb.test.", Type: TypeA})
	require.Equal(t, []string{"us"}, a.Clusters, "a weight of zero is never drawn")
	shares[1].Weight = 0
	seen := map[string]bool{}
	for _, draw := range []uint64{0, math.MaxUint64} {
		a, _ := Select(compile(t, st), Query{Name: "web.gslb.test.", Type: TypeA, Draw: draw})
		seen[a.Clusters[0]] = true
	}
	require.Len(t, seen, 2, "when none has a weight all are equal")
}

func TestSeveralClustersShareTheAddressLimit(t *testing.T) {
	st := testState()
	st.Spec.Services["web"].Answer = statestore.Answer{Clusters: 2, Addresses: 2}
	a, _ := Select(compile(t, st), query("web.gslb.test.", "A"))
	require.ElementsMatch(t, []string{"eu", "us"}, a.Clusters)
	require.Equal(t, []string{"192.0.2.10", "198.51.100.10"}, a.Set.Text)
}

func TestExplicitNSWins(t *testing.T) {
	st := testState()
	z := st.Spec.Zones[testZone]
	z.NS = []string{"ns-us-1.gslb.test.", "ns.example.org"}
	table := compile(t, st)
	a, _ := Select(table, query("gslb.test.", "NS"))
	require.Equal(t, "NOERROR NS ns-us-1.gslb.test.,ns.example.org.", shown(a))
	require.Equal(t, []Alias{{Owner: "ns-us-1.gslb.test.", Set: a.Additional[0].Set}}, a.Additional)
	require.Equal(t, []string{"203.0.113.2"}, a.Additional[0].Set.Text)
	a, _ = Select(table, query("gslb.test.", "SOA"))
	require.Contains(t, a.Set.Text[0], "ns-us-1.gslb.test. ", "mname is the first voter that is in the list")

	z.SOA.MName, z.SOA.RName = "m.example.org.", "dns\\.admin.example.org."
	a, _ = Select(compile(t, st), query("gslb.test.", "SOA"))
	require.Contains(t, a.Set.Text[0], "m.example.org. dns\\.admin.example.org. ")
}

func TestSerialGrowsOverGenerations(t *testing.T) {
	st := testState()
	st.TableIndex = 1<<26 - 1
	before := compile(t, st)
	st2 := testState()
	st2.Generation, st2.TableIndex = 2, 1
	after := compile(t, st2)
	require.Greater(t, after.Serial, before.Serial)
	require.True(t, after.Newer(before))
	require.False(t, before.Newer(after), "a lower generation is older whatever its index")
	require.False(t, before.Newer(before))
	st2.Generation = 64
	require.EqualValues(t, 1, compile(t, st2).Serial, "modulo 2^32")
}

func TestASpecWhoseAliasesNeverEndIsRefused(t *testing.T) {
	tests := []struct {
		name    string
		records map[string]map[string][]string
		circle  bool
	}{
		{"itself", map[string]map[string][]string{"a": {"CNAME": {"a"}}}, true},
		{"each other", map[string]map[string][]string{"a": {"CNAME": {"b"}}, "b": {"CNAME": {"A"}}}, true},
		{"a wildcard that matches its target", map[string]map[string][]string{"*.w": {"CNAME": {"x.w"}}}, true},
		{"a chain with an end", map[string]map[string][]string{"a": {"CNAME": {"b"}}, "b": {"CNAME": {"web"}}}, false},
		{"an end out of the zone", map[string]map[string][]string{"a": {"CNAME": {"b"}}, "b": {"CNAME": {"b.example."}}}, false},
		{"an end in nothing", map[string]map[string][]string{"a": {"CNAME": {"b"}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := testState()
			st.Spec.Zones[testZone].Records = tt.records
			err := CheckSpec(st.Spec)
			if !tt.circle {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "leads round in a circle")
			var of *RecordError
			require.ErrorAs(t, err, &of, "it has the place of a record")
			require.Contains(t, tt.records[of.Owner], of.Type)
			_, err = Compile(st)
			require.NoError(t, err, "a state that holds one is served all the same")
		})
	}
}

func TestCompileLeavesOutOnlyWhatItNames(t *testing.T) {
	st := testState()
	st.Spec.Zones[testZone].Records["bad"] = map[string][]string{"A": {"not an address"}, "TXT": {"fine"}}
	st.Spec.Zones[testZone].Records["web"] = map[string][]string{"A": {"192.0.2.1"}}
	require.Error(t, CheckSpec(st.Spec))
	sound := testState().Spec
	delete(sound.Zones[testZone].Records, "loop")
	require.NoError(t, CheckSpec(sound))
	table, err := Compile(st)
	require.ErrorContains(t, err, `zones.gslb.test.records.bad.A: A record must be valid, "not an address" is not`)
	require.ErrorContains(t, err, `zones.gslb.test.records.web.A: web.gslb.test. has the addresses of service web`)
	a, _ := Select(table, query("bad.gslb.test.", "TXT"))
	require.Equal(t, `NOERROR TXT "fine"`, shown(a))
	a, _ = Select(table, query("web.gslb.test.", "A"))
	require.Equal(t, "NOERROR A 192.0.2.10,192.0.2.11", shown(a))
}

func TestTraceTellsTheDecision(t *testing.T) {
	st := testState()
	st.Clusters["us"].Drain = &statestore.Drain{By: "alice"}
	st.Spec.Clusters["dr"] = &statestore.Cluster{IPv4: addrs("192.0.2.200")}
	st.Services["db"].Rotation.V4.Shares = st.Services["db"].Rotation.V4.Shares[:1]
	_, tr := Select(compile(t, st), query("db.gslb.test.", "A"))
	want := []Step{
		{"name", "db.gslb.test. -> service db (stateless, failover)", ""},
		{"client", "203.0.113.99 (query source; no ECS)", "policy failover answers every client alike"},
		{"candidates", "eu, us", "dr excluded: not in clusters.only"},
		{"state", "rotation 1: eu", "us drained by alice"},
		{"answer", "A 192.0.2.10, 192.0.2.11  TTL 30", "eu is the first in order that is in rotation"},
	}
	if diff := cmp.Diff(want, tr.Steps()); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

func TestTraceSaysWhenAnAnswerIsNotUp(t *testing.T) {
	st := testState()
	for target, ts := range st.Services["db"].Targets {
		if target.Cluster == "eu" {
			ts.Verdict.Side = health.Down
		}
	}
	_, tr := Select(compile(t, st), query("db.gslb.test.", "A"))
	require.Contains(t, tr.Steps()[3].Note, "eu down, but in rotation")
}

func TestSelectDoesNotAllocate(t *testing.T) {
	table := compile(t, testState())
	for _, name := range []string{"web.gslb.test.", "db.gslb.test.", "a.wild.gslb.test.", "nope.gslb.test.", "example.com."} {
		q := Query{Name: name, Type: TypeA, Client: netip.MustParseAddr("192.0.2.1"), Draw: 7}
		if n := testing.AllocsPerRun(100, func() { Select(table, q) }); n != 0 {
			t.Errorf("Select(%s) allocates %v times, want 0", name, n)
		}
	}
}

func TestWireNames(t *testing.T) {
	for name, want := range map[string]string{
		".":                      "\x00",
		"a.bc.":                  "\x01a\x02bc\x00",
		`a\.b.c.`:                "\x03a.b\x01c\x00",
		`\065\\.`:                "\x02A\\\x00",
		"no-dot":                 "",
		"a..b.":                  "",
		fmt.Sprintf("%064d.", 0): "",
	} {
		got, err := packName(nil, name)
		require.Equal(t, want, string(got), name)
		require.Equal(t, want == "", err != nil, name)
	}
}
