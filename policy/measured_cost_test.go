package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// What observers measured is looked at every second: while a hostname stands for what
// it stood for, that must not depend on how many services use it.
func TestASteadyHostnameCostsNothingPerService(t *testing.T) {
	allocs := func(services int) float64 {
		w := newWorld(t, testSpec(named, func(sp *statestore.Spec) {
			for i := range services {
				name := fmt.Sprint("s", i)
				sp.Services[name] = testService(name)
			}
		}), regions...)
		ms := resolvedBy([]string{"192.0.2.40"}, []string{"192.0.2.40"}, []string{"192.0.2.40"})
		for range 3 {
			for _, p := range Measured(w.st(), ms, time.Minute) {
				w.do(p.Command)
			}
		}
		st := w.st()
		require.Equal(t, addrs("192.0.2.40"), st.Spec.Clusters["dr"].IPv4)
		return testing.AllocsPerRun(5, func() { require.Empty(t, Measured(st, ms, time.Minute)) })
	}
	few, many := allocs(10), allocs(200)
	require.Less(t, many, few+100, "few services: %v allocations", few)
}
