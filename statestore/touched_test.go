package statestore

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// namesWhatDiffers: where a state can tell what was changed since an earlier one, it
// leaves no service out; and since the one just before it, it can, spec aside.
func namesWhatDiffers(rt *rapid.T, past []*State, st *State) {
	for i, earlier := range past {
		names, ok := st.ServicesSince(earlier)
		if !ok {
			if i == len(past)-1 && i > 0 && earlier.Spec == st.Spec {
				rt.Fatalf("entry %d: nothing is told of the services since entry %d", st.Index, earlier.Index)
			}
			continue
		}
		for name, s := range st.Services {
			if s != earlier.Services[name] && !slices.Contains(names, name) {
				rt.Fatalf("entry %d: %s differs from entry %d and is not named", st.Index, name, earlier.Index)
			}
		}
		if len(st.Services) != len(earlier.Services) {
			rt.Fatalf("entry %d: %d services, %d in entry %d, and that is not told", st.Index, len(st.Services), len(earlier.Services), earlier.Index)
		}
	}
}

func TestServicesSince(t *testing.T) {
	first := &State{}
	first.setServices(map[string]*ServiceState{"a": {}, "b": {}, "c": {}})
	replaced := func(st *State, names ...string) *State {
		next := *st
		next.renewServices()
		for _, name := range names {
			next.putService(name, &ServiceState{})
		}
		return &next
	}
	since := func(st, earlier *State) string {
		names, ok := st.ServicesSince(earlier)
		return fmt.Sprint(names, ok)
	}
	second := replaced(first, "a")
	third := replaced(second, "b", "c")
	require.Equal(t, "[] true", since(first, first))
	require.Equal(t, "[a] true", since(second, first))
	require.Equal(t, "[b c a] true", since(third, first))
	require.Equal(t, "[] false", since(first, second), "an earlier state knows nothing of a later one")

	// Of two entries that both follow one state, neither knows of the other.
	other := replaced(second, "a")
	require.Equal(t, "[] false", since(other, third))
	require.Equal(t, "[b c] true", since(third, second), "and the first one is as it was")

	// A state whose services somebody replaced by hand tells nothing of them.
	byHand := *third
	byHand.Services = maps.Clone(third.Services)
	byHand.Services["a"] = &ServiceState{}
	require.Equal(t, "[] false", since(&byHand, first))
	require.Equal(t, "[] false", since(&byHand, third))
	require.Equal(t, "[] false", since(replaced(&byHand, "b"), third))

	many := *third
	many.renewServices()
	for range maxTouched + 1 {
		many.putService("a", &ServiceState{})
	}
	require.Equal(t, "[] false", since(&many, third))

	long := third
	for range maxSteps {
		long = replaced(long, "c")
	}
	_, ok := long.ServicesSince(third)
	require.True(t, ok)
	require.Equal(t, "[] false", since(replaced(long, "c"), third))
	require.Len(t, long.touched.steps, maxSteps)
}
