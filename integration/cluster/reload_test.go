//go:build integration

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/stretchr/testify/require"

	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

const (
	bigZone  = "big.test"
	bigNames = 10000
	// bigAsk is how often a second each node is asked a name of it.
	bigAsk = 100

	// flappers services have two endpoints each, which turn every flapEvery: 320 times a
	// second in all. A busy machine's probes miss some: where nothing is idle two cores
	// reach half of it, and they are what limits it. Fewer than flapLeast verdicts a
	// second would prove nothing.
	flappers  = 40
	flapEvery = 250 * time.Millisecond
	flapLeast = 100

	// patience is how long a command may take that the nodes do beside all this.
	patience = time.Minute
)

// bigZoneFile is a master file of bigNames names, whose addresses tell its version.
func bigZoneFile(version int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ORIGIN %s.\n$TTL 60\n", bigZone)
	for i := range bigNames {
		fmt.Fprintf(&b, "n%d A %s\n", i, bigAddr(i, version))
	}
	return b.String()
}

func bigAddr(i, version int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18 + byte(i>>8&1), byte(version), byte(i)})
}

// reloadSpec is spec with all that is reloaded, and services whose verdicts turn.
func reloadSpec(zoneFile string) string {
	var more strings.Builder
	for i := range flappers {
		fmt.Fprintf(&more, "  f%[1]d: { zone: %[3]s, clusters: { only: [fa, fb] }, policy: { type: weighted },"+
			" check: { interval: 100ms, timeout: 100ms, fall: 1, rise: 1, recheck: 100ms, http: { port: %[2]d, path: /flap/%[1]d, reuse: true } } }\n", i, sitePort, zone)
	}
	return fmt.Sprintf(`version: 1
defaults:
  ttl: { normal: 5s, changing: 1s }
  check: { interval: 1s, timeout: 500ms, fall: 3, rise: 2, recheck: 200ms }
safety: { max_automatic_changes: { causes: 1000 } }
zones:
  %[1]s: {}
  %[2]s:
    zone_file: %[3]s
regions:
  eu-west: { countries: [DE] }
  us-east: { countries: [US] }
  ap-south: { countries: [IN] }
clusters:
  eu: { region: eu-west, ipv4: [10.77.0.21] }
  us: { region: us-east, ipv4: [10.77.0.22] }
  ap: { region: ap-south, ipv4: [10.77.0.23] }
  fa: { region: eu-west, ipv4: [10.77.0.51] }
  fb: { region: us-east, ipv4: [10.77.0.52] }
services:
  web:
    zone: %[1]s
    clusters: { only: [eu, us, ap] }
    policy: { type: weighted }
    check: { http: { port: %[4]d, path: /healthz } }
  spare:
    zone: %[1]s
    clusters: { only: [eu, us, ap] }
    policy: { type: weighted }
    check: { http: { port: %[4]d, path: /healthz } }
  near:
    zone: %[1]s
    clusters: { only: [eu, us] }
    policy: { type: geo, map: { eu-west: [EU], us-east: [NA], default: nearest } }
    check: { http: { port: %[4]d, path: /healthz } }
%[5]s`, zone, bigZone, zoneFile, sitePort, more.String())
}

// geoClient is a network that the GeoIP file places.
var geoClient = netip.MustParsePrefix("198.51.100.0/24")

// writeGeo puts a GeoIP file at path that places geoClient in a country.
func writeGeo(t *testing.T, path, country string) {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-City", IncludeReservedNetworks: true})
	require.NoError(t, err)
	_, network, err := net.ParseCIDR(geoClient.String())
	require.NoError(t, err)
	require.NoError(t, w.Insert(network, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country)}}))
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", b.Bytes(), 0o644))
	require.NoError(t, os.Rename(path+".new", path))
}

// bigWatch is what one node has answered of the big zone.
type bigWatch struct {
	node     string
	seen     int // newest version
	asked    int
	problems []string
}

// saw judges an answer for name i: it has one address, of a version that is no older
// than one that the node has answered before, and no newer than what was applied.
func (w *bigWatch) saw(i, newest int, addrs []netip.Addr, err error) {
	w.asked++
	if err != nil {
		w.problems = append(w.problems, fmt.Sprintf("%s: n%d: %v", w.node, i, err))
		return
	}
	for v := w.seen; v <= newest; v++ {
		if len(addrs) == 1 && addrs[0] == bigAddr(i, v) {
			w.seen = v
			return
		}
	}
	w.problems = append(w.problems, fmt.Sprintf("%s: n%d has %v, after version %d and of %d", w.node, i, addrs, w.seen, newest))
}

// ask asks a node for names of the big zone until ctx is done.
func (w *bigWatch) ask(ctx context.Context, in *installation, n *node, newest func() int) error {
	c, err := dialFrom(ctx, in.client, n.server())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was buffered
	rng := rand.New(rand.NewPCG(1, 2))
	for tick := time.NewTicker(time.Second / bigAsk); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		i := rng.IntN(bigNames)
		r, err := c.Query(context.Background(), fmt.Sprintf("n%d.%s", i, bigZone), "A", queryOnce)
		if err != nil {
			w.saw(i, newest(), nil, err)
			continue
		}
		w.saw(i, newest(), r.Addresses, nil)
	}
}

// flapping is a site whose paths are well and ill in turns, each with a phase of its
// own.
func flapping(t *testing.T, h *host) {
	t.Helper()
	var ln net.Listener
	require.NoError(t, h.inside(func() (err error) {
		ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", netip.AddrPortFrom(h.addr, sitePort).String())
		return err
	}))
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		phase := time.Duration(len(r.URL.Path)+int(r.URL.Path[len(r.URL.Path)-1])) * flapEvery / 10
		if time.Now().Add(phase).UnixNano()/int64(flapEvery)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

// turns is how many verdicts the log has about the flappers: a verdict's number is how
// often it turned. What a leader tells in its log is less, since it looks now and then.
func (in *installation) turns() int {
	in.t.Helper()
	count := 0
	for i := range flappers {
		eventually(in.t, patience, fmt.Sprintf("the verdicts of f%d", i), func(ctx context.Context) error {
			got, err := in.nodes[0].api.Services(ctx, fmt.Sprintf("f%d", i))
			if err != nil {
				return err
			}
			for _, target := range got.Items[0].Targets {
				count += int(target.Verdict.Number)
			}
			return nil
		})
	}
	return count
}

// A zone of 10,000 names, the GeoIP file and every certificate are replaced while
// hundreds of verdicts a second change: no query is lost, and no answer is wrong.
func TestReloadsLoseNothing(t *testing.T) {
	in := install(t, weighted)
	first := in.nodes[0]
	for i, name := range []string{"fa", "fb"} {
		flapping(t, in.addHost(name, fmt.Sprintf("10.77.0.%d", 51+i)))
	}
	dir := t.TempDir()
	zoneFile, specPath, geoPath := filepath.Join(dir, "big.zone"), filepath.Join(dir, "spec.yaml"), filepath.Join(dir, "city.mmdb")
	require.NoError(t, os.WriteFile(specPath, []byte(reloadSpec(zoneFile)), 0o644))
	var versions versionCounter
	apply := func() time.Duration {
		version := versions.next()
		require.NoError(t, os.WriteFile(zoneFile, []byte(bigZoneFile(version)), 0o644))
		begun := time.Now()
		in.persist(first, "apply", "-f", specPath, "--reason", fmt.Sprintf("zone version %d", version), "--force")
		return time.Since(begun)
	}
	apply()
	geo := func(country string) {
		writeGeo(t, geoPath, country)
		for _, n := range in.nodes {
			n.signal(syscall.SIGHUP)
		}
	}
	for _, n := range in.nodes {
		text, err := os.ReadFile(n.yaml)
		require.NoError(t, err)
		changed := strings.Replace(string(text), "dns: { ", fmt.Sprintf("dns: { geoip: { database: %s, reload: 1h }, ", geoPath), 1)
		require.NoError(t, os.WriteFile(n.yaml, []byte(changed), 0o644))
	}
	geo("DE")
	for _, n := range in.nodes {
		in.answered(n, "near", geoClient, "eu")
		eventually(t, settle, n.name+" has the zone", func(ctx context.Context) error { return in.hasVersion(ctx, n, versions.now()) })
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watches []*bigWatch
	ended := make(chan error, len(in.nodes))
	for _, n := range in.nodes {
		w := &bigWatch{node: n.name, seen: versions.now()}
		watches = append(watches, w)
		go func() { ended <- w.ask(ctx, in, n, versions.now) }()
	}
	begun, turned := time.Now(), in.turns()
	old, err := first.api.CA(t.Context())
	require.NoError(t, err)
	var slowest time.Duration
	for round := range 3 {
		slowest = max(slowest, apply())
		geo([]string{"US", "DE"}[round%2])
		if round == 1 {
			in.persist(in.nodes[1], "ca", "roll")
		}
		pause(t, 2*time.Second)
	}
	geo("US")
	for _, n := range in.nodes {
		in.answered(n, "near", geoClient, "us")
		eventually(t, settle, n.name+" has the last zone", func(ctx context.Context) error { return in.hasVersion(ctx, n, versions.now()) })
		eventually(t, settle, n.name+" has another certificate", func(ctx context.Context) error {
			now, err := n.api.CA(ctx)
			if err == nil && (len(now.Items) != 1 || now.Items[0].Fingerprint == old.Items[0].Fingerprint) {
				err = fmt.Errorf("authorities %+v", now.Items)
			}
			return err
		})
	}
	took := time.Since(begun)
	rate := float64(in.turns()-turned) / took.Seconds()
	stop()
	var problems []string
	asked := 0
	for range in.nodes {
		require.NoError(t, <-ended)
	}
	for _, w := range watches {
		asked += w.asked
		problems = append(problems, w.problems...)
		require.Greater(t, float64(w.asked), took.Seconds()*bigAsk/2, "%s was hardly asked", w.node)
	}
	fmt.Printf("MEASURED %-38s in %s: %.0f verdicts a second, %d versions of %d names (slowest apply %s), %d of their answers\n",
		t.Name(), took.Round(time.Second), rate, versions.now(), bigNames, slowest.Round(time.Millisecond), asked)
	require.Empty(t, problems[:min(len(problems), 5)], "%d problems", len(problems))
	require.Greater(t, rate, float64(flapLeast), "verdicts that changed a second")
}

// persist repeats a command until it works: a busy machine may be between leaders.
func (in *installation) persist(n *node, args ...string) {
	in.t.Helper()
	eventually(in.t, patience, strings.Join(args, " "), func(context.Context) error {
		stdout, stderr, code := n.cli(args...)
		if code != 0 {
			return fmt.Errorf("exit %d: %s%s", code, stdout, stderr)
		}
		return nil
	})
}

// hasVersion checks that a node answers a version of the big zone.
func (in *installation) hasVersion(ctx context.Context, n *node, version int) error {
	c, err := dialFrom(ctx, in.client, n.server())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was buffered
	r, err := c.Query(ctx, "n1."+bigZone, "A", queryOnce)
	if err == nil && (len(r.Addresses) != 1 || r.Addresses[0] != bigAddr(1, version)) {
		err = fmt.Errorf("%s answers %v", n.name, r.Addresses)
	}
	return err
}

// What a reload must not do is planted, and must be found.
func TestTheReloadCheckFindsPlantedAnswers(t *testing.T) {
	tests := []struct {
		name  string
		addrs []netip.Addr
		err   error
		want  string
	}{
		{"the same version", []netip.Addr{bigAddr(300, 3)}, nil, ""},
		{"a newer version", []netip.Addr{bigAddr(300, 4)}, nil, ""},
		{"an older version", []netip.Addr{bigAddr(300, 2)}, nil, "after version 3"},
		{"a version that is none", []netip.Addr{bigAddr(300, 5)}, nil, "and of 4"},
		{"another name's address", []netip.Addr{bigAddr(301, 3)}, nil, "n300 has"},
		{"nothing", nil, nil, "n300 has []"},
		{"two of them", []netip.Addr{bigAddr(300, 3), bigAddr(300, 4)}, nil, "n300 has"},
		{"no answer", nil, context.DeadlineExceeded, "deadline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &bigWatch{node: "eu-1", seen: 3}
			w.saw(300, 4, tt.addrs, tt.err)
			if tt.want == "" {
				require.Empty(t, w.problems)
				return
			}
			require.Len(t, w.problems, 1)
			require.Contains(t, w.problems[0], tt.want)
		})
	}
}

// queryOnce asks once and waits as long as for any other answer.
var queryOnce = dnsclient.Options{Timeout: queryTimeout}

// versionCounter numbers the versions of the big zone, before they are applied.
type versionCounter struct{ newest atomic.Int64 }

func (v *versionCounter) next() int { return int(v.newest.Add(1)) }
func (v *versionCounter) now() int  { return int(v.newest.Load()) }
