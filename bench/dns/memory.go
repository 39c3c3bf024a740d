package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	manyServices = 10_000
	// memoryRest lets what starting needed be given back, which a node does half a
	// minute after the last spec.
	memoryRest = 40 * time.Second
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
			rep.add(figure{what: c.what, unit: "MiB", gate: c.gate, goal: c.goal, most: true, absent: cause(err)})
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

// cause is what is at the bottom of an error that ends with a node's log.
func cause(err error) string {
	text := lastLine(err.Error())
	if _, logged, found := strings.Cut(text, " err="); found {
		return strings.Trim(logged, `"`)
	}
	return text
}

// lastLine is the end of a text of several lines.
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

// allocationTest requires that no kind of prepared answer allocates.
const allocationTest = "TestTheFastPathAllocatesNothing"

// measureAllocations runs the test and takes the most that any kind allocates.
func measureAllocations(ctx context.Context, _ *bench, rep *report) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count", "1", "-v", "-run", "^"+allocationTest+"$", "./dnsserver")
	out, err := cmd.CombinedOutput()
	passed := strings.Count(string(out), "    --- PASS: "+allocationTest+"/")
	most := 0.0
	for _, m := range regexp.MustCompile(`Should be zero, but was (\d+)`).FindAllSubmatch(out, -1) {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return err
		}
		most = max(most, n)
	}
	if passed == 0 || err != nil && most == 0 {
		rep.add(figure{what: allocationsRow, most: true, absent: "the test did not run: " + lastLine(string(out))})
		return nil
	}
	rep.count(allocationsRow, most, 0, 0)
	rep.note("%s: by %s, for %d kinds of answer.", allocationsRow, allocationTest, passed)
	return nil
}

// allocationsRow is its title in the table.
const allocationsRow = "allocations a query on the fast path"
