// Command demo measures what the README promises of `quorate dev`: how fast it is
// ready, how long a fault or a signed cutover takes to reach every answer, and what
// idling costs.
//
// It runs the built binary as a child with a configuration folder of its own and
// looks from outside: DNS over UDP, the demo's control socket and /proc. A figure
// over its gate is exit code 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"
)

// The gates, as the project promises them.
const (
	gateReady    = 3 * time.Second
	gateDownP50  = 1200 * time.Millisecond
	gateDownP99  = 2 * time.Second
	gateRSS      = 150 << 20 // bytes
	gateCPU      = 5.0       // percent of a core
	gateMoveP99  = 300 * time.Millisecond
	gateRestart  = time.Second
	defaultTimes = 50
	defaultMoves = 100
	defaultIdle  = 30 * time.Second
)

func main() {
	binary := flag.String("quorate", "./bin/quorate", "the binary to measure")
	toggles := flag.Int("toggles", defaultTimes, "how many times to switch the cluster, down and up in turn")
	moves := flag.Int("moves", defaultMoves, "how many times to move the stateful service, there and back in turn")
	idle := flag.Duration("idle", defaultIdle, "how long to watch the idle demo")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	over, err := run(ctx, *binary, *toggles, *moves, *idle, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || over {
		stop()
		os.Exit(1)
	}
}

// run measures everything and prints the table. over says that a gate was missed.
func run(ctx context.Context, binary string, toggles, moves int, idle time.Duration, out io.Writer) (over bool, err error) {
	d, err := startDemo(ctx, binary)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	var t table
	t.atMost("ready, from exec", d.readyAfter, gateReady)

	cost, err := d.idle(ctx, idle)
	if err != nil {
		return false, err
	}
	t.add("resident memory, idle", fmt.Sprintf("%.0f MB", float64(cost.rss)/(1<<20)), fmt.Sprintf("< %d MB", gateRSS>>20), cost.rss < gateRSS)
	t.add(fmt.Sprintf("processor, idle, median over %s", idle), fmt.Sprintf("%.1f %%", cost.cpu), fmt.Sprintf("< %.0f %%", gateCPU), cost.cpu < gateCPU)

	down, up, err := d.toggles(ctx, toggles)
	if err != nil {
		return false, err
	}
	t.atMost(fmt.Sprintf("down to answer, p50 of %d", len(down)), quantile(down, 0.50), gateDownP50)
	t.note("down to answer, p95", quantile(down, 0.95))
	t.atMost("down to answer, p99", quantile(down, 0.99), gateDownP99)
	t.note("down to answer, max", quantile(down, 1))
	both := slices.Concat(down, up)
	t.note(fmt.Sprintf("both ways, p50 of %d", len(both)), quantile(both, 0.50))
	t.note("both ways, p95", quantile(both, 0.95))
	t.note("both ways, p99", quantile(both, 0.99))
	t.note("both ways, max", quantile(both, 1))

	moved, err := d.moves(ctx, moves)
	if err != nil {
		return false, err
	}
	t.note(fmt.Sprintf("last signature to answer on all nodes, p50 of %d", len(moved)), quantile(moved, 0.50))
	t.atMost("last signature to answer on all nodes, p99", quantile(moved, 0.99), gateMoveP99)
	t.note("last signature to answer on all nodes, max", quantile(moved, 1))

	alone, err := d.restart(ctx)
	if err != nil {
		return false, err
	}
	t.atMost("one node alone, start to answer", alone, gateRestart)
	return t.print(out)
}

// quantile returns the smallest figure that at least q of all do not exceed.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	ds = slices.Sorted(slices.Values(ds))
	i := int(q*float64(len(ds))+0.9999999) - 1
	return ds[min(max(i, 0), len(ds)-1)]
}

// table is what is printed: a line a figure.
type table struct {
	rows [][4]string
	over bool
}

func (t *table) add(what, figure, gate string, ok bool) {
	mark := "ok"
	if !ok {
		mark, t.over = "over", true
	}
	t.rows = append(t.rows, [4]string{what, figure, gate, mark})
}

// atMost adds a duration with its gate.
func (t *table) atMost(what string, d, gate time.Duration) {
	t.add(what, show(d), "<= "+show(gate), d <= gate)
}

// note adds a duration without a gate.
func (t *table) note(what string, d time.Duration) {
	t.rows = append(t.rows, [4]string{what, show(d), "", ""})
}

func (t *table) print(out io.Writer) (over bool, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tFIGURE\tGATE\t")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r[0], r[1], r[2], r[3])
	}
	return t.over, w.Flush()
}

func show(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
