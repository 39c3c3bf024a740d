package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// between is how many targets have their turn between two bursts of the reference:
// the machine's pace changes within seconds.
const between = 2

// lineup is what takes turns: a reference, and who is compared with it.
type lineup struct {
	reference *target
	targets   []*target
	absent    map[string]string // server -> why it is not here
	servers   []*server         // stopped in the end, the last first
	note      func() string     // what else is to be said, in the end; nil: nothing
}

func (l *lineup) stop() {
	for _, s := range slices.Backward(l.servers) {
		s.stop()
	}
}

// turn is one burst of a target with those of the reference before and after it.
type turn struct {
	burst         burst
	before, after burst
}

// ratio divides a figure of the burst by the mean of its neighbours'.
func (t turn) ratio(of func(burst) float64) float64 {
	return 2 * of(t.burst) / (of(t.before) + of(t.after))
}

// results are a row's turns by target, one a round, and what was read in the end.
type results struct {
	turns     map[string][]turn
	reference []burst
	rss       map[string]int64
	absent    map[string]string
	order     []string // the reference first
	note      string
}

// rounds lets the lineup take turns, the order reversed every other round.
func (b *bench) rounds(ctx context.Context, l *lineup) (*results, error) {
	res := &results{turns: map[string][]turn{}, rss: map[string]int64{}, absent: l.absent, order: []string{l.reference.name}}
	for _, t := range l.targets {
		res.order = append(res.order, t.name)
	}
	for _, s := range l.servers {
		if err := s.settle(ctx); err != nil {
			return nil, err
		}
	}
	for round := range b.opts.rounds {
		targets := slices.Clone(l.targets)
		if round%2 == 1 {
			slices.Reverse(targets)
		}
		before, err := b.burst(ctx, l.reference)
		if err != nil {
			return nil, err
		}
		res.reference = append(res.reference, before)
		for chunk := range slices.Chunk(targets, between) {
			mine := make([]burst, len(chunk))
			for i, t := range chunk {
				if mine[i], err = b.burst(ctx, t); err != nil {
					return nil, err
				}
			}
			after, err := b.burst(ctx, l.reference)
			if err != nil {
				return nil, err
			}
			for i, t := range chunk {
				res.turns[t.name] = append(res.turns[t.name], turn{mine[i], before, after})
			}
			res.reference = append(res.reference, after)
			before = after
		}
	}
	for _, t := range append([]*target{l.reference}, l.targets...) {
		rss, err := t.srv.rss()
		if err != nil {
			return nil, err
		}
		res.rss[t.name] = rss
	}
	if l.note != nil {
		res.note = l.note()
	}
	return res, nil
}

// against is the spread of a target's figure as a part of the reference's.
func (r *results) against(name string, of func(burst) float64) spread {
	var list []float64
	for _, t := range r.turns[name] {
		list = append(list, t.ratio(of))
	}
	return spreadOf(list)
}

// between is the spread of one target's figure as a part of another's: each one's
// part of the reference in the same round.
func (r *results) between(name, other string, of func(burst) float64) spread {
	var list []float64
	mine, theirs := r.turns[name], r.turns[other]
	for i := range min(len(mine), len(theirs)) {
		list = append(list, mine[i].ratio(of)/theirs[i].ratio(of))
	}
	return spreadOf(list)
}

// bursts are all the bursts of a target or of the reference.
func (r *results) bursts(name string) []burst {
	if name == r.order[0] {
		return r.reference
	}
	var list []burst
	for _, t := range r.turns[name] {
		list = append(list, t.burst)
	}
	return list
}

// spread is a median with the least and the most.
type spread struct{ median, least, most float64 }

func spreadOf(list []float64) spread {
	if len(list) == 0 {
		return spread{}
	}
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	return spread{(list[(n-1)/2] + list[n/2]) / 2, list[0], list[n-1]}
}

func medianOf(bursts []burst, of func(burst) float64) float64 {
	var list []float64
	for _, b := range bursts {
		list = append(list, of(b))
	}
	return spreadOf(list).median
}

func qps(b burst) float64 { return b.QPS }
func p50(b burst) float64 { return b.P50 }
func p99(b burst) float64 { return b.P99 }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// profileTime is how long a profile is taken.
const profileTime = 10 * time.Second

// writeProfile has perf watch the first quorate of a row under that row's load.
func (b *bench) writeProfile(ctx context.Context, chosen []row, path string) error {
	if len(chosen) != 1 || chosen[0].lineup == nil {
		return fmt.Errorf("-profile: -rows must name one row with bursts")
	}
	l, err := chosen[0].lineup(ctx, b)
	if err != nil {
		return err
	}
	defer l.stop()
	watched := append(slices.Clone(l.targets), l.reference)
	i := slices.IndexFunc(watched, func(t *target) bool { return t.srv.quorate })
	t := watched[i]
	if err := t.srv.settle(ctx); err != nil {
		return err
	}
	perf := exec.CommandContext(ctx, "perf", "record", "-g", "-F", "997", "-o", path, "-p", strconv.Itoa(t.srv.cmd.Process.Pid))
	perf.Stderr = os.Stderr
	if err := perf.Start(); err != nil {
		return fmt.Errorf("%w; install it with: apt-get install linux-perf", err)
	}
	t.load.measure = profileTime
	got, err := b.once(ctx, t)
	_ = perf.Process.Signal(unix.SIGINT) // it writes its file then
	_ = perf.Wait()                      // ended by the signal
	say("%s: %.0f queries a second; see it with: perf report -i %s", t.name, got.QPS, path)
	return err
}
