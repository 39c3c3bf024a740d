package lkg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func marks(service string, m Mark) map[Key]Mark { return map[Key]Mark{KeyOf(service): m} }

func TestFloorOfTheGeneration(t *testing.T) {
	r := newRig(t)
	require.Equal(t, Floor{}, r.file.Floor())
	require.NoError(t, r.file.SetFloor(Floor{Generation: 2}))
	require.NoError(t, r.file.SetFloor(Floor{Generation: 3}))
	require.Error(t, r.file.SetFloor(Floor{Generation: 2}), "the floor never sinks")
	require.Equal(t, Floor{Generation: 3}, r.open().Floor())
}

func TestFloorOfServices(t *testing.T) {
	eu, us := KeyOf("eu"), KeyOf("us")
	tests := []struct {
		name     string
		from, to Mark
		allowed  bool
	}{
		{"the first", Mark{}, Mark{1, 1, eu}, true},
		{"the same again", Mark{1, 12, eu}, Mark{1, 12, eu}, true},
		{"a cutover begins", Mark{1, 12, eu}, Mark{1, 13, 0}, true},
		{"and is published under the epoch it reserved", Mark{1, 13, 0}, Mark{1, 13, us}, true},
		{"or aborted under another", Mark{1, 13, 0}, Mark{1, 14, eu}, true},
		{"another generation, whatever the epoch", Mark{1, 13, us}, Mark{2, 1, eu}, true},
		{"an epoch back", Mark{1, 13, us}, Mark{1, 12, eu}, false},
		{"a generation back", Mark{2, 1, us}, Mark{1, 13, us}, false},
		{"the other side of one epoch", Mark{1, 13, us}, Mark{1, 13, eu}, false},
		{"published and then nobody", Mark{1, 13, us}, Mark{1, 13, 0}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			if tt.from != (Mark{}) {
				require.NoError(t, r.file.SetFloor(Floor{Services: marks("db", tt.from)}))
			}
			err := r.file.SetFloor(Floor{Services: marks("db", tt.to)})
			want := tt.to
			if !tt.allowed {
				require.ErrorIs(t, err, errSinks)
				want = tt.from
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, want, r.file.Floor().Services[KeyOf("db")])
			require.Equal(t, want, r.open().Floor().Services[KeyOf("db")], "after a restart")
		})
	}
}

// TestG2NoServiceSinks raises at random, with restarts and torn writes in between,
// and compares with the highest that was ever acknowledged.
func TestG2NoServiceSinks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "floor")
		require.NoError(rt, err)
		f, err := Open(dir, nil)
		require.NoError(rt, err)
		defer func() { _ = f.Close() }()
		acknowledged := map[Key]Mark{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			next := map[Key]Mark{}
			for range rapid.IntRange(1, 3).Draw(rt, "services") {
				next[Key(rapid.Uint64Range(1, 4).Draw(rt, "service"))] = Mark{
					rapid.Uint64Range(1, 2).Draw(rt, "generation"), rapid.Uint64Range(1, 5).Draw(rt, "epoch"), Key(rapid.Uint64Range(0, 2).Draw(rt, "active")),
				}
			}
			if f.SetFloor(Floor{Services: next}) == nil {
				for k, m := range next {
					require.True(rt, acknowledged[k] == Mark{} || acknowledged[k].Allows(m), "%v after %v", m, acknowledged[k])
					acknowledged[k] = m
				}
			}
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, f.Close())
				f, err = Open(dir, nil)
				require.NoError(rt, err)
			}
			require.Equal(rt, acknowledged, maps.Collect(maps.All(f.Floor().Services)))
		}
	})
}

// tornSlots writes only the first bytes of a slot, then fails.
type tornSlots struct {
	slots
	after int
	sync  error
}

func (s *tornSlots) WriteAt(p []byte, off int64) (int, error) {
	if s.after >= len(p) {
		return s.slots.WriteAt(p, off)
	}
	n, _ := s.slots.WriteAt(p[:s.after], off)
	return n, errors.New("input/output error")
}

func (s *tornSlots) Sync() error { return s.sync }

func TestATornWriteLeavesTheFloorBefore(t *testing.T) {
	before, after := Mark{1, 12, KeyOf("eu")}, Mark{1, 14, KeyOf("us") | 1<<63}
	for _, cut := range []int{0, 1, 4, 8, 16, 24, 31, 32, 40, 63, 64, 512, slotSize - 1} {
		t.Run(fmt.Sprintf("after %d bytes", cut), func(t *testing.T) {
			r := newRig(t)
			require.NoError(t, r.file.SetFloor(Floor{Services: marks("db", before)}))
			whole := r.file.floor.file
			r.file.floor.file = &tornSlots{slots: whole, after: cut}
			for range 3 { // each try goes to the same slot: the other one is never at risk
				require.Error(t, r.file.SetFloor(Floor{Services: marks("db", after)}))
			}
			require.Equal(t, before, r.file.Floor().Services[KeyOf("db")], "what is not on disk does not count")
			want := before
			if cut >= slotHead+slotEntry {
				want = after // all that differs has landed: higher than acknowledged is safe
			}
			require.Equal(t, want, r.open().Floor().Services[KeyOf("db")])
			r.file.floor.file = whole
			require.NoError(t, r.file.SetFloor(Floor{Services: marks("db", after)}))
			require.Equal(t, after, r.open().Floor().Services[KeyOf("db")])
		})
	}
}

func TestAFailedSyncDoesNotCount(t *testing.T) {
	r := newRig(t)
	r.file.floor.file = &tornSlots{slots: r.file.floor.file, after: slotSize, sync: errors.New("input/output error")}
	require.ErrorContains(t, r.file.SetFloor(Floor{Services: marks("db", Mark{1, 1, 7})}), "write floor: input/output error")
	require.Empty(t, r.file.Floor().Services)
}

func TestAFlippedBitCostsAtMostOneSlot(t *testing.T) {
	r := newRig(t)
	for epoch := range uint64(4) {
		require.NoError(t, r.file.SetFloor(Floor{Services: marks("db", Mark{1, epoch + 1, 7})}))
	}
	data, err := os.ReadFile(r.path(floorName))
	require.NoError(t, err)
	last := r.file.floor.slot * slotSize
	for _, at := range []int{0, 5, 9, 17, 25, 33, 41, 49, 57, 64, slotSize - 1} {
		bad := bytes.Clone(data)
		bad[last+at] ^= 0x10
		require.NoError(t, os.WriteFile(r.path(floorName), bad, 0o600))
		require.EqualValues(t, 3, r.open().Floor().Services[KeyOf("db")].Epoch, "byte %d", at)
	}
	bad := bytes.Clone(data)
	bad[20], bad[slotSize+20] = bad[20]^1, bad[slotSize+20]^1
	require.NoError(t, os.WriteFile(r.path(floorName), bad, 0o600))
	lost := r.open()
	require.Empty(t, lost.Floor().Services)
	require.True(t, lost.FloorLost())
	require.NoError(t, lost.SetFloor(Floor{Services: marks("db", Mark{1, 5, 7})}))
	require.EqualValues(t, 5, r.open().Floor().Services[KeyOf("db")].Epoch, "it is written anew")
}

// A floor that is gone is not one that was never needed.
func TestALostFloorIsNoNewOne(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, path string)
		lost   bool
	}{
		{"as it was", func(*testing.T, string) {}, false},
		{"removed", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, true},
		{"emptied", func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) }, true},
		{"cut short", func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, slotSize/2)) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			require.False(t, r.file.FloorLost(), "there is no state yet")
			r.apply(1)
			r.flush()
			tt.damage(t, r.path(floorName))
			require.Equal(t, tt.lost, r.open().FloorLost())
		})
	}
}

func TestTheFloorFileNeverGrows(t *testing.T) {
	r := newRig(t)
	info, err := os.Stat(r.path(floorName))
	require.NoError(t, err)
	many := map[Key]Mark{}
	for i := range maxServices {
		many[KeyOf(fmt.Sprint("service-", i))] = Mark{1, 1, 7}
	}
	require.NoError(t, r.file.SetFloor(Floor{Generation: 1, Services: many}))
	more := maps.Clone(many)
	more[KeyOf("one-more")] = Mark{1, 1, 7}
	more[KeyOf("service-0")] = Mark{1, 2, 0}
	err = r.file.SetFloor(Floor{Services: more})
	require.ErrorIs(t, err, ErrFloorFull)
	require.ErrorContains(t, err, "it holds 2000 stateful services, removed ones included, and has no room for 1 more")
	floor := r.open().Floor()
	require.Len(t, floor.Services, maxServices)
	require.EqualValues(t, 2, floor.Services[KeyOf("service-0")].Epoch, "what has its place is raised")
	after, err := os.Stat(r.path(floorName))
	require.NoError(t, err)
	require.Equal(t, info.Size(), after.Size())
	require.EqualValues(t, 2*slotSize, after.Size())
}

// TestAFloorOfTheFirstReleaseIsRead: it held a generation and zeros.
func TestAFloorOfTheFirstReleaseIsRead(t *testing.T) {
	r := newRig(t)
	file := make([]byte, 2*slotSize)
	for slot := range 2 {
		b := file[slot*slotSize : (slot+1)*slotSize]
		binary.LittleEndian.PutUint32(b[4:], slotMagic)
		binary.LittleEndian.PutUint64(b[8:], uint64(slot)+1)
		binary.LittleEndian.PutUint64(b[16:], uint64(slot)+4)
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	}
	require.NoError(t, os.WriteFile(r.path(floorName), file, 0o600))
	f := r.open()
	require.Equal(t, Floor{Generation: 5}, f.Floor())
	require.NoError(t, f.SetFloor(Floor{Services: marks("db", Mark{5, 1, 7})}))
	require.Equal(t, Floor{Generation: 5, Services: marks("db", Mark{5, 1, 7})}, r.open().Floor())
}

func TestAForgottenFloorStaysForgotten(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.file.SetFloor(Floor{Generation: 3, Services: marks("db", Mark{3, 9, 7})}))
	require.NoError(t, r.file.ForgetFloor())
	require.Equal(t, Floor{}, r.file.Floor())
	data, err := os.ReadFile(r.path(floorName))
	require.NoError(t, err)
	data[r.file.floor.slot*slotSize+9] ^= 1
	require.NoError(t, os.WriteFile(r.path(floorName), data, 0o600))
	require.Equal(t, Floor{}, r.open().Floor(), "nor does a torn slot bring it back")
}

func TestABaseRaisesTheGenerationOnly(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.file.SetFloor(Floor{Services: marks("db", Mark{1, 9, 7})}))
	r.apply(2)
	r.flush()
	require.Equal(t, Floor{Generation: 1, Services: marks("db", Mark{1, 9, 7})}, r.open().Floor())
}

// FuzzSlot: whatever a slot holds, it is refused or comes back as it was read.
func FuzzSlot(f *testing.F) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 7, maxServices} {
		floor := Floor{Generation: draw.Uint64()}
		for range n {
			if floor.Services == nil {
				floor.Services = map[Key]Mark{}
			}
			floor.Services[Key(draw.Uint64())] = Mark{draw.Uint64(), draw.Uint64(), Key(draw.Uint64())}
		}
		f.Add(encodeSlot(uint64(n), floor)[:slotHead+n*slotEntry], true)
	}
	f.Add([]byte("garbage"), false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		b := make([]byte, slotSize)
		copy(b, data)
		if seal { // a checksum that holds lets the rest through
			binary.LittleEndian.PutUint32(b[4:], slotMagic)
			binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
		}
		write, floor, ok := parseSlot(b)
		if !ok {
			return
		}
		again, same, ok := parseSlot(encodeSlot(write, floor))
		if !ok || again != write || same.Generation != floor.Generation || !maps.Equal(same.Services, floor.Services) {
			t.Errorf("slot reads as %d %v, and when written again as %d %v (%v)", write, floor, again, same, ok)
		}
	})
}
