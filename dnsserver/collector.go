package dnsserver

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/routing"
)

// nobodys is the zone label of queries that are out of all zones.
const nobodys = "none"

// limitActions are what is done with a query over its client's rate.
var limitActions = []string{"drop", "slip", "log"}

// dropReasons are why a packet is no query: it has no header, or it is a response.
var dropReasons = []string{"short", "response"}

// collector shows the shards' sums and the table as they are when scraped.
//
// What is counted by zone, service or cluster is there at zero as soon as the table has
// it, so that the first SERVFAIL is a rise that an alert sees; it is no longer shown
// once the table has it no more. The cells stay: what comes back goes on from where it
// was, and no counter ever goes back.
type collector struct {
	cfg      Config
	counters *counters

	queries, responses, answers, ecs, truncated, limited, dropped *prometheus.Desc
	took                                                          *prometheus.Desc
	age, serial, records                                          *prometheus.Desc
}

func newCollector(cfg Config, counters *counters) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_dns_"+name, help, labels, nil)
	}
	return &collector{
		cfg: cfg, counters: counters,
		queries:   desc("queries_total", "Queries that were read.", "zone", "qtype", "proto", "family"),
		responses: desc("responses_total", "Answers given, by response code.", "zone", "rcode"),
		answers:   desc("answers_total", "Answers that named a cluster.", "service", "cluster"),
		ecs:       desc("ecs_queries_total", "Queries that named their client's subnet.", "zone"),
		truncated: desc("truncated_total", "Answers that were too long for UDP.", "zone"),
		limited:   desc("rate_limited_total", "Queries over their client's rate, by what was done with them.", "zone", "action"),
		dropped:   desc("dropped_total", "Packets that are no queries and get no answer.", "reason"),
		took:      desc("request_duration_seconds", "Time from reading a query to having its answer, of a sample weighted to stand for all.", "proto"),
		age:       desc("table_age_seconds", "Time since this node last heard a leader that holds its lease."),
		serial:    desc("zone_serial", "SOA serial of the zone.", "zone"),
		records:   desc("zone_records", "Records in the zone as one client can see them.", "zone"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.queries, c.responses, c.answers, c.ecs, c.truncated, c.limited, c.dropped, c.took, c.age, c.serial, c.records,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, c.cfg.Age().Seconds())
	t := newTally()
	if table := c.cfg.Table(); table != nil {
		for _, z := range table.Zones {
			ch <- prometheus.MustNewConstMetric(c.serial, prometheus.GaugeValue, float64(z.Serial), z.Name)
			ch <- prometheus.MustNewConstMetric(c.records, prometheus.GaugeValue, float64(z.Records), z.Name)
		}
		t.expect(table)
	}
	known, values := c.counters.sums()
	for i, k := range known {
		t.count(k, values[i])
	}
	for _, metric := range []struct {
		desc *prometheus.Desc
		sums map[labels]uint64
	}{{c.queries, t.queries}, {c.responses, t.responses}, {c.answers, t.answers}, {c.ecs, t.ecs}, {c.truncated, t.truncated}, {c.limited, t.limited}, {c.dropped, t.dropped}} {
		for l, v := range metric.sums {
			ch <- prometheus.MustNewConstMetric(metric.desc, prometheus.CounterValue, float64(v), l.values()...)
		}
	}
	for _, p := range []Proto{UDP, TCP} {
		count, sum, buckets := c.counters.took(p)
		ch <- prometheus.MustNewConstHistogram(c.took, count, sum, buckets, p.String())
	}
}

// labels are the values of a metric's labels; unused ones are empty.
type labels [4]string

// values returns those that are used. No label of ours has an empty value.
func (l labels) values() []string {
	n := len(l)
	for n > 0 && l[n-1] == "" {
		n--
	}
	return slices.Clone(l[:n])
}

// tally is what one scrape shows.
type tally struct {
	zones map[string]bool

	queries, responses, answers, ecs, truncated, limited, dropped map[labels]uint64
}

func newTally() *tally {
	sums := func() map[labels]uint64 { return map[labels]uint64{} }
	t := &tally{
		zones:   map[string]bool{nobodys: true},
		queries: sums(), responses: sums(), answers: sums(), ecs: sums(), truncated: sums(), limited: sums(), dropped: sums(),
	}
	for _, reason := range dropReasons {
		t.dropped[labels{reason}] = 0
	}
	return t
}

// expect puts at zero what the table could count.
func (t *tally) expect(table *routing.Table) {
	for _, z := range table.Zones {
		t.zones[z.Name] = true
		for _, rcode := range []int{dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeServerFailure} {
			t.responses[labels{z.Name, rcodeLabel(rcode)}] = 0
		}
		t.ecs[labels{z.Name}], t.truncated[labels{z.Name}] = 0, 0
		for _, action := range limitActions {
			t.limited[labels{z.Name, action}] = 0
		}
	}
	spec := table.State().Spec
	picks := spec.Picks()
	for name := range spec.Services {
		for _, cluster := range picks(name) {
			t.answers[labels{name, cluster}] = 0
		}
	}
}

// count adds what was counted of one combination, unless the table has it no more.
func (t *tally) count(k combination, n uint64) {
	if n == 0 {
		return
	}
	if k.what == countedDropped {
		t.dropped[labels{k.a}] += n
		return
	}
	if k.what == countedAnswer {
		if l := (labels{k.a, k.b}); has(t.answers, l) {
			t.answers[l] += n
		}
		return
	}
	if !t.zones[k.a] {
		return
	}
	switch k.what {
	case countedOutcome:
		t.queries[labels{k.a, k.b, k.proto.String(), string(rune(k.family))}] += n
		if k.rcode == unanswered {
			return
		}
		t.responses[labels{k.a, cmp.Or(rcodeLabel(int(k.rcode)), strconv.Itoa(int(k.rcode)))}] += n
	case countedECS:
		t.ecs[labels{k.a}] += n
	case countedTruncated:
		t.truncated[labels{k.a}] += n
	case countedLimited:
		t.limited[labels{k.a, k.b}] += n
	}
}

func has(m map[labels]uint64, l labels) bool {
	_, ok := m[l]
	return ok
}

// took sums the histograms of one protocol.
func (c *counters) took(p Proto) (count uint64, sum float64, buckets map[float64]uint64) {
	var cells [len(tookBounds) + 1]uint64
	var nanoseconds uint64
	for _, sh := range c.workers() {
		h := &sh.sampler.took[p]
		for i := range cells {
			cells[i] += h.cells[i].Load()
		}
		nanoseconds += h.sum.Load()
	}
	buckets = make(map[float64]uint64, len(tookBounds))
	for i, bound := range tookBounds {
		count += cells[i]
		buckets[bound.Seconds()] = count
	}
	count += cells[len(tookBounds)]
	return count, time.Duration(nanoseconds).Seconds(), buckets
}
