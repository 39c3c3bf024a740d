package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/dev/tour"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// playTour plays the tour on a demo of its own and returns what it told.
func playTour(t *testing.T, stage func(*tour.Config), asJSON bool) (told string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays a whole demo")
	}
	var out, talk bytes.Buffer
	err = Run(t.Context(), Config{
		Nodes: scenarioNodes, Version: "test", Out: &out, Err: &talk, JSON: asJSON, Scenario: "tour", stage: stage,
	})
	if t.Failed() || err != nil {
		t.Logf("%s%s", out.String(), talk.String())
	}
	return out.String(), err
}

func TestTheTourGoesAsTold(t *testing.T) {
	told, err := playTour(t, nil, false)
	require.NoError(t, err)
	require.NotContains(t, told, "FAILED")
	require.Contains(t, told, "Every step went as told")
	require.Contains(t, told, "ok      no wrong and no empty answer, from any node, at any time")
	require.Contains(t, told, "ok      never two databases that take writes")
}

// A node that answers with a side nobody has moved to: the step says so, and the
// process ends with 1.
func TestAPlantedFailureFailsTheTour(t *testing.T) {
	var planted atomic.Bool
	told, err := playTour(t, func(c *tour.Config) {
		order := c.Order
		c.Order = func(ctx context.Context, verb string, args ...string) (string, error) {
			planted.Store(true)
			return order(ctx, verb, args...)
		}
		c.Query = func(ctx context.Context, server, name string) (*dnsclient.Reply, error) {
			reply, err := dnsclient.Query(ctx, server, name, "A", dnsclient.Options{})
			if err == nil && planted.Load() && strings.HasPrefix(name, ordersName) {
				reply.Addresses = []netip.Addr{c.Clusters["us"]}
			}
			return reply, err
		}
	}, true)
	require.ErrorIs(t, err, tour.ErrFailed)
	require.Equal(t, client.ExitFailure, client.ExitCode(err))
	lines := strings.Split(strings.TrimSpace(told), "\n")
	var last struct {
		Step  string
		OK    bool
		Error string
	}
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.False(t, last.OK)
	require.Contains(t, last.Error, "answers orders-db with us, not with eu")
}

func TestAScenarioMustExistAndHaveItsNodes(t *testing.T) {
	for want, cfg := range map[string]Config{
		`--scenario must be one of tour, is "toor"`:  {Nodes: 3, Scenario: "toor"},
		"--scenario tour plays with --nodes 3, is 1": {Nodes: 1, Scenario: "tour"},
	} {
		err := Run(t.Context(), cfg)
		require.True(t, errors.Is(err, ErrUsage), "%v", err)
		require.ErrorContains(t, err, want)
	}
}

func TestLagTakesSecondsFrozenOrOK(t *testing.T) {
	d := &Demo{clusters: placeClusters(sites[:3])}
	require.NoError(t, d.openData())
	t.Cleanup(func() {
		for _, c := range d.clusters {
			c.down()
		}
	})
	for _, args := range [][]string{{ordersName, "2.5"}, {ordersName, "frozen"}, {ordersName, "ok"}} {
		said, err := d.lag(args)
		require.NoError(t, err)
		require.Contains(t, said, "quorate reads no lag in this version")
	}
	for _, args := range [][]string{nil, {ordersName}, {"web", "1"}, {ordersName, "-1"}, {ordersName, "NaN"}, {ordersName, "1e9"}, {ordersName, "soon"}} {
		_, err := d.lag(args)
		require.ErrorIs(t, err, ErrUsage, "%q", args)
	}
}
