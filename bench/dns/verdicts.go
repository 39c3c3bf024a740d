package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/dnsserver/client"
)

const (
	// flappers services have an endpoint each that turns ten times a second.
	flappers = 20
	// settling is waited after the endpoints have begun or ceased to change.
	settling = 700 * time.Millisecond
	// verdictsRow is its title in the table.
	verdictsRow = "UDP, while 200 verdicts a second change"
)

func flapperName(i int) string { return fmt.Sprintf("f%04d", i) }

// flapperServices are probed ten times a second, and one result turns the verdict.
func (b *bench) flapperServices() string {
	var text strings.Builder
	for i := range flappers {
		fmt.Fprintf(&text, "  %[1]s: { clusters: { only: [c0, c1] }, policy: { type: weighted }, quorum: { stale_after: 10s },"+
			" check: { interval: 100ms, timeout: 100ms, fall: 1, rise: 1, recheck: 100ms, http: { port: %[2]d, path: %[3]s%[1]s, reuse: true } } }\n",
			flapperName(i), b.ends.port, flapPath)
	}
	return text.String()
}

// verdictsLineup is one node in two conditions. Probes are as many in both.
func verdictsLineup(ctx context.Context, b *bench) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		name := func(i int) string {
			if i < flappers {
				return flapperName(i)
			}
			return serviceName(i)
		}
		questions, err := b.questions(weightedZone, name, nil)
		if err != nil {
			return err
		}
		s, err := b.startQuorate(ctx, installation{
			name: "quorate quiet", spec: b.serviceSpec(nameCount, clusterCount, weights(), "safety: { max_automatic_changes: { causes: 1000 } }\n", b.flapperServices()),
			asks: weightedAsks(),
		})
		if err != nil {
			return err
		}
		l.add(s, closedLoop(questions))
		l.refer("quorate quiet")
		w := &verdictWatch{bench: b, port: s.port}
		l.targets = append(l.targets, &target{name: "quorate, verdicts changing", srv: s, load: closedLoop(questions), before: w.begin, after: w.end})
		l.note = w.note
		return pause(ctx, settling)
	})
}

// verdictWatch switches the endpoints and counts what comes of it.
type verdictWatch struct {
	bench *bench
	port  int

	turned  int     // changes shown, when it began
	index   float64 // log index, likewise
	began   time.Time
	changes []float64 // changes shown a second, in each burst
	entries []float64 // entries of the log a second
}

func (w *verdictWatch) begin(ctx context.Context) error {
	w.bench.ends.flapping.Store(true)
	if err := pause(ctx, settling); err != nil {
		return err
	}
	var err error
	w.index, err = w.serial(ctx)
	w.began, w.turned = time.Now(), w.bench.ends.turned()
	return err
}

func (w *verdictWatch) end(ctx context.Context) error {
	w.changes = append(w.changes, float64(w.bench.ends.turned()-w.turned)/time.Since(w.began).Seconds())
	index, err := w.serial(ctx)
	if err != nil {
		return err
	}
	w.entries = append(w.entries, (index-w.index)/time.Since(w.began).Seconds())
	w.bench.ends.flapping.Store(false)
	return pause(ctx, settling)
}

// serial is the zone's: the index of the log entry that last changed the table. It
// is asked for instead of metrics, which for a thousand services are a megabyte.
func (w *verdictWatch) serial(ctx context.Context) (float64, error) {
	reply, err := client.Query(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port)), weightedZone, "SOA", client.Options{})
	if err != nil {
		return 0, err
	}
	const serial = 6 // owner, TTL, class, type, primary, mailbox, serial
	if len(reply.Records) == 1 {
		if f := strings.Fields(reply.Records[0]); len(f) > serial {
			return strconv.ParseFloat(f[serial], 64)
		}
	}
	return 0, fmt.Errorf("%s SOA: %s, %q", weightedZone, reply.Rcode, reply.Records)
}

// note says how much really changed.
func (w *verdictWatch) note() string {
	return fmt.Sprintf("While verdicts changed, probes were shown %.0f changes a second, and %.0f log entries a second were committed (medians). The log's disk, the probes and the table's compiling share the server's core.",
		spreadOf(w.changes).median, spreadOf(w.entries).median)
}

func judgeVerdicts(r *results, rep *report) {
	rep.ratio(verdictsRow, "quiet", r.against("quorate, verdicts changing", qps), 0.9, 0.97)
}
