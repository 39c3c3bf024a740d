package lkg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Floor is what this node must never go below, restarts included (G2).
type Floor struct {
	Generation uint64
}

// The floor file never grows: raising the floor must work on a full disk. It has
// two slots that are written in turn, so that a torn write leaves the other one.
// A slot is: CRC-32C of the rest, magic, write number, generation, zeros up to
// slotSize, which is more than any disk's sector.
const (
	slotSize  = 64 << 10
	slotMagic = 0x51464c52 // "QFLR"
)

type floorFile struct {
	file  *os.File
	slot  int    // written last
	write uint64 // its write number
	floor Floor
}

func (ff *floorFile) open(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open floor: %w", err)
	}
	ff.file = file
	data := make([]byte, 2*slotSize)
	n, err := io.ReadFull(file, data)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		// New: write both slots, so that the blocks exist from now on.
		for range 2 {
			if err := ff.set(Floor{}); err != nil {
				return errors.Join(err, file.Close())
			}
		}
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return errors.Join(fmt.Errorf("read floor %s: %w", path, err), file.Close())
	}
	found := false
	for slot := range 2 {
		write, floor, ok := parseSlot(data[slot*slotSize : (slot+1)*slotSize])
		if ok && (!found || write > ff.write) {
			found, ff.slot, ff.write, ff.floor = true, slot, write, floor
		}
	}
	if !found {
		return errors.Join(fmt.Errorf("read floor %s: both slots are damaged; without it this node may go back", path), file.Close())
	}
	return nil
}

func parseSlot(b []byte) (write uint64, floor Floor, ok bool) {
	if crc32.Checksum(b[4:], castagnoli) != binary.LittleEndian.Uint32(b) || binary.LittleEndian.Uint32(b[4:]) != slotMagic {
		return 0, Floor{}, false
	}
	return binary.LittleEndian.Uint64(b[8:]), Floor{Generation: binary.LittleEndian.Uint64(b[16:])}, true
}

// set writes the slot that was not written last.
func (ff *floorFile) set(floor Floor) error {
	b := make([]byte, slotSize)
	slot := 1 - ff.slot
	binary.LittleEndian.PutUint32(b[4:], slotMagic)
	binary.LittleEndian.PutUint64(b[8:], ff.write+1)
	binary.LittleEndian.PutUint64(b[16:], floor.Generation)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	if _, err := ff.file.WriteAt(b, int64(slot)*slotSize); err != nil {
		return fmt.Errorf("write floor: %w", err)
	}
	if err := ff.file.Sync(); err != nil {
		return fmt.Errorf("write floor: %w", err)
	}
	ff.slot, ff.write, ff.floor = slot, ff.write+1, floor
	return nil
}

func (ff *floorFile) close() error {
	if ff.file == nil {
		return nil
	}
	return ff.file.Close()
}

// Floor returns the floor record.
func (f *File) Floor() Floor {
	f.floorMu.Lock()
	defer f.floorMu.Unlock()
	return f.floor.floor
}

// SetFloor raises the floor; it is on disk when SetFloor returns nil. A lower
// one is refused.
func (f *File) SetFloor(fl Floor) error {
	f.floorMu.Lock()
	defer f.floorMu.Unlock()
	if fl.Generation < f.floor.floor.Generation {
		return fmt.Errorf("set floor to generation %d: is %d already", fl.Generation, f.floor.floor.Generation)
	}
	if fl == f.floor.floor {
		return nil
	}
	return f.floor.set(fl)
}
