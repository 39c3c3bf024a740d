package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	manyServices = 10_000
	// memoryRest lets what starting needed be given back.
	memoryRest = 5 * time.Second
)

// measureMemory reads the resident memory of a node that has started with what it
// serves, and of the one that has just taken it by an apply.
func measureMemory(ctx context.Context, b *bench, rep *report) error {
	for _, c := range []struct {
		what       string
		in         installation
		gate, goal float64 // MiB
	}{
		{"memory, 1,000 names", installation{name: "quorate names", spec: staticSpec(map[string]string{staticZone: ""}), asks: staticAsks()}, 40, 20},
		{"memory, 10,000 services", installation{name: "quorate services", spec: b.serviceSpec(manyServices, 2, "{ type: weighted }", "", ""), asks: weightedAsks()}, 300, 150},
	} {
		s, err := b.startQuorate(ctx, c.in)
		if err != nil {
			rep.add(figure{what: c.what, unit: "MiB", gate: c.gate, goal: c.goal, most: true, absent: lastLine(err.Error())})
			continue
		}
		applied, err := b.rested(ctx, s)
		s.stop()
		if err != nil {
			return err
		}
		if err := b.runQuorate(s); err != nil {
			return err
		}
		if err := s.ready(ctx, c.in.asks); err != nil {
			s.stop()
			return err
		}
		started, err := b.rested(ctx, s)
		s.stop()
		if err != nil {
			return err
		}
		rep.memory(c.what, started, c.gate, c.goal)
		rep.note("%s: %.0f MiB after the apply that brought it, %.0f MiB after a restart, which is the figure.", c.what, applied, started)
	}
	return nil
}

// lastLine is the end of an error of several lines.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// rested is the resident memory in MiB after a while.
func (b *bench) rested(ctx context.Context, s *server) (float64, error) {
	if err := pause(ctx, memoryRest); err != nil {
		return 0, err
	}
	rss, err := s.rss()
	return float64(rss) / (1 << 20), err
}

// allocationBenchmark answers prepared questions as a worker does.
const allocationBenchmark = "^BenchmarkFastPath"

// measureAllocations runs the benchmarks of the fast path and takes the most
// allocations that any of them has a query.
func measureAllocations(ctx context.Context, _ *bench, rep *report) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", allocationBenchmark, "-benchmem", "-benchtime", "20000x", "./dnsserver/...")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	most, seen := 0.0, 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[len(f)-1] != "allocs/op" {
			continue
		}
		n, err := strconv.ParseFloat(f[len(f)-2], 64)
		if err != nil {
			return err
		}
		seen++
		most = max(most, n)
	}
	if seen == 0 {
		return fmt.Errorf("go test ./dnsserver/... has no benchmark %s", allocationBenchmark)
	}
	rep.count("allocations a query on the fast path", most, 0, 0)
	return nil
}
