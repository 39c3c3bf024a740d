package statestore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// The audit chain: H_n = SHA-256(H_{n-1} || canonical record n), with thirty-two
// zero bytes before the first. The canonical record is the event's JSON without
// its hash. Every entry that changes the state has exactly one (G12).

// The events in the state are bounded in number and in the size of their details,
// which is large where a site with thousands of services is lost. Older ones are
// exported, not kept.
const (
	maxEvents      = 10_000
	maxEventDetail = 32 << 20
)

// audit chains the record of the entry and keeps it as an event.
func (st *State) audit(at entry, rec record) error {
	var detail json.RawMessage
	if rec.detail != nil {
		var err error
		if detail, err = json.Marshal(rec.detail); err != nil {
			return fmt.Errorf("encode detail of %s: %w", rec.kind, err)
		}
	}
	e := Event{
		Index: at.index, At: at.now, Wall: at.meta.Wall.UTC(), Actor: at.meta.Actor,
		Type: rec.kind, Subject: rec.subject, Text: rec.text, Detail: detail,
	}
	head, err := chain(st.Audit.Head, e)
	if err != nil {
		return err
	}
	e.Hash = hex.EncodeToString(head[:])
	st.Audit.Head = head
	st.Audit.Count++
	st.Audit.Detail += len(e.Detail)
	// Older states share the array but never look past their own length, and a
	// state has one successor, so appending in place is safe.
	st.Events = append(st.Events, e)
	return st.dropEvents()
}

// dropEvents forgets events past retention and moves the chain's base on.
func (st *State) dropEvents() error {
	drop := max(0, len(st.Events)-maxEvents)
	if keep := st.Spec.Retention.Events.D(); keep > 0 {
		for drop < len(st.Events)-1 && st.Events[drop].At.Before(st.Now.Add(-keep)) {
			drop++
		}
	}
	detail := st.Audit.Detail
	for _, e := range st.Events[:drop] {
		detail -= len(e.Detail)
	}
	for ; drop < len(st.Events)-1 && detail > maxEventDetail; drop++ {
		detail -= len(st.Events[drop].Detail)
	}
	if drop == 0 {
		return nil
	}
	st.Audit.Detail = detail
	base, err := parseHash(st.Events[drop-1].Hash)
	if err != nil {
		return err
	}
	st.Audit.Base = base
	st.Events = st.Events[drop:]
	return nil
}

// chain returns the hash of e on top of prev.
func chain(prev [32]byte, e Event) ([32]byte, error) {
	e.Hash = ""
	canonical, err := json.Marshal(e)
	if err != nil {
		return [32]byte{}, fmt.Errorf("encode event %d: %w", e.Index, err)
	}
	h := sha256.New()
	h.Write(prev[:])
	h.Write(canonical)
	return [32]byte(h.Sum(nil)), nil
}

func parseHash(s string) (h [32]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("hash %q is not %d hexadecimal digits", s, 2*len(h))
	}
	return [32]byte(b), nil
}

// VerifyEvents checks exported events, oldest first, against the head of the
// chain before them (zero for the very first) and returns the head after them.
// The error names the first event that does not fit. A chain does not show that
// its newest events were cut off: compare the head with one kept elsewhere.
func VerifyEvents(prev [32]byte, events []Event) ([32]byte, error) {
	var last uint64
	for _, e := range events {
		if e.Index <= last {
			return prev, fmt.Errorf("event %d: must come after event %d", e.Index, last)
		}
		want, err := chain(prev, e)
		if err != nil {
			return prev, err
		}
		if got := hex.EncodeToString(want[:]); got != e.Hash {
			return prev, fmt.Errorf("event %d (%s): hash is %.12s…, the record and its predecessor give %.12s…", e.Index, e.At.Format(time.RFC3339), e.Hash, got)
		}
		prev, last = want, e.Index
	}
	return prev, nil
}

// VerifyAudit checks the kept events against the chain's base and head.
func (st *State) VerifyAudit() error {
	head, err := VerifyEvents(st.Audit.Base, st.Events)
	if err != nil {
		return err
	}
	if head != st.Audit.Head {
		return fmt.Errorf("audit chain ends at %x, its head is %x", head[:6], st.Audit.Head[:6])
	}
	return nil
}
