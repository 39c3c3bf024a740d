package dnsserver

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// trafficWindow and trafficWindows make the last hour: full windows and the one that
	// is under way.
	trafficWindow  = 5 * time.Minute
	trafficWindows = 12
	// recentWindows make the last ten minutes, likewise.
	recentWindows = 2
	// gatherEvery is how often what the workers saw is gathered. They remember the
	// fewer networks wrongly, the less there is between.
	gatherEvery = 10 * time.Second
	// windowSketch is how many networks of services a window remembers, so that an hour
	// takes a megabyte whatever is sent.
	windowSketch = 2048
)

// Traffic is what clients asked a node for in the last hour, or since it started.
type Traffic struct {
	Hour   time.Duration // how long that is: an hour and up to five minutes, or less
	Recent time.Duration // ten minutes, likewise
	// Services are those that were asked for, by name.
	Services []ServiceTraffic
}

// ServiceTraffic is what clients asked one service for.
type ServiceTraffic struct {
	Service string

	// Answers is how many answers named a cluster in the last hour, exactly, one that
	// named several once for each; Recent in the last ten minutes.
	Answers, Recent uint64

	// Networks are the client networks, the busiest first: of queries with ECS the
	// subnet that they named, else that of the resolver.
	Networks []NetworkTraffic

	// RecentNetworks is how many networks asked in the last ten minutes, at least: when
	// there were too many to remember, or not every query was looked at, there are More.
	RecentNetworks int
	More           bool
}

// NetworkTraffic is how many queries came from a network, a /24 or /56 or what ECS
// said if that was shorter. Where queries are sampled it is an estimate.
type NetworkTraffic struct {
	Prefix          netip.Prefix
	Queries, Recent uint64
}

// traffic keeps what was gathered from the workers.
type traffic struct {
	counters *counters
	made     time.Time

	mu      sync.Mutex // guards what follows
	windows []*window  // the newest last
	answers []uint64   // by series, as of the last gathering
	spare   *sketch    // empty
}

// window is five minutes.
type window struct {
	slot    int64 // its number since the server was made
	open    *sketch
	seen    []seen            // of a closed one, instead of open
	answers map[series]uint64 // by service
	partly  bool              // there may have been networks that it knows nothing of
}

type seen struct {
	sighting
	queries uint64
}

func newTraffic(c *counters, now time.Time) *traffic {
	return &traffic{counters: c, made: now, spare: newSketch(workerSketch)}
}

// run gathers until ctx is done.
func (tr *traffic) run(ctx context.Context) {
	tick := time.NewTicker(gatherEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tr.mu.Lock()
			tr.gatherLocked(time.Now())
			tr.mu.Unlock()
		}
	}
}

// gatherLocked takes what the workers saw into the window of now.
func (tr *traffic) gatherLocked(now time.Time) {
	w := tr.windowLocked(now)
	for _, sh := range tr.counters.workers() {
		got := sh.take(tr.spare)
		got.each(func(k sighting, sure uint64) { w.open.add(k, sure) })
		w.partly = w.partly || got.partly || w.open.partly || sh.missed.Swap(0) > 0
		got.reset()
		tr.spare = got
	}
	known, values := tr.counters.sums()
	tr.answers = append(tr.answers, make([]uint64, len(values)-len(tr.answers))...)
	for i, v := range values {
		if more := v - tr.answers[i]; more > 0 && known[i].what == countedAnswer {
			w.answers[tr.counters.service(known[i].a)] += more
		}
		tr.answers[i] = v
	}
}

// windowLocked returns the window of now; what is older than an hour is forgotten.
func (tr *traffic) windowLocked(now time.Time) *window {
	slot := int64(now.Sub(tr.made) / trafficWindow)
	if n := len(tr.windows); n > 0 {
		last := tr.windows[n-1]
		if last.slot >= slot {
			return last
		}
		last.close()
	}
	tr.windows = append(tr.windows, &window{slot: slot, open: newSketch(windowSketch), answers: map[series]uint64{}})
	tr.windows = slices.DeleteFunc(tr.windows, func(w *window) bool { return w.slot < slot-trafficWindows })
	return tr.windows[len(tr.windows)-1]
}

// close keeps of a window only what it holds.
func (w *window) close() {
	w.seen = make([]seen, 0, w.open.n)
	w.open.each(func(k sighting, sure uint64) { w.seen = append(w.seen, seen{k, sure}) })
	w.open = nil
}

func (w *window) each(f func(k sighting, queries uint64)) {
	if w.open != nil {
		w.open.each(f)
		return
	}
	for _, s := range w.seen {
		f(s.sighting, s.queries)
	}
}

// sum is an hour's windows added up.
type sum struct {
	queries  map[sighting]*NetworkTraffic
	services map[series]*ServiceTraffic
}

// sumLocked adds up the windows.
func (tr *traffic) sumLocked() sum {
	s := sum{queries: map[sighting]*NetworkTraffic{}, services: map[series]*ServiceTraffic{}}
	newest := tr.windows[len(tr.windows)-1].slot
	for _, w := range tr.windows {
		recent := w.slot >= newest-recentWindows
		w.each(func(k sighting, queries uint64) {
			n := s.queries[k]
			if n == nil {
				n = &NetworkTraffic{Prefix: unpackNetwork(k.network)}
				s.queries[k] = n
			}
			n.Queries += queries
			if sv := s.service(k.service); recent {
				if n.Recent == 0 {
					sv.RecentNetworks++
				}
				n.Recent += queries
				sv.More = sv.More || w.partly
			}
		})
		for service, n := range w.answers {
			sv := s.service(service)
			sv.Answers += n
			if recent {
				sv.Recent += n
			}
		}
	}
	return s
}

func (s *sum) service(n series) *ServiceTraffic {
	sv := s.services[n]
	if sv == nil {
		sv = &ServiceTraffic{}
		s.services[n] = sv
	}
	return sv
}

// Traffic returns what clients asked for in the last hour, with the networks that
// asked most, limit in all. It is for people: it takes milliseconds, and no worker
// waits for it.
func (s *Server) Traffic(limit int) Traffic { return s.traffic.read(time.Now(), limit) }

func (tr *traffic) read(now time.Time, limit int) Traffic {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.gatherLocked(now)
	sum := tr.sumLocked()
	age := now.Sub(tr.made)
	whole := age % trafficWindow // of the window under way
	out := Traffic{Hour: min(age, trafficWindows*trafficWindow+whole), Recent: min(age, recentWindows*trafficWindow+whole)}
	pairs := make([]sighting, 0, len(sum.queries))
	for k := range sum.queries {
		pairs = append(pairs, k)
	}
	slices.SortFunc(pairs, func(a, b sighting) int {
		return cmp.Or(cmp.Compare(sum.queries[b].Queries, sum.queries[a].Queries), cmp.Compare(a.network, b.network), cmp.Compare(a.service, b.service))
	})
	for _, k := range pairs[:min(limit, len(pairs))] {
		sv := sum.services[k.service]
		sv.Networks = append(sv.Networks, *sum.queries[k])
	}
	for n, sv := range sum.services {
		sv.Service = tr.counters.nameOf(n)
		out.Services = append(out.Services, *sv)
	}
	slices.SortFunc(out.Services, func(a, b ServiceTraffic) int { return cmp.Compare(a.Service, b.Service) })
	return out
}
