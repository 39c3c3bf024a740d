package routing

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// respelled is the state under a spec that was decoded anew, as Apply leaves it.
func respelled(t testing.TB, st *statestore.State, edit func(*statestore.Zone)) *statestore.State {
	t.Helper()
	text, err := json.Marshal(st.Spec)
	require.NoError(t, err)
	next := *st
	next.Spec, next.TableIndex = new(statestore.Spec), st.TableIndex+1
	require.NoError(t, json.Unmarshal(text, next.Spec))
	edit(next.Spec.Zones[testZone])
	return &next
}

func TestUpdateReadsOnlyRecordsThatChanged(t *testing.T) {
	before := compile(t, testState())
	st := respelled(t, testState(), func(z *statestore.Zone) {
		z.Records["x.wild"]["TXT"] = []string{"another"}
		z.TTLs = map[string]map[string]uint32{"deep.empty": {"TXT": 7}}
		delete(z.Records, "status")
	})
	after, err := Update(before, st, Local{})
	require.NoError(t, err)
	set := func(t *Table, name string) *RRset { return t.layout.names[name].sets[0] }
	require.Same(t, set(before, "*.wild.gslb.test."), set(after, "*.wild.gslb.test."))
	require.Equal(t, []string{`"another"`}, set(after, "x.wild.gslb.test.").Text)
	require.EqualValues(t, 7, set(after, "deep.empty.gslb.test.").TTL)
	require.EqualValues(t, staticTTL, set(before, "deep.empty.gslb.test.").TTL, "the old table stays as it was")
	require.Nil(t, after.layout.names["status.gslb.test."])
	fresh := compile(t, st)
	require.Equal(t, fresh.layout, after.layout)
}

// BenchmarkLargeZone lays out 10,000 names: anew, and where one of them changed.
func BenchmarkLargeZone(b *testing.B) {
	st := testState()
	for i := range 10_000 {
		st.Spec.Zones[testZone].Records[fmt.Sprintf("host-%05d", i)] = map[string][]string{
			"A": {fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255)}, "TXT": {"some text"},
		}
	}
	next := respelled(b, st, func(z *statestore.Zone) { z.Records["host-00007"]["A"] = []string{"192.0.2.9"} })
	table, err := Compile(st)
	require.NoError(b, err)
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			_, _ = Compile(st)
		}
	})
	b.Run("one changed", func(b *testing.B) {
		for b.Loop() {
			_, _ = Update(table, next, Local{})
		}
	})
}
