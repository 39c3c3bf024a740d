package lkg

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/quorate/quorate/statestore"
)

// record is one applied log entry. Raft's indexes have gaps where it keeps its
// own entries, so each record names the index it follows.
type record struct {
	prev, index, term uint64
	data              []byte
}

// A record on disk is: length of the data, CRC-32C of what follows it, the three
// numbers, the data. Little endian.
const recordHead = 4 + 4 + 3*8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r record) append(to []byte) []byte {
	start := len(to)
	to = binary.LittleEndian.AppendUint32(to, uint32(len(r.data)))
	to = binary.LittleEndian.AppendUint32(to, 0)
	to = binary.LittleEndian.AppendUint64(to, r.prev)
	to = binary.LittleEndian.AppendUint64(to, r.index)
	to = binary.LittleEndian.AppendUint64(to, r.term)
	to = append(to, r.data...)
	sum := crc32.Checksum(to[start+8:], castagnoli)
	binary.LittleEndian.PutUint32(to[start+4:], sum)
	return to
}

// parseRecord reads the first record of data and returns what follows it.
func parseRecord(data []byte) (r record, rest []byte, err error) {
	if len(data) < recordHead {
		return r, nil, errors.New("torn record")
	}
	n := uint64(binary.LittleEndian.Uint32(data))
	if uint64(len(data)-recordHead) < n {
		return r, nil, errors.New("torn record")
	}
	end := recordHead + int(n)
	if crc32.Checksum(data[8:end], castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return r, nil, errors.New("checksum of a record does not match")
	}
	r = record{
		prev:  binary.LittleEndian.Uint64(data[8:]),
		index: binary.LittleEndian.Uint64(data[16:]),
		term:  binary.LittleEndian.Uint64(data[24:]),
		data:  data[recordHead:end],
	}
	return r, data[end:], nil
}

// flush writes and syncs what is pending, or a new base where one is due.
func (f *File) flush(current func() *statestore.State) error {
	f.mu.Lock()
	pending, base := f.pending, f.rebase
	f.broken = f.broken || f.hole
	f.pending, f.bytes, f.rebase, f.hole = nil, 0, nil, false
	f.mu.Unlock()
	if base == nil && len(pending) == 0 && !f.owed {
		return nil
	}
	if base == nil && !f.broken && f.size < f.limit {
		return f.write(pending)
	}
	if base == nil {
		base = current()
	}
	return f.writeBase(base, pending)
}

// write appends records to the journal.
func (f *File) write(records []record) error {
	var buf []byte
	for _, r := range records {
		buf = r.append(buf)
	}
	if f.journal == nil {
		file, err := os.OpenFile(f.path(journalName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			f.broken = true
			return fmt.Errorf("create journal: %w", err)
		}
		f.journal, f.size = file, 0
	}
	n, err := f.journal.Write(buf)
	f.size += int64(n)
	if err == nil {
		err = f.journal.Sync()
	}
	if err != nil {
		// Neither the end of the file nor what a failed sync kept is known now, so
		// nothing is appended there any more.
		f.broken = true
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// writeBase makes st the base. Entries up to its index go to the journal before
// it, for the sake of the previous base; later ones begin the next journal.
func (f *File) writeBase(st *statestore.State, pending []record) error {
	var before, after []record
	for _, r := range pending {
		if r.index <= st.Index {
			before = append(before, r)
		} else {
			after = append(after, r)
		}
	}
	if !f.broken && len(before) > 0 {
		if err := f.write(before); err != nil {
			f.log.Warn("last known good state: writing a base instead", keyErr, err)
		}
	}
	if err := f.replaceBase(st); err != nil {
		// The journal goes on where it can; else the next flush tries a base again.
		f.broken = true
		return err
	}
	if fl := f.Floor(); st.Generation > fl.Generation {
		if err := f.SetFloor(Floor{Generation: st.Generation}); err != nil {
			return err
		}
	}
	if len(after) == 0 {
		return nil
	}
	return f.write(after)
}

// replaceBase writes st beside the base, syncs it, and rotates both pairs. After
// a crash between any two steps, Load still finds a base and the records after it.
func (f *File) replaceBase(st *statestore.State) error {
	temp := f.path(baseName + tempSuffix)
	if err := writeSynced(temp, st); err != nil {
		return fmt.Errorf("write base: %w", err)
	}
	if f.journal != nil {
		_ = f.journal.Close() // Everything in it was synced, or it is broken.
		f.journal = nil
	}
	for _, move := range [][2]string{
		{baseName, baseName + prevSuffix},
		{baseName + tempSuffix, baseName},
		{journalName, journalName + prevSuffix},
	} {
		err := os.Rename(f.path(move[0]), f.path(move[1]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write base: %w", err)
		}
	}
	f.size, f.broken = 0, false
	f.mu.Lock()
	if f.rebase == nil {
		f.life = lifeOf(st)
	}
	f.mu.Unlock()
	return syncDir(f.dir)
}

func writeSynced(path string, st *statestore.State) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buf := bufio.NewWriterSize(file, 1<<16)
	if err := statestore.WriteSnapshot(buf, st); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	return file.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
