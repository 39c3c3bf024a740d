package node

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/dnsserver"
	"github.com/quorate/quorate/statestore"
)

// writeGeo writes a GeoIP file that has 198.51.100.0/24 in a country, built on a day
// of October 2026.
func writeGeo(t *testing.T, path, country string, day int) {
	t.Helper()
	built := time.Date(2026, 10, day, 0, 0, 0, 0, time.UTC)
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-City", BuildEpoch: built.Unix(), IncludeReservedNetworks: true})
	require.NoError(t, err)
	_, network, err := net.ParseCIDR("198.51.100.0/24")
	require.NoError(t, err)
	require.NoError(t, w.Insert(network, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(country)}}))
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	require.NoError(t, err)
	replace(t, path, b.Bytes())
}

// A key that a running node neither takes over nor refuses would be ignored.
func TestEveryKeyOfANodeFileIsTakenOverOrRefusedByName(t *testing.T) {
	taken := []string{
		"node.DNS.GeoIP.Database", "node.DNS.GeoIP.Reload", "node.Log.Level",
		"node.DNS.RateLimit", "node.DNS.RateLimit.PerSecond", "node.DNS.RateLimit.Slip", "node.DNS.RateLimit.Exempt", "node.DNS.RateLimit.Exempt[0]", "node.DNS.RateLimit.LogOnly",
	}
	without := []string{"node.Coordinates", "node.Secrets", "node.Unused"} // read by nobody, or when they are used
	var was, full config.Node
	fillNode(reflect.ValueOf(&was).Elem())
	fillNode(reflect.ValueOf(&full).Elem())
	changed := 0
	change(reflect.ValueOf(&full).Elem(), "node", func(path string) {
		if slices.ContainsFunc(without, func(p string) bool { return strings.HasPrefix(path, p) }) {
			return
		}
		changed++
		keys := needRestart(&was, &full)
		if slices.Contains(taken, path) {
			require.Empty(t, keys, "%s is taken over", path)
			return
		}
		require.Len(t, keys, 1, "%s is refused by name", path)
	})
	require.Greater(t, changed, 30)
}

// fillNode sets every field of node.yaml that can be told from nothing.
func fillNode(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.1")))
		return
	case reflect.TypeFor[netip.AddrPort]():
		v.Set(reflect.ValueOf(netip.MustParseAddrPort("192.0.2.1:53")))
		return
	case reflect.TypeFor[netip.Prefix]():
		v.Set(reflect.ValueOf(netip.MustParsePrefix("192.0.2.0/24")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillNode(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillNode(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillNode(v.Index(0))
	default:
		fill(v)
	}
}

func TestAReloadTakesOverWhatARunningNodeCan(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "ca")
	require.NoError(t, os.WriteFile(secret, []byte("PEM"), 0o600))
	var now config.Node
	source := "first"
	var fails error
	level := &slog.LevelVar{}
	n := &Node{
		cfg: &config.Node{Name: "eu-1", Log: config.NodeLog{Level: "info"}}, log: slog.New(slog.DiscardHandler), places: newPlaces(slog.New(slog.DiscardHandler)),
		view: newView(statestore.NewStore(), nil), dns: dnsserver.New(dnsserver.Config{}),
		opts: Options{Source: source, Level: level, Reload: func() (*config.Node, string, error) { return new(now), source, fails }},
	}
	n.secrets.Store(&n.cfg.Secrets)
	n.files = newFiles(n)
	_, err := n.secret("ca")
	require.ErrorIs(t, err, config.ErrNoSecret)

	geo := filepath.Join(dir, "city.mmdb")
	writeGeo(t, geo, "DE", 7)
	now = *n.cfg
	now.Log.Level, now.Secrets, now.DNS.GeoIP = "debug", config.Secrets{"ca": {File: secret}}, config.GeoIP{Database: geo, Reload: time.Hour}
	source = "second"
	read, err := n.Reload()
	require.NoError(t, err)
	require.Equal(t, []string{"node.yaml", geoFile}, read)
	require.Equal(t, slog.LevelDebug, level.Level())
	require.Equal(t, "second", n.nodeConfig())
	require.Equal(t, "2026-10-07", n.places.index.Load().Build())
	value, err := n.secret("ca")
	require.NoError(t, err)
	require.Equal(t, "PEM", string(value))

	before := now
	now.Name, now.DNS.Listen, now.DNS.GeoIP.Database, now.Secrets = "eu-2", []string{"192.0.2.1:53"}, "", nil
	_, err = n.Reload()
	require.ErrorContains(t, err, "node.name, dns.listen")
	require.NotEmpty(t, n.refused())
	require.Equal(t, "2026-10-07", n.places.index.Load().Build(), "refused whole")
	_, err = n.secret("ca")
	require.NoError(t, err)

	fails = errors.New("node.yaml:3:1: node.nane: must be a known key, is not")
	_, err = n.Reload()
	require.ErrorIs(t, err, fails)
	require.Equal(t, []string{fails.Error()}, n.refused())

	now, fails = before, nil
	now.DNS.GeoIP.Database = ""
	_, err = n.Reload()
	require.NoError(t, err)
	require.Nil(t, n.places.index.Load(), "no file, no places")
	require.Empty(t, n.refused())
}

// What a check needs and this node lacks is told as what a receiver needs is.
func TestTheSecretsThatANodeLacksAreNamed(t *testing.T) {
	check := &statestore.Check{HTTPS: &statestore.HTTPCheck{Port: 443, TLS: &statestore.TLSCheck{Verify: true, CA: "door-ca"}}}
	spec := &statestore.Spec{
		Clusters: map[string]*statestore.Cluster{"eu": {Check: check}},
		Notify:   statestore.Notify{Receivers: map[string]*statestore.Receiver{"bus": {Webhook: &statestore.Webhook{Sign: "bus-hmac"}}}},
	}
	n := &Node{view: newView(statestore.NewStore(), &statestore.State{Index: 1, Spec: spec})}
	n.secrets.Store(&config.Secrets{})
	require.Equal(t, []string{"secret bus-hmac: not in secrets of node.yaml", "secret door-ca: not in secrets of node.yaml"}, n.missingSecrets())
	t.Setenv("QUORATE_TEST_CA", "PEM")
	n.secrets.Store(&config.Secrets{"door-ca": {Env: "QUORATE_TEST_CA"}})
	require.Equal(t, []string{"secret bus-hmac: not in secrets of node.yaml"}, n.missingSecrets())
}
