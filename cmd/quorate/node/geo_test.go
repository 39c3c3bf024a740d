package node

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/routing/geo"
)

const geoSpec = `
version: 1
defaults: { quorum: { min_votes: 1 } }
zones: { gslb.example.com: {} }
regions:
  eu-west: { countries: [DE, FR] }
  us-east: { countries: [US] }
clusters:
  eu: { region: eu-west, ipv4: [192.0.2.10] }
  us: { region: us-east, ipv4: [192.0.2.20] }
services: { web: { policy: { type: geo, map: { eu-west: [EU], us-east: [NA], default: nearest } }, check: { tcp: { port: 443 } } } }
`

// answerFor is what DNS answers a client of a network with.
func answerFor(t *testing.T, n *Node, subnet string) string {
	t.Helper()
	r, err := dnsclient.Query(t.Context(), n.dns.Addrs()[0].String(), "web.gslb.example.com", "A", dnsclient.Options{Timeout: time.Second, Subnet: netip.MustParsePrefix(subnet)})
	if err != nil {
		return err.Error()
	}
	if len(r.Addresses) != 1 {
		return r.Rcode
	}
	return r.Addresses[0].String()
}

func TestANewGeoIPFileIsTakenWithoutALostQueryAndABrokenOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "city.mmdb")
	writeGeo(t, path, "DE", 7)
	n := onLoopback(t, geoSpec, func(cfg *config.Node) { cfg.DNS.GeoIP = config.GeoIP{Database: path, Reload: time.Hour} })
	const client, eu, us = "198.51.100.0/24", "192.0.2.10", "192.0.2.20"
	member := func() string { return n.Store().State().Members["eu-1"].Geo }
	require.Eventually(t, func() bool { return answerFor(t, n, client) == eu }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return member() == "2026-10-07" }, 10*time.Second, 10*time.Millisecond, "others see which file this node has")

	stop, wrong := make(chan struct{}), make(chan string, 1)
	asked := make(chan int, 1)
	go func() {
		for queries := 0; ; queries++ {
			select {
			case <-stop:
				asked <- queries
				return
			default:
			}
			if got := answerFor(t, n, client); got != eu && got != us {
				select {
				case wrong <- got:
				default:
				}
			}
		}
	}()
	for day := 8; day < 16; day++ {
		country, want := "US", us
		if day%2 == 1 {
			country, want = "FR", eu
		}
		writeGeo(t, path, country, day)
		read, err := n.Reload()
		require.NoError(t, err)
		require.Contains(t, read, geoFile)
		require.Eventually(t, func() bool { return answerFor(t, n, client) == want }, 10*time.Second, time.Millisecond)
	}
	close(stop)
	require.Greater(t, <-asked, 10)
	select {
	case got := <-wrong:
		t.Fatalf("a query was answered with %s while the file was replaced", got)
	default:
	}
	require.Eventually(t, func() bool { return member() == "2026-10-15" }, 10*time.Second, 10*time.Millisecond)
	require.Empty(t, n.refused())

	replace(t, path, []byte("half a databa"))
	_, err := n.Reload()
	require.ErrorContains(t, err, path)
	require.Equal(t, eu, answerFor(t, n, client), "the old one stays")
	require.Equal(t, "2026-10-15", member())
	require.Len(t, n.refused(), 1)
	require.Contains(t, n.refused()[0], geoFile)
	require.Equal(t, 0.0, gauge(t, n, "quorate_config_last_reload_successful"))
	require.EqualValues(t, time.Date(2026, 10, 15, 0, 0, 0, 0, time.UTC).Unix(), gauge(t, n, "quorate_geoip_build_timestamp_seconds"))

	writeGeo(t, path, "US", 16)
	n.files.follow()
	require.Eventually(t, func() bool { return answerFor(t, n, client) == us }, 10*time.Second, time.Millisecond, "a file that was refused is waited for")
	require.Empty(t, n.refused())
	require.Equal(t, 1.0, gauge(t, n, "quorate_config_last_reload_successful"))
}

// gauge is a value without labels that the node exposes.
func gauge(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	families, err := n.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			require.Len(t, f.GetMetric(), 1)
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("%s is not exposed", name)
	return 0
}

func TestABrokenGeoIPFileKeepsNoNodeFromStarting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "city.mmdb")
	require.NoError(t, os.WriteFile(path, []byte("no database"), 0o600))
	n := onLoopback(t, geoSpec, func(cfg *config.Node) { cfg.DNS.GeoIP = config.GeoIP{Database: path, Reload: time.Hour} })
	require.Eventually(t, func() bool {
		got := answerFor(t, n, "198.51.100.0/24")
		return got == "192.0.2.10" || got == "192.0.2.20"
	}, 10*time.Second, 10*time.Millisecond)
	require.Empty(t, n.Store().State().Members["eu-1"].Geo)
	require.Contains(t, n.refused()[0], path)
	require.Equal(t, 0.0, gauge(t, n, "quorate_config_last_reload_successful"))
}

func TestANodeWithoutFilesExposesNoReload(t *testing.T) {
	n := onLoopback(t, geoSpec)
	problems, err := testutil.GatherAndLint(n.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := n.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.NotContains(t, []string{
			"quorate_config_last_reload_successful", "quorate_config_last_reload_success_timestamp_seconds", "quorate_geoip_build_timestamp_seconds",
		}, f.GetName())
	}
	_, err = n.Reload()
	require.NoError(t, err)
	require.Equal(t, 1.0, gauge(t, n, "quorate_config_last_reload_successful"))
}

// Another GeoIP file is no other state: the index stays, the table is another.
func TestAnotherGeoIPFileIsPublishedAtTheSameIndex(t *testing.T) {
	p := testPublisher(&disk{})
	p.places = newPlaces(slog.New(slog.DiscardHandler))
	st := ownedAt(10, active("eu", 12))
	require.NoError(t, p.publish(st))
	first := p.table.Load()
	require.NoError(t, p.publish(st))
	require.Same(t, first, p.table.Load(), "nothing changed")
	x, err := geo.New(nil, "2026-10-07")
	require.NoError(t, err)
	p.places.index.Store(x)
	require.NoError(t, p.publish(ownedAt(9, active("eu", 12))))
	require.Same(t, first, p.table.Load(), "never an older table")
	require.NoError(t, p.publish(st))
	require.NotSame(t, first, p.table.Load())
	require.Equal(t, first.Index, p.table.Load().Index)
	require.Equal(t, "eu", answers(p, "db"))
}

func TestAnotherGeoIPFileIsPublishedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := testPublisher(&disk{}), &feed{st: ownedAt(10, active("eu", 12)), changed: make(chan struct{})}
		p.places = newPlaces(slog.New(slog.DiscardHandler))
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		wg.Go(func() { p.run(ctx, f) })
		synctest.Wait()
		first := p.table.Load()
		path := filepath.Join(t.TempDir(), "city.mmdb")
		writeGeo(t, path, "DE", 7)
		require.NoError(t, p.places.read(path))
		synctest.Wait()
		require.NotSame(t, first, p.table.Load(), "no entry has to come first")
	})
}
