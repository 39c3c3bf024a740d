package controller

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// What measurements make of the log is bounded, however they jump about: every entry
// is kept, and told to people, by every node.
func TestNoisyMeasurementsDoNotFillTheLog(t *testing.T) {
	rotating := []string{"192.0.2.20", "192.0.2.21", "192.0.2.22", "192.0.2.23"}
	tests := []struct {
		name string
		edit func(*statestore.Spec)
		say  func(r *rand.Rand, beat time.Duration) Measurement
		kind statestore.Kind
		most int
	}{
		{"a hostname that each resolver answers otherwise", named, func(r *rand.Rand, _ time.Duration) Measurement {
			return at(rotating[r.IntN(len(rotating))])
		}, statestore.KindResolveCluster, 130},
		{"a hostname whose only address goes round", named, func(_ *rand.Rand, beat time.Duration) Measurement {
			return at(rotating[int(beat/(5*time.Second))%len(rotating)])
		}, statestore.KindResolveCluster, 130},
		{"a capacity that goes up and down", reporting, func(_ *rand.Rand, beat time.Duration) Measurement {
			return takes([]float64{20, 80, 0}[int(beat/(5*time.Second))%3])
		}, statestore.KindReportCapacity, 370},
		{"round trips that jump", ranked, func(r *rand.Rand, _ time.Duration) Measurement {
			return away(time.Duration(1+r.IntN(200))*time.Millisecond, time.Duration(1+r.IntN(200))*time.Millisecond)
		}, statestore.KindMeasureLatency, 370},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				r := rand.New(rand.NewPCG(1, 2))
				start := time.Now()
				l := measuring(t, func(string) Measurement {
					mu.Lock()
					defer mu.Unlock()
					return tt.say(r, time.Since(start))
				}, tt.edit)
				defer l.resign()
				l.forget()
				time.Sleep(time.Hour)
				n := len(l.proposed(tt.kind))
				require.LessOrEqual(t, n, tt.most, "entries in an hour")
				require.Positive(t, n)
			})
		})
	}
}
