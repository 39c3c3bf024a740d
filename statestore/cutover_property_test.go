package statestore

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// No epoch of a service is ever used twice: not after an abort, not after the
// service was removed and came back, and not in a later generation.
func TestG2NoEpochIsUsedTwice(t *testing.T) {
	base := stateful(t)
	reached := map[string]int{}
	checkUntil(t, func(rt *rapid.T) {
		r := forked(t, base)
		used := map[uint64]string{1: "the beginning"} // by epoch, who used it
		var last, lastGeneration uint64 = 1, 1
		history(rt, r, 60, func(before *State, cmd Command, _ error) {
			use := func(epoch uint64, what string) {
				what = fmt.Sprintf("%s at entry %d", what, r.index)
				if by, taken := used[epoch]; taken {
					rt.Fatalf("epoch %d: used by %s and by %s", epoch, by, what)
				}
				used[epoch] = what
			}
			old, o := before.Ownership("db"), r.st().Ownership("db")
			if o == nil {
				return
			}
			reserved := uint64(0)
			if old != nil {
				reserved = old.Next
			}
			if o.Next != 0 && o.Next != reserved {
				use(o.Next, "a cutover that began")
			}
			if (old == nil || old.Epoch != o.Epoch) && o.Epoch != reserved {
				use(o.Epoch, "a new "+o.Active)
			}
			if o.Epoch < last || o.Generation < lastGeneration {
				rt.Fatalf("went back to generation %d epoch %d from %d %d", o.Generation, o.Epoch, lastGeneration, last)
			}
			if o.Epoch != last {
				reached[fmt.Sprintf("%T", cmd)]++
			}
			last, lastGeneration = o.Epoch, o.Generation
			if most := r.st().Epochs["db"]; most < o.Epoch || most < o.Next {
				rt.Fatalf("epoch %d or %d is above the highest known %d", o.Epoch, o.Next, most)
			}
		})
	}, func() bool {
		return min(reached["statestore.PublishCutover"], reached["statestore.AbortCutover"],
			reached["statestore.ConfirmActive"], reached["statestore.ApplySpec"]) > 0
	})
}

// checkUntil checks the property over and over until its histories have come to
// what they are to show; a property of histories in which nothing happens is none.
func checkUntil(t *testing.T, property func(*rapid.T), shown func() bool) {
	t.Helper()
	const rounds = 20 // One is enough with the usual number of checks.
	for range rounds {
		rapid.Check(t, property)
		if t.Failed() || shown() {
			return
		}
	}
	t.Fatal("the histories come to nothing")
}

// A stateful service answers with its active cluster and nothing else, and that
// changes only by a cutover, a person's confirmation, or by its creation.
func TestG3AStatefulServiceAnswersWithItsActiveSideOnly(t *testing.T) {
	base := stateful(t)
	published := 0
	checkUntil(t, func(rt *rapid.T) {
		r := forked(t, base)
		history(rt, r, 60, func(before *State, cmd Command, err error) {
			old, o := before.Ownership("db"), r.st().Ownership("db")
			if o == nil {
				return
			}
			s := r.st().Services["db"]
			if len(s.Rotation.V4.Shares) != 1 || s.Rotation.V4.Shares[0].Cluster != o.Active ||
				len(s.Rotation.V4.Shares[0].Endpoints) == 0 || s.Rotation.V4.AllDown != "" || len(s.Rotation.V6.Shares) > 0 {
				rt.Fatalf("entry %d (%T): %s is active, the answer is %+v", r.index, cmd, o.Active, s.Rotation)
			}
			if old == nil || old.Active == o.Active {
				return
			}
			switch c := cmd.(type) {
			case PublishCutover:
				published++
				co := r.st().Cutovers[c.ID]
				people := map[string]bool{}
				for _, s := range co.Signatures {
					people[s.Person] = true
					if s.Evidence != co.Digest {
						rt.Fatalf("%s moved by a signature over %s, its evidence is %s", co.ID, s.Evidence, co.Digest)
					}
				}
				if need := r.st().approvalPolicy("db").Required; len(people) < need || o.Epoch <= old.Epoch {
					rt.Fatalf("%s moved by %v of %d people, from epoch %d to %d", co.ID, people, need, old.Epoch, o.Epoch)
				}
			case ConfirmActive:
				if !old.Unconfirmed {
					rt.Fatalf("entry %d moved a service that was confirmed", r.index)
				}
			default:
				rt.Fatalf("entry %d (%T, %v) moved db from %s to %s", r.index, cmd, err, old.Active, o.Active)
			}
		})
	}, func() bool { return published > 10 })
}

// Whatever happens to a stateful installation, a snapshot at every entry and the
// whole log end in the same state; older states never change, and every change but
// bookkeeping has one audit record.
func TestG15StatefulSnapshotEqualsReplay(t *testing.T) {
	base := stateful(t)
	rapid.Check(t, func(rt *rapid.T) {
		r := forked(t, base)
		other := NewStoreAt(r.st()) // Goes through a snapshot at every entry.
		text := string(snapshotOf(t, r.st()))
		history(rt, r, 12, func(before *State, cmd Command, err error) {
			if text != string(snapshotOf(t, before)) {
				rt.Fatalf("entry %d (%T) changed an older state", r.index, cmd)
			}
			text = string(snapshotOf(t, r.st()))
			reread, rerr := ReadSnapshot(bytes.NewReader(snapshotOf(t, other.State())))
			require.NoError(rt, rerr)
			other = NewStoreAt(reread)
			oerr := other.Apply(r.index, r.term, r.log[len(r.log)-1]).Err
			if fmt.Sprint(err) != fmt.Sprint(oerr) {
				rt.Fatalf("entry %d: %v here, %v after a restore", r.index, err, oerr)
			}
			if r.st().Hash() != other.State().Hash() {
				rt.Fatalf("entry %d (%T): another hash after a restore\n%s\n%s", r.index, cmd, text, snapshotOf(t, other.State()))
			}
			invariants(rt, before, r.st())
			own := func(st *State) Ownership {
				if o := st.Ownership("db"); o != nil {
					return *o
				}
				return Ownership{}
			}
			if own(before) != own(r.st()) && (r.st().TableIndex != r.st().Index || before.Services["db"] == r.st().Services["db"]) {
				rt.Fatalf("entry %d (%T): another ownership behind the same table index or pointer", r.index, cmd)
			}
			if _, isAct := cmd.(act); err != nil && !isAct && r.st().Audit.Count != before.Audit.Count && len(voidedBy(before, r.st())) == 0 {
				rt.Fatalf("entry %d (%T) was refused (%v) and audited", r.index, cmd, err)
			}
		})
	})
}

// voidedBy returns the cutovers whose signatures the entry made void.
func voidedBy(before, st *State) (ids []string) {
	for id, co := range st.Cutovers {
		if old := before.Cutovers[id]; old != nil && co.Voided > old.Voided {
			ids = append(ids, id)
		}
	}
	return ids
}

// forked returns a rig that goes on from where base is.
func forked(t testing.TB, base *rig) *rig {
	return &rig{t: t, store: NewStoreAt(base.st()), index: base.index, term: base.term}
}

// A delivery is remembered without a record, and forgotten with its receiver.
func TestDeliveriesAreBookkeeping(t *testing.T) {
	with := func(sp *Spec) {
		sp.Notify.Receivers = map[string]*Receiver{"pager": {Webhook: &Webhook{URL: "https://pager.example.com/"}}}
	}
	r := stateful(t, with)
	count := r.st().Audit.Count
	r.must(NoteDelivery{Receiver: "pager", Index: 4})
	require.Equal(t, map[string]uint64{"pager": 4}, r.st().Delivered)
	require.Equal(t, count, r.st().Audit.Count)
	r.refuses(NoteDelivery{Receiver: "pager", Index: 4}, ErrStale, "was told up to event 4 already")
	r.refuses(NoteDelivery{Receiver: "pager", Index: r.index + 1}, ErrInvalid, "there is no event")
	got, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, r.st())))
	require.NoError(t, err)
	require.True(t, maps.Equal(r.st().Delivered, got.Delivered))
	r.must(ApplySpec{Base: 1, Spec: dbSpec()})
	require.Empty(t, r.st().Delivered)
}
