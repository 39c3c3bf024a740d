package lkg

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
)

// The floor file never grows: raising the floor must work on a full disk. It has
// two slots that are written in turn, so that a torn write leaves the other one.
// A slot is: CRC-32C of the rest, magic, write number, generation, number of
// services, the services by key, zeros up to slotSize, which is more than any
// disk's sector. A service is four numbers: key, generation, epoch, key of the
// active cluster. Little endian. The first release knew no services: zeros.
const (
	slotSize  = 64 << 10
	slotMagic = 0x51464c52 // "QFLR"
	slotHead  = 4 + 4 + 8 + 8 + 8
	slotEntry = 4 * 8

	// maxServices leaves the end of a slot free for what a later release may add.
	maxServices = 2000
)

func encodeSlot(write uint64, floor Floor) []byte {
	b := make([]byte, 0, slotSize)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, slotMagic)
	b = binary.LittleEndian.AppendUint64(b, write)
	b = binary.LittleEndian.AppendUint64(b, floor.Generation)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(floor.Services)))
	for _, key := range slices.Sorted(maps.Keys(floor.Services)) {
		m := floor.Services[key]
		for _, v := range []uint64{uint64(key), m.Generation, m.Epoch, uint64(m.Active)} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	b = b[:slotSize]
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

func parseSlot(b []byte) (write uint64, floor Floor, ok bool) {
	if len(b) != slotSize || crc32.Checksum(b[4:], castagnoli) != binary.LittleEndian.Uint32(b) || binary.LittleEndian.Uint32(b[4:]) != slotMagic {
		return 0, Floor{}, false
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	count := number(24)
	if count > (slotSize-slotHead)/slotEntry {
		return 0, Floor{}, false
	}
	floor.Generation = number(16)
	for i := range int(count) {
		if floor.Services == nil {
			floor.Services = map[Key]Mark{}
		}
		at := slotHead + i*slotEntry
		floor.Services[Key(number(at))] = Mark{Generation: number(at + 8), Epoch: number(at + 16), Active: Key(number(at + 24))}
	}
	return number(8), floor, true
}
