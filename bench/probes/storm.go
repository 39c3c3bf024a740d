package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/probe"
)

// stormTargets all go at once, at stormInterval: 100 probes a second before that.
const (
	stormTargets  = 1000
	stormInterval = 10 * time.Second
	// stormFor is longer than detection may take: one interval and fall more, when
	// the budget leaves no recheck at all.
	stormFor = 40 * time.Second
)

// measureStorm loses every target at once and looks at how often they are asked.
func measureStorm(ctx context.Context, o options, how string, t *table) error {
	target, err := startChild(ctx, "target")
	if err != nil {
		return err
	}
	defer target.stop()
	p, err := startChild(ctx, "prober")
	if err != nil {
		return err
	}
	defer p.stop()
	interval, lasts := stormInterval, stormFor
	if o.short {
		interval, lasts = interval/4, lasts/4
	}
	var seen targetReport
	if err := target.order(targetOrder{Do: "start", Checks: stormTargets, Interval: interval}, &seen); err != nil {
		return err
	}
	var is proberReport
	order := proberOrder{Do: "start", Port: seen.Port, Checks: stormTargets, Check: probe.Check{
		Interval: interval, Recheck: interval / 5, Timeout: time.Second, Fall: 3, Rise: 1,
	}}
	if err := p.order(order, &is); err != nil {
		return err
	}
	if err := pause(ctx, interval+5*time.Second); err != nil {
		return err
	}
	if err := p.order(proberOrder{Do: "report"}, &is); err != nil {
		return err
	}
	if is.Up != stormTargets {
		return fmt.Errorf("%d of %d targets are up before the storm: %+v", is.Up, stormTargets, is.Status)
	}
	lost := time.Now()
	if err := target.order(targetOrder{Do: how}, &seen); err != nil {
		return err
	}
	if err := pause(ctx, lasts); err != nil {
		return err
	}
	if err := p.order(proberOrder{Do: "report"}, &is); err != nil {
		return err
	}
	if err := target.order(targetOrder{Do: "report"}, &seen); err != nil {
		return err
	}
	rate := int(stormTargets / interval.Seconds())
	kinds := map[string]string{refuse: "refused", hang: "accepted, never answered"}
	about := fmt.Sprintf("%d targets lost at once (%s), %d probes/s before", stormTargets, kinds[how], rate)
	most := mostInASecond(is.Dials, lost)
	t.add(about+": most started in any second", fmt.Sprint(most), fmt.Sprintf("<= %d", 2*rate), most <= 2*rate)
	if how == hang {
		most := mostInASecond(seen.Arrivals, lost)
		t.add("the same as the servers count", fmt.Sprint(most), fmt.Sprintf("<= %d", 2*rate), most <= 2*rate)
	}
	slices.Sort(is.Downs)
	after := func(part float64) time.Duration {
		return time.Duration(is.Downs[int(part*float64(len(is.Downs)-1))] - lost.UnixNano()).Round(100 * time.Millisecond)
	}
	detected := "none"
	if len(is.Downs) > 0 {
		detected = fmt.Sprintf("%d, after %v / %v / %v", len(is.Downs), after(.5), after(.99), after(1))
	}
	t.add("votes down, p50 / p99 / last", detected, fmt.Sprint(stormTargets), len(is.Downs) == stormTargets)
	return nil
}

// mostInASecond returns the most of events, in nanoseconds, that lie within any one
// second after from.
func mostInASecond(events []int64, from time.Time) int {
	slices.Sort(events)
	most, first := 0, 0
	for i, at := range events {
		if at < from.UnixNano() {
			first = i + 1
			continue
		}
		for events[first] <= at-int64(time.Second) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
