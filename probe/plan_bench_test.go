package probe

import (
	"context"
	"testing"
	"time"
)

// BenchmarkBuildPlan is what a new revision costs at 20,000 checks.
func BenchmarkBuildPlan(b *testing.B) {
	in := many(20_000)
	b.ReportAllocs()
	for b.Loop() {
		BuildPlan(in)
	}
}

// BenchmarkAdopt is how long the loop stands still for it.
func BenchmarkAdopt(b *testing.B) {
	plan := BuildPlan(many(20_000))
	p := New(Config{})
	l := newLoop(b.Context(), p)
	l.adopt(plan, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		l.adopt(plan, time.Now())
	}
}

// BenchmarkSchedule is what the scheduler itself costs a probe, the goroutine that
// makes it included.
func BenchmarkSchedule(b *testing.B) {
	b.ReportAllocs()
	p := New(Config{MaxConcurrency: 20_000})
	p.bootTime = func() time.Duration { return 0 }
	p.measure = func(context.Context, Probe, checker) outcome {
		return outcome{Result: Result{At: time.Now(), OK: true, Reason: ReasonOK}, reached: true}
	}
	l := newLoop(b.Context(), p)
	l.adopt(BuildPlan(many(20_000)), time.Now())
	l.publish(time.Now())
	for b.Loop() {
		now := l.heap[0].due
		l.startDue(now)
		for l.running > 0 {
			l.finish(<-l.results, now)
		}
		l.publish(now)
	}
}
