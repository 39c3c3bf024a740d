package lkg

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Floor is what this node must never go below, restarts included (G2). It is
// immutable once it was handed out.
type Floor struct {
	Generation uint64
	Services   map[Key]Mark // by KeyOf the service; it outlives the service
}

// Key stands for a name in the floor record, whose entries have a fixed size.
type Key uint64

// KeyOf returns the key of a service or cluster. It is never zero.
func KeyOf(name string) Key {
	sum := sha256.Sum256([]byte(name))
	return Key(max(1, binary.LittleEndian.Uint64(sum[:])))
}

// Mark is how far this node has gone with one stateful service: the highest epoch
// that it has answered with or acknowledged.
type Mark struct {
	Generation uint64
	Epoch      uint64
	Active     Key // the cluster it answers with; zero: nobody, while a cutover is under way
}

// Compare orders two marks: by generation, then by epoch, then nobody before a cluster.
func (m Mark) Compare(o Mark) int {
	return cmp.Or(cmp.Compare(m.Generation, o.Generation), cmp.Compare(m.Epoch, o.Epoch), cmp.Compare(min(1, m.Active), min(1, o.Active)))
}

// Allows reports whether a node with this mark may go to next: not back, and under
// one epoch never from one cluster to another.
func (m Mark) Allows(next Mark) bool {
	c := m.Compare(next)
	return c < 0 || c == 0 && m.Active == next.Active
}

// ErrFloorFull is returned for services that the floor file has no room for.
var ErrFloorFull = errors.New("the floor file is full")

// errSinks is returned for what would lower the floor.
var errSinks = errors.New("the floor never sinks")

type floorFile struct {
	file  slots
	lost  bool   // there was one, and it says nothing any more
	slot  int    // written last
	write uint64 // its write number
}

// slots is the file that holds the two slots.
type slots interface {
	WriteAt(p []byte, off int64) (int, error)
	Sync() error
	Close() error
}

func (ff *floorFile) open(path string) (*Floor, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open floor: %w", err)
	}
	ff.file = file
	floor, err := ff.load(path)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return floor, nil
}

func (ff *floorFile) load(path string) (*Floor, error) {
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read floor %s: %w", path, err)
	case len(data) == 0:
		// New: write both slots, so that the blocks exist from now on.
		if err := errors.Join(ff.set(Floor{}), ff.set(Floor{})); err != nil {
			return nil, err
		}
		return &Floor{}, nil
	}
	var found *Floor
	for slot := range 2 {
		from := min(slot*slotSize, len(data))
		write, floor, ok := parseSlot(data[from:min(from+slotSize, len(data))])
		if ok && (found == nil || write > ff.write) {
			found, ff.slot, ff.write = &floor, slot, write
		}
	}
	if found == nil {
		// It is written anew with the next epoch.
		ff.lost = true
		return &Floor{}, nil
	}
	return found, nil
}

// set writes the slot that was not written last. After a failure the other slot
// still stands, and the next write goes to the same one again.
func (ff *floorFile) set(floor Floor) error {
	slot := 1 - ff.slot
	if _, err := ff.file.WriteAt(encodeSlot(ff.write+1, floor), int64(slot)*slotSize); err != nil {
		return fmt.Errorf("write floor: %w", err)
	}
	if err := ff.file.Sync(); err != nil {
		return fmt.Errorf("write floor: %w", err)
	}
	ff.slot, ff.write = slot, ff.write+1
	return nil
}

func (ff *floorFile) close() error {
	if ff.file == nil {
		return nil
	}
	return ff.file.Close()
}

// Floor returns the floor as it is on disk. It never blocks.
func (f *File) Floor() Floor {
	if fl := f.durable.Load(); fl != nil {
		return *fl
	}
	return Floor{}
}

// FloorLost reports whether what this node went to in earlier runs is not known any
// more: the floor file was damaged or is gone, and there is a state that it belonged
// to. Until the node has heard what is so now, that state may be older than what it
// answered with before.
func (f *File) FloorLost() bool { return f.floor.lost }

// SetFloor raises the generation and the services' marks that fl holds and leaves
// the others as they are; a generation of zero stays too. It is on disk when
// SetFloor returns nil. What would sink is refused, and nothing is raised then; a
// service for which there is no room is named by the error, and the others are raised.
func (f *File) SetFloor(fl Floor) error {
	f.floorMu.Lock()
	defer f.floorMu.Unlock()
	now := f.Floor()
	next, err := now.raised(fl)
	if err != nil && !errors.Is(err, ErrFloorFull) {
		return err
	}
	if next.Generation == now.Generation && maps.Equal(next.Services, now.Services) {
		return err
	}
	if err := f.floor.set(next); err != nil {
		return err
	}
	f.durable.Store(&next)
	return err
}

// raised returns the floor with what to holds.
func (fl Floor) raised(to Floor) (Floor, error) {
	next := Floor{Generation: max(fl.Generation, to.Generation), Services: maps.Clone(fl.Services)}
	if to.Generation != 0 && to.Generation < fl.Generation {
		return fl, fmt.Errorf("set floor to generation %d: is %d already; %w", to.Generation, fl.Generation, errSinks)
	}
	if next.Services == nil && len(to.Services) > 0 {
		next.Services = make(map[Key]Mark, len(to.Services))
	}
	left := 0
	for _, key := range slices.Sorted(maps.Keys(to.Services)) {
		mark := to.Services[key]
		old, had := fl.Services[key]
		switch {
		case had && !old.Allows(mark):
			return fl, fmt.Errorf("set floor of a service to generation %d, epoch %d: is at %d, %d already; %w",
				mark.Generation, mark.Epoch, old.Generation, old.Epoch, errSinks)
		case !had && len(next.Services) == maxServices:
			left++
			continue
		}
		next.Services[key] = mark
	}
	if left > 0 {
		return next, fmt.Errorf("%w: it holds %d stateful services, removed ones included, and has no room for %d more", ErrFloorFull, maxServices, left)
	}
	return next, nil
}

// ForgetFloor starts the floor anew, for a directory that belongs to another
// installation now.
func (f *File) ForgetFloor() error {
	f.floorMu.Lock()
	defer f.floorMu.Unlock()
	// Both slots: a torn one must not bring the old floor back.
	if err := errors.Join(f.floor.set(Floor{}), f.floor.set(Floor{})); err != nil {
		return err
	}
	f.durable.Store(&Floor{})
	return nil
}
