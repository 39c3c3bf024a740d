package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/probe"
)

// steady is checks at an interval for a while.
type steady struct {
	Checks   int
	Interval time.Duration
	For      time.Duration
}

func (s steady) rate() float64 { return float64(s.Checks) / s.Interval.Seconds() }

// cost is what one prober needed.
type cost struct {
	probes   int
	perProbe time.Duration
	rss      int64
}

// maxLate is how late the 99th of 100 starts may be. Everything shares two cores
// with the server, so it is far from what a start costs.
const maxLate = 250 * time.Millisecond

// measureSteady measures the prober and the exporter in turn against one server.
func measureSteady(ctx context.Context, o options, s steady, t *table) error {
	target, err := startChild(ctx, "target")
	if err != nil {
		return err
	}
	defer target.stop()
	exporter, err := startExporter(ctx, o.blackbox)
	if err != nil {
		return err
	}
	if exporter != nil {
		defer exporter.stop()
	}
	var ours, theirs []cost
	var worst targetReport
	for round := range o.rounds {
		if round > 0 {
			o.profile = ""
		}
		c, seen, err := s.prober(ctx, target, o.profile)
		if err != nil {
			return err
		}
		ours = append(ours, c)
		worst.Silent, worst.Missed = worst.Silent+seen.Silent, worst.Missed+seen.Missed
		worst.LateP50, worst.LateP99 = max(worst.LateP50, seen.LateP50), max(worst.LateP99, seen.LateP99)
		worst.LateMax = max(worst.LateMax, seen.LateMax)
		if exporter == nil {
			continue
		}
		if c, err = s.exporter(ctx, target, exporter); err != nil {
			return err
		}
		theirs = append(theirs, c)
	}
	our := median(ours)
	t.add(fmt.Sprintf("%d http checks at %v: probes made", s.Checks, s.Interval), fmt.Sprint(our.probes), "", true)
	t.add("checks that never ran", fmt.Sprint(worst.Silent), "0", worst.Silent == 0)
	t.add("starts missed", fmt.Sprint(worst.Missed), "0", worst.Missed == 0)
	t.add("lateness p50 / p99 / max", fmt.Sprintf("%v / %v / %v", worst.LateP50.Round(10*time.Microsecond), worst.LateP99.Round(10*time.Microsecond), worst.LateMax.Round(time.Millisecond)),
		fmt.Sprintf("p99 <= %v", maxLate), worst.LateP99 <= maxLate)
	t.add("CPU a probe, quorate", micros(our.perProbe), "", true)
	t.add("RSS, quorate", mib(our.rss), "", true)
	if exporter == nil {
		t.add("CPU a probe, blackbox_exporter", "left out: "+o.blackbox+" is not installed", "", true)
		return nil
	}
	their := median(theirs)
	t.add(fmt.Sprintf("CPU a probe, blackbox_exporter (%d probes)", their.probes), micros(their.perProbe), "", true)
	t.add("RSS, blackbox_exporter", mib(their.rss), "", true)
	ratio := float64(our.perProbe) / float64(their.perProbe)
	t.add("CPU a probe, quorate to blackbox_exporter", fmt.Sprintf("%.2f", ratio), "<= 0.33", ratio <= 1.0/3)
	return nil
}

func median(c []cost) cost {
	slices.SortFunc(c, func(a, b cost) int { return int(a.perProbe - b.perProbe) })
	return c[len(c)/2]
}

// prober measures a prober of ours.
func (s steady) prober(ctx context.Context, target *child, profile string) (cost, targetReport, error) {
	var seen targetReport
	if err := target.order(targetOrder{Do: "start", Checks: s.Checks, Interval: s.Interval}, &seen); err != nil {
		return cost{}, seen, err
	}
	p, err := startChild(ctx, "prober")
	if err != nil {
		return cost{}, seen, err
	}
	defer p.stop()
	var is proberReport
	order := proberOrder{Do: "start", Port: seen.Port, Checks: s.Checks, Profile: profile, Check: probe.Check{
		Interval: s.Interval, Timeout: 3 * time.Second, Fall: 3, Rise: 1,
	}}
	if err := p.order(order, &is); err != nil {
		return cost{}, seen, err
	}
	// What it costs to take up the plan and to see everything once is not the
	// steady state.
	if err := pause(ctx, s.Interval+time.Second); err != nil {
		return cost{}, seen, err
	}
	if err := target.order(targetOrder{Do: "start", Checks: s.Checks, Interval: s.Interval}, &seen); err != nil {
		return cost{}, seen, err
	}
	c, err := measureCPU(ctx, p.cmd.Process.Pid, s.For)
	if err != nil {
		return cost{}, seen, err
	}
	if err := target.order(targetOrder{Do: "report"}, &seen); err != nil {
		return cost{}, seen, err
	}
	if err := p.order(proberOrder{Do: "report"}, &is); err != nil {
		return cost{}, seen, err
	}
	if is.Up != s.Checks {
		return cost{}, seen, fmt.Errorf("%d of %d targets are up, so the figures are of a machine that is too busy: %+v", is.Up, s.Checks, is.Status)
	}
	c.probes = seen.Requests
	c.perProbe /= time.Duration(seen.Requests)
	return c, seen, nil
}

// measureCPU returns what a process used in a while, as if for one probe.
func measureCPU(ctx context.Context, pid int, d time.Duration) (cost, error) {
	before, err := usageOf(pid)
	if err != nil {
		return cost{}, err
	}
	if err := pause(ctx, d); err != nil {
		return cost{}, err
	}
	after, err := usageOf(pid)
	return cost{perProbe: after.cpu - before.cpu, rss: after.rss}, err
}
