package routing

import (
	"fmt"
	"maps"
	"testing"

	"github.com/quorate/quorate/statestore"
)

// BenchmarkSelect picks an answer of a weighted service.
func BenchmarkSelect(b *testing.B) {
	table := compile(b, testState())
	q := query("web.gslb.test.", "A")
	for b.Loop() {
		q.Draw = mix(q.Draw)
		Select(table, q)
	}
}

// BenchmarkUpdate swaps one service's entry among 10,000.
func BenchmarkUpdate(b *testing.B) {
	st := testState()
	for i := range 10000 {
		name := fmt.Sprintf("s%05d", i)
		st.Spec.Services[name] = testService(statestore.Weighted, name)
		run := *st.Services["web"]
		st.Services[name] = &run
	}
	table := compile(b, st)
	for b.Loop() {
		next := *st
		next.Services = maps.Clone(st.Services)
		run := *st.Services["web"]
		run.Rotation.Number = table.Index
		next.Services["web"] = &run
		next.TableIndex++
		var err error
		if table, err = Update(table, &next, Local{}); err != nil {
			b.Fatal(err)
		}
		st = &next
	}
}
