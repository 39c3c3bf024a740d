//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/records"
	"github.com/quorate/quorate/statestore"
)

const (
	zoneCount    = 2000
	perZone      = 32 // questions
	askers       = 8  // at once
	shown        = 12 // differences that are printed
	askTimeout   = 5 * time.Second
	askAttempts  = 3
	defaultSeed  = 20261130
	seedVariable = "CONFORMANCE_SEED"
)

// NSD, Knot and quorate serve the same master files, and answer alike.
func TestGeneratedZonesAreAnsweredAsByNSDAndKnot(t *testing.T) {
	requireTools(t, "nsd", "knotd")
	seed := uint64(defaultSeed)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	zones := generate(seed, zoneCount)
	files := writeZones(t, zones)
	d := &differential{
		t:     t,
		ours:  serve(t, zones),
		peers: []peer{{name: "nsd", at: startNSD(t, zones, files)}, {name: "knot", at: startKnot(t, zones, files)}},
	}
	jobs := make(chan question)
	var wg sync.WaitGroup
	for i := range askers {
		wg.Go(func() { d.work(jobs, uint16(i)) })
	}
	for i, z := range zones {
		for _, q := range ask(z, seed, i, perZone) {
			jobs <- q
		}
	}
	close(jobs)
	wg.Wait()
	d.report(len(zones))
	for _, c := range classes {
		met := slices.ContainsFunc(d.peers, func(p peer) bool { return p.documented[c.name] > 0 })
		require.True(t, met || seed != defaultSeed, "nothing differs by %q any more: it is not to be accepted", c.name)
	}
	if t.Failed() {
		t.Logf("again with %s=%d", seedVariable, seed)
	}
}

// peer is a server that ours is compared with, and what was found.
type peer struct {
	name, at   string
	documented map[string]int // by class
	answers    int            // answer sets that differ and may not
	others     map[string]int // other differences that may not, by what differs
}

// differential compares the answers of ours with those of its peers.
type differential struct {
	t     *testing.T
	ours  string
	peers []peer

	mu     sync.Mutex // guards what follows, and the counts of peers
	asked  int
	tcp    int
	failed int
}

func (d *differential) work(jobs <-chan question, id uint16) {
	for q := range jobs {
		id += askers
		ours, overTCP, err := exchange(d.t.Context(), d.ours, q, id)
		if err != nil {
			d.fail("quorate: %v: %v", q, err)
			continue
		}
		theirs := make([]said, len(d.peers))
		for i, p := range d.peers {
			if theirs[i], _, err = exchange(d.t.Context(), p.at, q, id); err != nil {
				d.fail("%s: %v: %v", p.name, q, err)
			}
		}
		d.judge(q, ours, theirs, overTCP)
	}
}

// judge counts how ours differs from each of theirs.
func (d *differential) judge(q question, ours said, theirs []said, overTCP bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if overTCP {
		d.tcp++
	}
	for i := range d.peers {
		p := &d.peers[i]
		parts := ours.parts(theirs[i])
		if len(parts) == 0 {
			continue
		}
		seconded := slices.ContainsFunc(theirs, func(other said) bool { return len(ours.parts(other)) == 0 })
		if class := classOf(difference{q, ours, theirs[i], p.name, seconded, parts}); class != "" {
			if p.documented == nil {
				p.documented = map[string]int{}
			}
			p.documented[class]++
			continue
		}
		if slices.Contains(parts, "answer") {
			p.answers++
		} else {
			if p.others == nil {
				p.others = map[string]int{}
			}
			p.others[strings.Join(parts, "+")]++
		}
		if d.failed++; d.failed <= shown {
			var b strings.Builder
			for j, other := range d.peers {
				fmt.Fprintf(&b, "\n  %s %v", other.name, theirs[j])
			}
			d.t.Errorf("%v: %s differs from %s\n  quorate %v%s", q, strings.Join(parts, ", "), p.name, ours, b.String())
		}
	}
}

// classOf names the class of a difference, or "" when there is none.
func classOf(d difference) string {
	for _, c := range classes {
		if c.holds(d) {
			return c.name
		}
	}
	return ""
}

func (d *differential) fail(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed++; d.failed <= shown {
		d.t.Errorf(format, args...)
	}
}

// report adds the suite's lines and fails the test for what may not differ.
func (d *differential) report(zones int) {
	for _, p := range d.peers {
		documented, other := 0, 0
		for _, class := range slices.Sorted(maps.Keys(p.documented)) {
			d.t.Logf("%s: %s documented as %q", p.name, thousands(p.documented[class]), class)
			documented += p.documented[class]
		}
		for _, parts := range slices.Sorted(maps.Keys(p.others)) {
			d.t.Logf("%s: %s differ in %s", p.name, thousands(p.others[parts]), parts)
			other += p.others[parts]
		}
		summary.add("%s: %s zones, %s queries (%s over TCP), %d answer differences, %d other, %s documented", p.name, thousands(zones), thousands(d.asked), thousands(d.tcp), p.answers, other, thousands(documented))
		if p.answers+other > 0 {
			d.t.Errorf("%s: %d answers differ, and %d differ in something else", p.name, p.answers, other)
		}
	}
	if d.failed > shown {
		d.t.Errorf("%d differences in all", d.failed)
	}
	require.Equal(d.t, zones*perZone, d.asked, "every question was asked")
}

// exchange asks over UDP, and again over TCP what did not fit.
func exchange(ctx context.Context, server string, q question, id uint16) (s said, overTCP bool, err error) {
	reply, err := attempt(ctx, "udp", server, q, id)
	if err == nil && reply.Truncated {
		overTCP = true
		reply, err = attempt(ctx, "tcp", server, q, id)
	}
	if err != nil {
		return said{}, overTCP, err
	}
	return saidBy(reply), overTCP, nil
}

// attempt asks again where the answer is late: what is said is compared, not how fast.
func attempt(ctx context.Context, network, server string, q question, id uint16) (reply *dns.Msg, err error) {
	c := dns.Client{Net: network, Timeout: askTimeout, UDPSize: dns.MaxMsgSize}
	for range askAttempts {
		if reply, _, err = c.ExchangeContext(ctx, q.message(id), server); err == nil {
			return reply, nil
		}
	}
	return nil, fmt.Errorf("over %s: %w", network, err)
}

// serve answers the zones as a node does and returns where.
func serve(t *testing.T, zones []*zoneFile) string {
	t.Helper()
	sp := &statestore.Spec{Zones: map[string]*statestore.Zone{}}
	for _, z := range zones {
		sp.Zones[z.name] = z.spec(t)
	}
	require.NoError(t, routing.CheckSpec(sp), "what is generated must be acceptable to plan")
	table, err := routing.Compile(&statestore.State{
		Generation: 1, Index: 1, TableIndex: 1, Revision: 1, Spec: sp,
		Services:  map[string]*statestore.ServiceState{},
		Clusters:  map[string]*statestore.ClusterState{},
		Observers: map[health.ObserverID]*statestore.Observer{},
	})
	require.NoError(t, err)
	s := dnsserver.New(dnsserver.Config{Listen: []string{"127.0.0.1:0"}, Table: func() *routing.Table { return table }})
	require.NoError(t, s.Bind())
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx) // it is bound already
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return s.Addrs()[0].String()
}

// spec is the zone as a spec has it: its records are read as those of a zone_file.
func (z *zoneFile) spec(t *testing.T) *statestore.Zone {
	t.Helper()
	seconds := func(n uint32) statestore.Duration { return statestore.Duration(time.Duration(n) * time.Second) }
	out := &statestore.Zone{
		NS: z.ns, NSTTL: seconds(z.ttl),
		SOA: statestore.SOA{MName: z.soa.mname, RName: z.soa.rname, Refresh: seconds(z.soa.refresh), Retry: seconds(z.soa.retry), Expire: seconds(z.soa.expire), NegativeTTL: seconds(z.soa.minimum)},
	}
	out.Records, out.TTLs = map[string]map[string][]string{}, map[string]map[string]uint32{}
	read := records.ReadFile(z.name, z.master(z.accepted()))
	require.Empty(t, read.Errors, "%s", z.name)
	for _, r := range read.Records {
		if out.Records[r.Owner] == nil {
			out.Records[r.Owner], out.TTLs[r.Owner] = map[string][]string{}, map[string]uint32{}
		}
		out.Records[r.Owner][r.Type] = append(out.Records[r.Owner][r.Type], r.Data)
		out.TTLs[r.Owner][r.Type] = r.TTL
	}
	return out
}
