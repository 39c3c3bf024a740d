package statestore

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
)

// A snapshot is text: a header line, one line a record in order of their keys,
// and a trailer with the SHA-256 of everything before it. The state's hash is
// over the record lines alone.
const (
	snapshotMagic   = "quorate-snapshot"
	snapshotFormat  = 1
	snapshotTrailer = "sha256 "
)

// ErrSnapshotFormat is a snapshot of a format this build does not know.
var ErrSnapshotFormat = errors.New("unknown snapshot format; run a newer quorate")

// ErrSnapshotCorrupt is a snapshot that is damaged or cut short.
var ErrSnapshotCorrupt = errors.New("snapshot is corrupt")

// SnapshotHeader is the first line of a snapshot: enough to choose between
// snapshots without reading them whole.
type SnapshotHeader struct {
	Magic        string `json:"magic"`
	Format       int    `json:"format"`
	Installation string `json:"installation"`
	Index        uint64 `json:"index"`
	Generation   uint64 `json:"generation"`
	Revision     uint64 `json:"revision"`
	FeatureLevel uint32 `json:"feature_level"`
}

// line is one record.
type line struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// scalars is the record of everything in a state that is not keyed.
type scalars struct {
	State
	// These hide the state's keyed parts, which are records of their own.
	Spec       omit `json:"spec,omitzero"`
	Revisions  omit `json:"revisions,omitzero"`
	Members    omit `json:"members,omitzero"`
	Observers  omit `json:"observers,omitzero"`
	Services   omit `json:"services,omitzero"`
	Clusters   omit `json:"clusters,omitzero"`
	Freezes    omit `json:"freezes,omitzero"`
	Tokens     omit `json:"tokens,omitzero"`
	JoinTokens omit `json:"join_tokens,omitzero"`
	Requests   omit `json:"requests,omitzero"`
	Events     omit `json:"events,omitzero"`
	Cutovers   omit `json:"cutovers,omitzero"`
}

type omit struct{}

// records calls yield with every record line of st, in order of key.
func (st *State) records(yield func(key string, value any) error) error {
	type rec struct {
		key   string
		value any
	}
	all := []rec{{"scalars", scalars{State: *st}}, {"spec", st.Spec}}
	add := func(kind, name string, value any) { all = append(all, rec{kind + "/" + name, value}) }
	for k, v := range st.Members {
		add("members", k, v)
	}
	for k, v := range st.Observers {
		add("observers", string(k), v)
	}
	for k, v := range st.Services {
		add("services", k, v)
	}
	for k, v := range st.Clusters {
		add("clusters", k, v)
	}
	for k, v := range st.Freezes {
		add("freezes", k, v)
	}
	for k, v := range st.Tokens {
		add("tokens", k, v)
	}
	for k, v := range st.JoinTokens {
		add("join_tokens", k, v)
	}
	for k, v := range st.Requests {
		add("requests", k, v)
	}
	for k, v := range st.Cutovers {
		add("cutovers", k, v)
	}
	for _, r := range st.Revisions {
		if r.Number == st.Revision {
			r.Spec = nil // It is the spec record.
		}
		add("revisions", fmt.Sprintf("%020d", r.Number), r)
	}
	for _, e := range st.Events {
		add("events", fmt.Sprintf("%020d", e.Index), e)
	}
	slices.SortFunc(all, func(a, b rec) int { return strings.Compare(a.key, b.key) })
	for _, r := range all {
		if err := yield(r.key, r.value); err != nil {
			return err
		}
	}
	return nil
}

// writeRecords writes the record lines of st.
func (st *State) writeRecords(w io.Writer) error {
	return st.records(func(key string, value any) error {
		v, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		b, err := json.Marshal(line{key, v})
		if err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		_, err = w.Write(append(b, '\n'))
		return err
	})
}

// WriteSnapshot writes st. It may run while newer entries are applied, since st
// never changes.
func WriteSnapshot(w io.Writer, st *State) error {
	sum := sha256.New()
	buf := bufio.NewWriter(w)
	out := io.MultiWriter(buf, sum)
	header, err := json.Marshal(SnapshotHeader{
		snapshotMagic, snapshotFormat, st.Installation, st.Index, st.Generation, st.Revision, st.FeatureLevel,
	})
	if err != nil {
		return fmt.Errorf("write snapshot at index %d: %w", st.Index, err)
	}
	if _, err := out.Write(append(header, '\n')); err != nil {
		return fmt.Errorf("write snapshot at index %d: %w", st.Index, err)
	}
	if err := st.writeRecords(out); err != nil {
		return fmt.Errorf("write snapshot at index %d: %w", st.Index, err)
	}
	if _, err := fmt.Fprintf(buf, "%s%x\n", snapshotTrailer, sum.Sum(nil)); err != nil {
		return fmt.Errorf("write snapshot at index %d: %w", st.Index, err)
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write snapshot at index %d: %w", st.Index, err)
	}
	return nil
}

// ReadSnapshotHeader reads the first line of a snapshot. It does not check the rest.
func ReadSnapshotHeader(r *bufio.Reader) (SnapshotHeader, error) {
	h, _, err := readHeader(r)
	return h, err
}

func readHeader(r *bufio.Reader) (SnapshotHeader, []byte, error) {
	var h SnapshotHeader
	first, err := r.ReadBytes('\n')
	if err != nil {
		return h, nil, fmt.Errorf("header: %w", errors.Join(ErrSnapshotCorrupt, err))
	}
	// Only magic and format are certain in a format that is not ours.
	var probe struct {
		Magic  string `json:"magic"`
		Format int    `json:"format"`
	}
	if err := json.Unmarshal(first, &probe); err != nil || probe.Magic != snapshotMagic {
		return h, nil, fmt.Errorf("header: not a snapshot: %w", ErrSnapshotCorrupt)
	}
	if probe.Format != snapshotFormat {
		return h, nil, fmt.Errorf("format %d: %w", probe.Format, ErrSnapshotFormat)
	}
	if err := strictJSON(bytes.TrimSuffix(first, []byte{'\n'}), &h); err != nil {
		return h, nil, fmt.Errorf("header: %w: %w", err, ErrSnapshotCorrupt)
	}
	return h, first, nil
}

// ReadSnapshot reads a snapshot whole and checks it, or returns no state: an
// unknown format wraps ErrSnapshotFormat, damage ErrSnapshotCorrupt.
func ReadSnapshot(r io.Reader) (*State, error) {
	st, err := readSnapshot(bufio.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return st, nil
}

func readSnapshot(r *bufio.Reader) (*State, error) {
	h, first, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(first)
	lines, err := readLines(r, sum)
	if err != nil {
		return nil, err
	}
	st := (&State{}).filled()
	st.Spec = nil
	last := ""
	for _, b := range lines {
		var l line
		if err := strictJSON(b, &l); err != nil {
			return nil, fmt.Errorf("record after %q: %w: %w", last, err, ErrSnapshotCorrupt)
		}
		if l.Key <= last {
			return nil, fmt.Errorf("record %q after %q: %w", l.Key, last, ErrSnapshotCorrupt)
		}
		if err := st.readRecord(l); err != nil {
			return nil, fmt.Errorf("record %q: %w: %w", l.Key, err, ErrSnapshotCorrupt)
		}
		last = l.Key
	}
	if st.Spec == nil || st.Index != h.Index || st.Generation != h.Generation || st.Revision != h.Revision {
		return nil, fmt.Errorf("header and records differ: %w", ErrSnapshotCorrupt)
	}
	for i := range st.Revisions {
		if st.Revisions[i].Number == st.Revision {
			st.Revisions[i].Spec = st.Spec.declared()
		}
	}
	return st, nil
}

// readLines returns the record lines once the trailer has vouched for them.
func readLines(r *bufio.Reader, sum hash.Hash) ([][]byte, error) {
	var lines [][]byte
	for {
		b, err := r.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("cut short after %d records: %w", len(lines), ErrSnapshotCorrupt)
		}
		if digest, ok := bytes.CutPrefix(b, []byte(snapshotTrailer)); ok {
			if string(digest) != hex.EncodeToString(sum.Sum(nil))+"\n" {
				return nil, fmt.Errorf("checksum: %w", ErrSnapshotCorrupt)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				return nil, fmt.Errorf("data after the trailer: %w", ErrSnapshotCorrupt)
			}
			return lines, nil
		}
		sum.Write(b)
		lines = append(lines, b[:len(b)-1])
	}
}

// readRecord puts one record into st, which is being built.
func (st *State) readRecord(l line) error {
	kind, name, _ := strings.Cut(l.Key, "/")
	switch kind {
	case "scalars":
		s := scalars{State: *st}
		if err := unmarshalStrict(l.Value, &s); err != nil {
			return err
		}
		*st = s.State
		return nil
	case "spec":
		st.Spec = &Spec{}
		return unmarshalStrict(l.Value, st.Spec)
	case "members":
		return readInto(st.Members, name, l.Value)
	case "observers":
		return readInto(st.Observers, health.ObserverID(name), l.Value)
	case "services":
		return readInto(st.Services, name, l.Value)
	case "clusters":
		return readInto(st.Clusters, name, l.Value)
	case "freezes":
		return readInto(st.Freezes, name, l.Value)
	case "tokens":
		return readInto(st.Tokens, name, l.Value)
	case "join_tokens":
		return readInto(st.JoinTokens, name, l.Value)
	case "requests":
		return readInto(st.Requests, name, l.Value)
	case "cutovers":
		return readInto(st.Cutovers, name, l.Value)
	case "revisions":
		return readOnto(&st.Revisions, l.Value)
	case "events":
		return readOnto(&st.Events, l.Value)
	}
	return errors.New("unknown kind of record")
}

func readInto[K comparable, V any](m map[K]*V, key K, data []byte) error {
	v := new(V)
	if err := unmarshalStrict(data, v); err != nil {
		return err
	}
	m[key] = v
	return nil
}

func readOnto[V any](list *[]V, data []byte) error {
	var v V
	if err := unmarshalStrict(data, &v); err != nil {
		return err
	}
	*list = append(*list, v)
	return nil
}

// Hash returns the hash of everything in the state: equal on every node at an
// equal index (G15). It costs as much as a snapshot.
func (st *State) Hash() [32]byte {
	sum := sha256.New()
	if err := st.writeRecords(sum); err != nil {
		// Plain data always encodes; a hash that equals no other shows the fault.
		return [32]byte{}
	}
	return [32]byte(sum.Sum(nil))
}

// sortedKeys returns the keys of m in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
