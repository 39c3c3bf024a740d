package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// BenchmarkPlanOneOfTenThousand plans a spec of 10,000 services of which one changes.
func BenchmarkPlanOneOfTenThousand(b *testing.B) {
	old := testSpec(func(sp *statestore.Spec) {
		web := sp.Services["web"]
		for i := range 10_000 {
			s := *web
			s.Names = []string{fmt.Sprintf("s%d", i)}
			sp.Services[s.Names[0]] = &s
		}
	})
	w := newWorld(b, old, regions...)
	spec := clone(w.st().Spec, func(sp *statestore.Spec) { sp.Services["s7"].MinHealthy = 2 })
	for b.Loop() {
		d := DiffSpec(w.st(), spec)
		require.Len(b, d.Changes, 1)
		require.Empty(b, CheckSpec(w.st(), spec).Blockers)
	}
}
