package probe

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func target(service, cluster, addr string) health.Target {
	return health.Target{Service: service, Cluster: cluster, Endpoint: netip.MustParseAddr(addr)}
}

func httpsCheck(name string) Check {
	return Check{
		Name: name, Interval: 5 * time.Second, Timeout: time.Second, Fall: 3, Rise: 2, Recheck: time.Second,
		HTTPS: &HTTPCheck{Port: 443, Host: "{service}.{zone}", Headers: map[string]string{"X-A": "1", "X-B": "2"}, TLS: &TLSCheck{Verify: true}},
	}
}

func TestIdenticalProbesAreMadeOnceAndKeepTheirNames(t *testing.T) {
	front := tcpCheck("ingress", 443)
	web := target("web", "eu", "192.0.2.10")
	shop := target("shop", "eu", "192.0.2.10")
	door := target("", "eu", "192.0.2.10")
	other := tcpCheck("other-name", 443)
	other.StaleAfter = time.Hour
	plan := BuildPlan([]TargetChecks{
		{Target: web, All: []Check{httpsCheck("h").Expand("web", "gslb.example.com."), front}},
		{Target: shop, All: []Check{httpsCheck("h").Expand("shop", "gslb.example.com."), other}},
		{Target: door, All: []Check{front}},
	})
	require.Len(t, plan.Probes, 3, "two hosts differ, the front door is shared")
	i := slices.IndexFunc(plan.Probes, func(p Probe) bool { return p.Check.TCP != nil })
	require.Equal(t, []Name{{door, "ingress"}, {shop, "other-name"}, {web, "ingress"}}, plan.Probes[i].Names)
	require.Equal(t, []health.Target{door, shop, web}, []health.Target{plan.Targets[0].Target, plan.Targets[1].Target, plan.Targets[2].Target})
	require.Equal(t, time.Hour, plan.Targets[1].All[1].StaleAfter)
	require.Equal(t, 30*time.Second, plan.Targets[2].All[1].StaleAfter, "three intervals by default")
}

func TestPlanDoesNotDependOnTheOrderOfTargets(t *testing.T) {
	in := []TargetChecks{
		{Target: target("a", "eu", "192.0.2.1"), All: []Check{tcpCheck("x", 1), httpsCheck("h")}},
		{Target: target("b", "us", "2001:db8::1"), Any: []Check{tcpCheck("x", 1)}},
		{Target: target("c", "eu", "192.0.2.1"), All: []Check{tcpCheck("x", 1)}},
	}
	want := BuildPlan(in)
	slices.Reverse(in)
	require.Equal(t, want, BuildPlan(in))
}

func TestWhatMakesAProbeAnotherOne(t *testing.T) {
	base := httpsCheck("h")
	addr := netip.MustParseAddr("192.0.2.1")
	change := func(f func(*Check)) Check {
		c := httpsCheck("h")
		f(&c)
		return c
	}
	tests := []struct {
		name string
		c    Check
		same bool
	}{
		{"another name", change(func(c *Check) { c.Name = "x" }), true},
		{"another stale_after", change(func(c *Check) { c.StaleAfter = time.Hour }), true},
		{"another interval", change(func(c *Check) { c.Interval++ }), false},
		{"another timeout", change(func(c *Check) { c.Timeout++ }), false},
		{"another fall", change(func(c *Check) { c.Fall++ }), false},
		{"another host", change(func(c *Check) { c.HTTPS.Host = "x" }), false},
		{"another header", change(func(c *Check) { c.HTTPS.Headers["X-A"] = "2" }), false},
		{"http, not https", change(func(c *Check) { c.HTTP, c.HTTPS = c.HTTPS, nil }), false},
		{"without verification", change(func(c *Check) { c.HTTPS.TLS.Verify = false }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.same, probeID(base, addr) == probeID(tt.c, addr))
		})
	}
	require.NotEqual(t, probeID(base, addr), probeID(base, addr.Next()))
}

func TestExpandReplacesServiceAndZone(t *testing.T) {
	c := httpsCheck("h")
	c.HTTPS.TLS.ServerName = "sni-{service}.{zone}"
	e := c.Expand("web", "gslb.example.com.")
	require.Equal(t, "web.gslb.example.com", e.HTTPS.Host)
	require.Equal(t, "sni-web.gslb.example.com", e.HTTPS.TLS.ServerName)
	require.Equal(t, "{service}.{zone}", c.HTTPS.Host, "the original is untouched")
}

func TestCombine(t *testing.T) {
	up, down, unknown := opinion{health.Up, "ok"}, opinion{health.Down, "refused"}, opinion{health.Unknown, "stale"}
	tests := []struct {
		name string
		all  []opinion
		any  []opinion
		want health.Side
	}{
		{"no checks say nothing", nil, nil, health.Unknown},
		{"all up", []opinion{up, up}, nil, health.Up},
		{"one of all down", []opinion{up, down}, nil, health.Down},
		{"down beats unknown", []opinion{unknown, down}, nil, health.Down},
		{"one of all unknown", []opinion{up, unknown}, nil, health.Unknown},
		{"one any up is enough", nil, []opinion{down, up}, health.Up},
		{"one any up is enough beside unknown", nil, []opinion{unknown, up}, health.Up},
		{"every any down", nil, []opinion{down, down}, health.Down},
		{"any down and unknown", nil, []opinion{down, unknown}, health.Unknown},
		{"all up, every any down", []opinion{up}, []opinion{down}, health.Down},
		{"all unknown, every any down", []opinion{unknown}, []opinion{down}, health.Down},
		{"all unknown, any up", []opinion{unknown}, []opinion{up}, health.Unknown},
		{"all down, any up", []opinion{down}, []opinion{up}, health.Down},
		{"all up, any unknown", []opinion{up}, []opinion{unknown}, health.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, combine(tt.all, tt.any).side)
		})
	}
}

func TestHysteresis(t *testing.T) {
	tests := []struct {
		name  string
		start health.Side
		runs  string // + good, - bad
		want  health.Side
	}{
		{"one good result decides nothing", health.Unknown, "+", health.Unknown},
		{"rise good results turn it up", health.Unknown, "++", health.Up},
		{"fall bad results turn it down", health.Unknown, "---", health.Down},
		{"alternating results decide nothing", health.Unknown, "+-+-+-", health.Unknown},
		{"fewer than fall change nothing", health.Up, "--", health.Up},
		{"a good result ends the run", health.Up, "--+--", health.Up},
		{"fall in a row turn it down", health.Up, "--+---", health.Down},
		{"fewer than rise change nothing", health.Down, "+-+", health.Down},
		{"rise in a row turn it up", health.Down, "+-++", health.Up},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := hysteresis{fall: 3, rise: 2, side: tt.start, sure: tt.start != health.Unknown}
			for _, r := range tt.runs {
				if side := h.add(r == '+', ReasonOther, time.Now()); side != health.Unknown {
					h.turn(side)
				}
			}
			side, _ := h.opinion()
			require.Equal(t, tt.want, side)
		})
	}
}
