//go:build integration

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/client"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// subnets are client networks of which each counts as inside one site.
var subnets = map[string]netip.Prefix{
	"eu": netip.MustParsePrefix("198.18.1.0/24"),
	"us": netip.MustParsePrefix("198.18.2.0/24"),
	"ap": netip.MustParsePrefix("198.18.3.0/24"),
}

// placed is a spec whose services look at who asks, at a name and at capacities.
var placed = fmt.Sprintf(`version: 1
defaults:
  ttl: { normal: 5s, changing: 1s }
  check: { interval: 1s, timeout: 500ms, fall: 3, rise: 2, recheck: 200ms }
zones: { %s: {} }
regions:
  eu-west:  { coordinates: [53.35, -6.26] }
  us-east:  { coordinates: [38.95, -77.45] }
  ap-south: { coordinates: [19.08, 72.88] }
clusters:
  eu: { region: eu-west, ipv4: [10.77.0.21], cidrs: [%s], capacity: 100 }
  us:
    region: us-east
    ipv4: [10.77.0.22]
    cidrs: [%s]
    capacity: 100
    capacity_from: { http: { path: /capacity, port: %d, json: "$.available", max_age: 4s } }
  ap: { region: ap-south, ipv4: [10.77.0.23], cidrs: [%s], capacity: 100 }
  dr: { region: eu-west, hostname: %s, capacity: 100 }
services:
  web:
    clusters: { only: [eu, us, ap] }
    policy: { type: weighted, weights: { default: 1 } }
    check: { http: { port: %[4]d, path: /healthz } }
  spare:
    clusters: { only: [eu, us, ap] }
    policy: { type: weighted, weights: { default: 1 } }
    check: { http: { port: %[4]d, path: /healthz } }
  near:
    clusters: { only: [eu, us, ap] }
    policy: { type: geo, affinity: local }
    check: { http: { port: %[4]d, path: /healthz } }
  bulk:
    clusters: { only: [eu, us] }
    policy: { type: weighted }
    check: { http: { port: %[4]d, path: /healthz } }
  named:
    clusters: { only: [dr] }
    policy: { type: weighted, weights: { default: 1 } }
    check: { http: { port: %[4]d, path: /healthz } }
`, zone, subnets["eu"], subnets["us"], sitePort, subnets["ap"], hostname)

// place makes an installation that runs placed, with a resolver that says where dr is.
func place(t *testing.T) (*installation, *resolver) {
	t.Helper()
	in := install(t, weighted)
	names := newResolver(t, in.addHost("names", resolverAddr))
	names.say("10.77.0.41", "eu-1", "us-1", "ap-1")
	for i, name := range []string{"dr-a", "dr-b", "liar"} {
		s := &site{host: in.addHost(name, fmt.Sprintf("10.77.0.%d", 41+i)), t: t, name: name}
		s.up()
		t.Cleanup(s.down)
		in.sites[name] = s
	}
	in.sites["us"].capacity.Store(100)
	path := filepath.Join(t.TempDir(), "placed.yaml")
	require.NoError(t, os.WriteFile(path, []byte(placed), 0o644))
	in.nodes[0].must("apply", "-f", path, "--reason", "placement", "--force")
	for _, n := range in.nodes {
		in.answered(n, "named", netip.Prefix{}, "dr-a")
	}
	return in, names
}

// answered waits until n answers a client in subnet with the site's address.
func (in *installation) answered(n *node, service string, subnet netip.Prefix, site string) {
	in.t.Helper()
	eventually(in.t, settle, fmt.Sprintf("%s answers %s for %s with %s", n.name, service, subnet, site), func(ctx context.Context) error {
		return in.answers(ctx, n, service, subnet, site)
	})
}

// answers checks that n answers a client in subnet with the site's address alone.
// While who asks decides, it says that this holds for no more than the subnet; where
// one site is left, for everybody.
func (in *installation) answers(ctx context.Context, n *node, service string, subnet netip.Prefix, site string) error {
	c, err := dialFrom(ctx, in.client, n.server())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was buffered
	r, err := c.Query(ctx, service+"."+zone, "A", dnsclient.Options{Subnet: subnet, Timeout: queryTimeout})
	switch {
	case err != nil:
		return err
	case len(r.Addresses) != 1 || r.Addresses[0] != in.sites[site].addr:
		return fmt.Errorf("%s answers %v %s", n.name, r.Addresses, r.Rcode)
	case !subnet.IsValid():
		return nil
	case r.Scope == nil || *r.Scope != 0 && int(*r.Scope) != subnet.Bits():
		return fmt.Errorf("%s says that its answer holds for a /%v", n.name, r.Scope)
	}
	s, _, err := n.service(ctx, service)
	if err != nil {
		return err
	}
	serving := 0
	for _, sh := range s.V4 {
		if sh.Percent > 0 {
			serving++
		}
	}
	if alone := serving == 1; alone != (*r.Scope == 0) {
		return fmt.Errorf("%s has %d sites in rotation and says that its answer holds for a /%d", n.name, serving, *r.Scope)
	}
	return nil
}

// G2, G14: clients are answered with their own site, with the nearest one while
// that is out, and every node, explain included, says the same.
func TestClientsAreAnsweredWithTheirOwnSite(t *testing.T) {
	in, _ := place(t)
	for _, n := range in.nodes {
		for site, subnet := range subnets {
			in.answered(n, "near", subnet, site)
		}
	}
	in.nodes[0].must("explain", "near."+zone, "--ecs", subnets["eu"].String(), "--expect", "eu")
	in.nodes[0].must("explain", "near."+zone, "--ecs", subnets["eu"].String(), "--if", "eu=down", "--expect", "us")

	in.sites["eu"].down()
	for _, n := range in.nodes {
		in.answered(n, "near", subnets["eu"], "us") // Dublin is nearer to Virginia than to Mumbai
		in.answered(n, "near", subnets["us"], "us")
		in.answered(n, "near", subnets["ap"], "ap")
	}
	in.sites["eu"].up()
	for _, n := range in.nodes {
		in.answered(n, "near", subnets["eu"], "eu")
	}

	in.nodes[1].must("override", "near=ap", "--for", "1h", "--reason", "move everybody to ap")
	for _, n := range in.nodes {
		in.answered(n, "near", netip.MustParsePrefix("198.18.1.0/24"), "ap")
	}
	in.nodes[2].must("override", "clear", "near", "--reason", "and back")
	for _, n := range in.nodes {
		in.answered(n, "near", subnets["eu"], "eu")
	}
}

// G1, G5: a site known by its name moves when a majority of the regions is told
// another address; not when one is, and not when nobody is told anything.
func TestAHostnameMovesByMajority(t *testing.T) {
	in, names := place(t)
	names.say("10.77.0.43", "eu-1")
	stays(t, 4*time.Second, "one liar moves nothing", func(ctx context.Context) error { return in.everywhere(ctx, "named", "dr-a") })

	names.say("10.77.0.42", "eu-1", "us-1")
	for _, n := range in.nodes {
		in.answered(n, "named", netip.Prefix{}, "dr-b")
	}
	names.say("", "eu-1", "us-1", "ap-1")
	stays(t, 4*time.Second, "the last good addresses stay", func(ctx context.Context) error { return in.everywhere(ctx, "named", "dr-b") })

	in.kill(in.nodes...)
	for _, n := range in.nodes {
		in.restart(n)
	}
	for _, n := range in.nodes {
		in.answered(n, "named", netip.Prefix{}, "dr-b")
	}
	in.caughtUp(in.nodes...)
}

// everywhere checks that every node answers service with the site.
func (in *installation) everywhere(ctx context.Context, service, site string) error {
	for _, n := range in.nodes {
		if err := in.answers(ctx, n, service, netip.Prefix{}, site); err != nil {
			return err
		}
	}
	return nil
}

// A site that reports what it can take gets that share, and its declared one again
// once it reports nothing.
func TestASiteGetsTheShareItCanTake(t *testing.T) {
	in, _ := place(t)
	in.shares("bulk", map[string]float64{"eu": 50, "us": 50})
	in.sites["us"].capacity.Store(25)
	in.shares("bulk", map[string]float64{"eu": 80, "us": 20})
	in.sites["us"].capacity.Store(0)
	in.shares("bulk", map[string]float64{"eu": 100, "us": 0})
	in.sites["us"].capacity.Store(-1) // says nothing any more
	in.shares("bulk", map[string]float64{"eu": 50, "us": 50})
}

// shares waits until every node has committed these percents.
func (in *installation) shares(service string, want map[string]float64) {
	in.t.Helper()
	for _, n := range in.nodes {
		eventually(in.t, settle, fmt.Sprintf("%s: %s shared %v", n.name, service, want), func(ctx context.Context) error {
			s, _, err := n.service(ctx, service)
			if err != nil {
				return err
			}
			for _, sh := range s.V4 {
				if sh.Percent != want[sh.Cluster] {
					return fmt.Errorf("%s has %.0f", sh.Cluster, sh.Percent)
				}
			}
			return nil
		})
	}
}

// A person who asks why sees it, from any node.
func TestProbeShowsWhereItFails(t *testing.T) {
	in, _ := place(t)
	out := in.nodes[0].must("probe", "web", "eu", "--from", "us-1")
	require.Contains(t, out, "connect")
	require.Contains(t, out, "200")
	in.sites["eu"].down()
	stdout, stderr, code := in.nodes[0].cli("probe", "web", "eu", "--from", "us-1")
	require.NotEqual(t, client.ExitOK, code, stdout, stderr)
	require.Contains(t, stdout, "refused")
	in.moved(in.nodes, "us", "ap")
	in.sites["eu"].up()
	in.moved(in.nodes, "eu", "us", "ap")
}
