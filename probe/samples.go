package probe

import (
	"math"
	"slices"
	"time"
)

// keptResults is how many results a probe keeps for people to look at: one strip
// of the console.
const keptResults = 20

// kept is a Result as it is remembered: small and without pointers, since tens of
// thousands of probes keep twenty each. Durations lose what is below a microsecond.
type kept struct {
	at       int64  // nanoseconds of the wall clock
	expiry   uint32 // seconds, until 2106; 0: none
	took     uint32
	rtt      uint32
	reason   uint8 // index of resultReasons
	degraded uint8 // index of degradedWords
	ok       bool
}

// degradedWords are the values of Result.Degraded.
var degradedWords = [...]string{"", DegradedLatency, DegradedCert}

// ring holds the last results of a probe. It grows with what is put in, so that
// ten thousand new probes cost nothing.
type ring struct {
	results []kept
	details []string // of the results; nil while all are empty
	next    int
}

// clone returns a copy that goes its own way.
func (r *ring) clone() *ring {
	return &ring{results: slices.Clone(r.results), details: slices.Clone(r.details), next: r.next}
}

// reasonIndex returns the place of r in resultReasons, that of ReasonOther for one
// that is not there.
func reasonIndex(r Reason) uint8 {
	i := slices.Index(resultReasons[:], r)
	if i < 0 {
		i = slices.Index(resultReasons[:], ReasonOther)
	}
	return uint8(i)
}

func (r *ring) add(res Result, reason uint8) {
	k := kept{at: res.At.UnixNano(), took: inMicros(res.Took), rtt: inMicros(res.RTT), reason: reason, ok: res.OK}
	if !res.CertExpiry.IsZero() {
		k.expiry = uint32(min(max(res.CertExpiry.Unix(), 1), math.MaxUint32))
	}
	k.degraded = uint8(max(slices.Index(degradedWords[:], res.Degraded), 0))
	at := r.next
	if len(r.results) < keptResults {
		at = len(r.results)
		if at == cap(r.results) { // append would make room for more than are kept
			r.results = slices.Grow(r.results, min(max(at, 4), keptResults-at))
		}
		r.results = append(r.results, k)
	} else {
		r.results[at] = k
		r.next = (r.next + 1) % keptResults
	}
	if r.details == nil && res.Detail != "" {
		r.details = make([]string, keptResults)
	}
	if r.details != nil {
		r.details[at] = res.Detail
	}
}

func inMicros(d time.Duration) uint32 {
	return uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
}

// list returns the results, oldest first.
func (r *ring) list() []Result {
	out := make([]Result, 0, len(r.results))
	for i := range r.results {
		at := (r.next + i) % len(r.results)
		k := r.results[at]
		res := Result{
			At: time.Unix(0, k.at), Took: time.Duration(k.took) * time.Microsecond, RTT: time.Duration(k.rtt) * time.Microsecond,
			OK: k.ok, Reason: resultReasons[k.reason], Degraded: degradedWords[k.degraded],
		}
		if k.expiry != 0 {
			res.CertExpiry = time.Unix(int64(k.expiry), 0).UTC()
		}
		if r.details != nil {
			res.Detail = r.details[at]
		}
		out = append(out, res)
	}
	return out
}
