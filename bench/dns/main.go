// Command dns measures quorate's DNS server beside others on one core, and fails
// with -gate where it is slower than the project promises.
//
//	make bench-dns                       # a quarter of an hour; the figures worth quoting
//	go run ./bench/dns -rounds 2 -rows static,tcp
//
// Absolute figures of one machine change by half within minutes, so only ratios of
// bursts that took turns count: docs/benchmarks.md says how it is done and what the
// figures do not say. Every server is a real process on loopback, held on core 1;
// load comes from core 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	quorate string
	rounds  int
	rows    string
	burst   time.Duration
	out     string
	cache   string
	gate    bool
	install bool
	lax     bool
	profile string
}

func main() {
	var o options
	flag.StringVar(&o.quorate, "quorate", "./bin/quorate", "the binary to measure")
	flag.IntVar(&o.rounds, "rounds", 8, "rounds of every row")
	flag.StringVar(&o.rows, "rows", "", "rows to measure, with commas between: "+strings.Join(rowNames(), ", ")+"; empty: all")
	flag.DurationVar(&o.burst, "burst", 700*time.Millisecond, "how long each burst is measured")
	flag.StringVar(&o.out, "out", "", "folder that dns.md and dns.svg are written to; empty: none")
	flag.StringVar(&o.cache, "cache", "", "folder that CoreDNS is built in and kept; empty: one in the user's cache")
	flag.BoolVar(&o.gate, "gate", false, "exit with 1 when a gate is missed, and name it")
	flag.BoolVar(&o.install, "install", true, "install the servers to compare with from Debian where they are missing")
	flag.BoolVar(&o.lax, "lax", false, "keep disturbed bursts: a guess, on a machine that is busy with other things")
	flag.StringVar(&o.profile, "profile", "", "no figures: write a CPU profile of quorate under the load of the one row in -rows to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o, os.Stdout)
	switch {
	case errors.Is(err, errMissed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench-dns:", err)
		os.Exit(1)
	}
}

// errMissed says that a gate was missed; which, has been printed.
var errMissed = errors.New("a gate is missed")

func run(ctx context.Context, o options, out io.Writer) (err error) {
	chosen, err := chooseRows(o.rows)
	if err != nil {
		return err
	}
	b, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if o.profile != "" {
		return b.writeProfile(ctx, chosen, o.profile)
	}
	rep := newReport(b)
	for _, r := range chosen {
		if err := b.measure(ctx, r, rep); err != nil {
			return fmt.Errorf("row %s: %w", r.name, err)
		}
	}
	rep.print(out)
	if o.out != "" {
		if err := rep.write(o.out); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "written: %s and %s\n", filepath.Join(o.out, reportMarkdown), filepath.Join(o.out, reportSVG))
	}
	if missed := rep.missed(); o.gate && len(missed) > 0 {
		for _, m := range missed {
			fmt.Fprintln(os.Stderr, "gate missed:", m)
		}
		return errMissed
	}
	return nil
}

// chooseRows returns the rows that are named, in the order of the table.
func chooseRows(names string) ([]row, error) {
	all := rows()
	if names == "" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(rowNames(), name) {
			return nil, fmt.Errorf("-rows: there is no row %q; there are %s", name, strings.Join(rowNames(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(r row) bool { return !slices.Contains(wanted, r.name) }), nil
}

// say tells who waits what is going on.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// pause waits, or returns why it may not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
