package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/dnsserver/client"
)

// row is a line or more of the table: who takes turns, and what is read from it.
type row struct {
	name   string
	title  string
	lineup func(context.Context, *bench) (*lineup, error) // nil: it has no bursts
	judge  func(*results, *report)
	alone  func(context.Context, *bench, *report) error // measures a row without bursts
}

// rows are all of them, in the order of the table.
func rows() []row {
	return []row{
		{name: "static", title: "UDP, static A, one core", lineup: staticLineup, judge: func(r *results, rep *report) {
			rep.ratio("UDP, static A, one core", "floor", r.against("quorate", qps), 0.80, 0.90)
			rep.versus(r, "UDP, static A, one core", "quorate", "gdnsd", 0.90, 1.05)
			rep.versus(r, "UDP, static A, one core", "quorate", "knot", 1.3, 1.45)
			rep.versus(r, "UDP, static A, one core", "quorate", "nsd", 2.4, 2.8)
		}},
		{name: "weighted", title: "UDP, weighted and health-checked", lineup: weightedLineup, judge: func(r *results, rep *report) {
			rep.versus(r, "UDP, weighted and health-checked", "quorate weighted", "gdnsd weighted", 0.95, 1.10)
		}},
		{name: "geo", title: "UDP, geo by prefix, 300,000 prefixes", lineup: geoLineup, judge: func(r *results, rep *report) {
			rep.ratio("UDP, geo by prefix, 300,000 prefixes", "floor", r.against("quorate geo", qps), 0.75, 0.85)
		}},
		{name: "latency", title: "UDP, at 20,000 queries a second", lineup: latencyLineup, judge: judgeLatency},
		{name: "verdicts", title: "UDP, while verdicts change", lineup: verdictsLineup, judge: judgeVerdicts},
		{name: "tcp", title: "TCP, one connection a query", lineup: tcpOnce, judge: func(r *results, rep *report) {
			rep.peer(r, "TCP, one connection a query", "quorate", "knot", 1, 1.2)
		}},
		{name: "pipe", title: "TCP, pipelined", lineup: tcpPipe, judge: func(r *results, rep *report) {
			rep.peer(r, "TCP, pipelined", "quorate", "knot", 1, 1.2)
		}},
		{name: "dnssec", title: "UDP, signed answers, warm", lineup: dnssecLineup, judge: func(r *results, rep *report) {
			rep.ratio("UDP, signed answers, warm", "unsigned", r.against("quorate signed", qps), 0.7, 0.9)
		}},
		{name: "allocations", title: "Allocations", alone: measureAllocations},
		{name: "memory", title: "Memory", alone: measureMemory},
	}
}

func rowNames() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

// measure measures one row into the report.
func (b *bench) measure(ctx context.Context, r row, rep *report) error {
	say("row %s", r.name)
	if r.alone != nil {
		return r.alone(ctx, b, rep)
	}
	l, err := r.lineup(ctx, b)
	if err != nil {
		return err
	}
	defer l.stop()
	res, err := b.rounds(ctx, l)
	if err != nil {
		return err
	}
	r.judge(res, rep)
	rep.servers(r.title, res)
	return nil
}

// add lines a server up; a peer that cannot be had is noted.
func (l *lineup) add(s *server, how load) *target {
	t := &target{name: s.name, srv: s, load: how}
	l.servers = append(l.servers, s)
	l.targets = append(l.targets, t)
	return t
}

func (b *bench) addPeers(ctx context.Context, l *lineup, how load, peers ...peer) error {
	for _, p := range peers {
		if why := b.reason(p); why != "" {
			l.absent[p.name] = why
			continue
		}
		s, err := b.startPeer(ctx, p)
		if err != nil {
			return err
		}
		l.add(s, how)
	}
	return nil
}

// refer makes a server the reference instead of a target.
func (l *lineup) refer(name string) {
	i := slices.IndexFunc(l.targets, func(t *target) bool { return t.name == name })
	if i < 0 {
		return
	}
	l.reference = l.targets[i]
	l.targets = slices.Delete(l.targets, i, i+1)
}

// newLineup runs build, and stops what it started when it fails.
func newLineup(build func(*lineup) error) (*lineup, error) {
	l := &lineup{absent: map[string]string{}}
	if err := build(l); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// withFloor adds the floor as the reference.
func (b *bench) withFloor(ctx context.Context, l *lineup, how load) error {
	s, err := b.startFloor(ctx)
	if err != nil {
		return err
	}
	l.add(s, how)
	l.refer("floor")
	return s.pin()
}

func (b *bench) staticQuorate(ctx context.Context) (*server, error) {
	return b.startQuorate(ctx, installation{name: "quorate", spec: staticSpec(map[string]string{staticZone: ""}), asks: staticAsks()})
}

func staticLineup(ctx context.Context, b *bench) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		questions, err := b.questions(staticZone, staticName, staticAddress)
		if err != nil {
			return err
		}
		how := closedLoop(questions)
		s, err := b.staticQuorate(ctx)
		if err != nil {
			return err
		}
		l.add(s, how)
		if err := b.addPeers(ctx, l, how, gdnsdStatic(), knotStatic(), nsdStatic(), namedStatic(), pdnsStatic(), coreDNSStatic()); err != nil {
			return err
		}
		return b.withFloor(ctx, l, how)
	})
}

func weightedLineup(ctx context.Context, b *bench) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		questions, err := b.questions(weightedZone, serviceName, nil)
		if err != nil {
			return err
		}
		how := closedLoop(questions)
		s, err := b.startQuorate(ctx, installation{name: "quorate weighted", spec: b.serviceSpec(nameCount, clusterCount, weights(), "", ""), asks: weightedAsks()})
		if err != nil {
			return err
		}
		l.add(s, how)
		if err := b.addPeers(ctx, l, how, gdnsdDynamic("weighted"), gdnsdDynamic("multifo"), pdnsLua()); err != nil {
			return err
		}
		return b.withFloor(ctx, l, how)
	})
}

// sendersNetwork is where queries come from when it matters who asks: each from one
// of 16,384 of its addresses, drawn anew.
const sendersNetwork = "127.0.0.0/8"

func geoLineup(ctx context.Context, b *bench) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		questions, err := b.questions(weightedZone, serviceName, nil)
		if err != nil {
			return err
		}
		how := load{tool: "dnsblast", questions: questions, args: []string{"-e", "-S", "4", "-w", "200", "-g", "1", "-m", "16", "-B", sendersNetwork}}
		database, err := geoDatabase()
		if err != nil {
			return err
		}
		s, err := b.startQuorate(ctx, installation{
			name: "quorate geo", spec: b.serviceSpec(nameCount, clusterCount, "{ type: geo }", geoRegions(), ""), asks: weightedAsks(),
			dns: ", geoip: { database: DIR/geo.mmdb }", files: map[string]string{"geo.mmdb": database},
		})
		if err != nil {
			return err
		}
		l.add(s, how)
		if err := answersByPlace(ctx, s); err != nil {
			return err
		}
		return b.withFloor(ctx, l, how)
	})
}

// answersByPlace requires that clients of several networks get several answers:
// without the GeoIP file all would be nowhere, and quickly answered.
func answersByPlace(ctx context.Context, s *server) error {
	seen := map[netip.Addr]bool{}
	for i := range 4 * clusterCount {
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(7 * i), byte(31 * i), 0}), 24)
		reply, err := client.Query(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), weightedAsks(), "A", client.Options{Subnet: network})
		if err != nil {
			return err
		}
		for _, a := range reply.Addresses {
			seen[a] = true
		}
	}
	if len(seen) < clusterCount/2 {
		return fmt.Errorf("clients of %d networks get only %d answers; is the GeoIP file in use? %s", 4*clusterCount, len(seen), s.tail())
	}
	return nil
}

// latencyRate is what each server is asked in the row of latency.
const (
	latencyRate  = "20000"
	latencyBurst = 2 * time.Second
)

func latencyLineup(ctx context.Context, b *bench) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		questions, err := b.questions(staticZone, staticName, staticAddress)
		if err != nil {
			return err
		}
		how := load{tool: "dnsblast", questions: questions, args: []string{"-e", "-S", "4", "-q", latencyRate}, paced: true, measure: latencyBurst}
		s, err := b.staticQuorate(ctx)
		if err != nil {
			return err
		}
		l.add(s, how)
		if err := b.addPeers(ctx, l, how, gdnsdStatic(), knotStatic()); err != nil {
			return err
		}
		if l.refer("gdnsd"); l.reference == nil {
			return fmt.Errorf("gdnsd, which latency is compared with, is %s", l.absent["gdnsd"])
		}
		return nil
	})
}

func judgeLatency(r *results, rep *report) {
	const title = "UDP, at 20,000 queries a second"
	rep.atMost(title+", p50", "gdnsd", r.against("quorate", p50), 1.2, 1.05)
	rep.atMost(title+", p99", "gdnsd", r.against("quorate", p99), 2, 1.5)
}

func tcpOnce(ctx context.Context, b *bench) (*lineup, error) {
	return b.tcpLineup(ctx, "-e", "-m", "once", "-c", "64")
}

func tcpPipe(ctx context.Context, b *bench) (*lineup, error) {
	return b.tcpLineup(ctx, "-e", "-m", "pipe", "-c", "16", "-w", "32")
}

func (b *bench) tcpLineup(ctx context.Context, args ...string) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		questions, err := b.questions(staticZone, staticName, staticAddress)
		if err != nil {
			return err
		}
		how := load{tool: "tcpblast", questions: questions, args: args}
		s, err := b.staticQuorate(ctx)
		if err != nil {
			return err
		}
		l.add(s, how)
		if err := b.addPeers(ctx, l, how, knotStatic()); err != nil {
			return err
		}
		if l.refer("knot"); l.reference == nil {
			return fmt.Errorf("knot, which TCP is compared with, is %s", l.absent["knot"])
		}
		return nil
	})
}

// dnssecLineup compares two zones of one server: both are asked for signatures, one
// has them. Every answer is signed before the first burst, so that they are warm.
func dnssecLineup(ctx context.Context, b *bench) (*lineup, error) {
	return newLineup(func(l *lineup) error {
		plain, err := b.questions(staticZone, staticName, staticAddress)
		if err != nil {
			return err
		}
		signed, err := b.questions(signedZone, staticName, staticAddress)
		if err != nil {
			return err
		}
		keys, err := zoneKeys()
		if err != nil {
			return err
		}
		zones := map[string]string{
			staticZone: "",
			signedZone: "    dnssec: { mode: \"on\", ksk: { secret: ksk }, zsk: { secret: zsk } }\n",
		}
		s, err := b.startQuorate(ctx, installation{
			name: "quorate unsigned", spec: staticSpec(zones), asks: staticAsks(),
			node: "secrets: { ksk: { file: DIR/ksk.pem }, zsk: { file: DIR/zsk.pem } }\n", files: keys,
		})
		if err != nil {
			return err
		}
		l.add(s, closedLoop(plain, "-D"))
		t := &target{name: "quorate signed", srv: s, load: closedLoop(signed, "-G")}
		l.targets = append(l.targets, t)
		l.refer("quorate unsigned")
		// While the first answers are signed the server may be at less than its limit.
		for range 3 {
			if _, err := b.once(ctx, t); err != nil {
				return err
			}
		}
		return nil
	})
}
