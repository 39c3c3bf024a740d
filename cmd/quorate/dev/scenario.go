package dev

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/cmd/quorate/dev/tour"
	"github.com/quorate/quorate/cmd/quorate/dev/watch"
)

// scenarioNodes is how many nodes the scenarios are written for.
const scenarioNodes = 3

// scenarios are the stories that the demo can play, by name.
var scenarios = map[string]func(context.Context, tour.Config) error{
	"tour": tour.Play,
}

// checkScenario refuses a scenario that does not exist, or another demo than it is
// written for.
func (c Config) checkScenario() error {
	if c.Scenario == "" {
		return nil
	}
	if scenarios[c.Scenario] == nil {
		return fmt.Errorf("%w: --scenario must be one of %s, is %q", ErrUsage, strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "), c.Scenario)
	}
	if c.Nodes != scenarioNodes {
		return fmt.Errorf("%w: --scenario %s plays with --nodes %d, is %d", ErrUsage, c.Scenario, scenarioNodes, c.Nodes)
	}
	return nil
}

// watchRate is how often a scenario asks each node for each name, a second.
const watchRate = 50

// play plays the scenario on the running demo.
func (d *Demo) play(ctx context.Context) error {
	cfg := tour.Config{
		Watch: watch.SessionConfig{
			Zone: Zone, Stateless: webName, Stateful: ordersName,
			DNS: map[string]string{}, APIs: map[string]string{},
			Databases: d.databases(), Token: d.users[0].token, Rate: watchRate,
		},
		Users: map[string]string{}, Clusters: map[string]netip.Addr{},
		Order: func(ctx context.Context, verb string, args ...string) (string, error) {
			return d.carryOut(ctx, Order{Verb: verb, Args: args})
		},
		Out: d.cfg.Out, JSON: d.cfg.JSON,
	}
	for _, n := range d.nodes {
		cfg.Watch.DNS[n.name], cfg.Watch.APIs[n.name] = n.dnsAddr(), n.apiURL()
	}
	for _, u := range d.users {
		cfg.Users[u.name] = u.token
	}
	for _, c := range d.clusters {
		cfg.Clusters[c.name] = c.addr
	}
	if d.cfg.stage != nil {
		d.cfg.stage(&cfg)
	}
	return scenarios[d.cfg.Scenario](ctx, cfg)
}
