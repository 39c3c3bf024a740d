package statestore

import (
	"crypto/sha256"
	"maps"
	"time"
)

// A request id makes a retry of an unknown outcome safe: the same id of the same
// actor takes effect once (G8).
const (
	requestWindow = 24 * time.Hour // how long a retry finds its outcome; people retry within minutes
	maxRequests   = 10_000         // remembered at once; bounds state under a flood
)

func requestKey(m Meta) string { return m.Actor + " " + m.Request }

func requestDigest(k Kind, body []byte) [32]byte {
	return sha256.Sum256(append([]byte{byte(k)}, body...))
}

// remembered reports whether the entry's request id settles its outcome without
// applying it: the command was done or refused before, the id was used for
// another command, or it is too old to know.
func (st *State) remembered(k Kind, body []byte, m Meta) (done bool, err error) {
	if m.Request == "" {
		return false, nil
	}
	r, ok := st.Requests[requestKey(m)]
	switch {
	case !ok && m.Issued.IsZero():
		return true, refuse(ErrInvalid, "request %s: must say when it was issued", m.Request)
	case !ok && !m.Issued.After(st.requestFloor()):
		return true, refuse(ErrRequestUnknown, "request %s: issued %s, before what is remembered; look at the events, then use a new id",
			m.Request, m.Issued.Format(time.RFC3339))
	case !ok:
		return false, nil
	case r.Digest != requestDigest(k, body):
		return true, refuse(ErrRequestReused, "request %s: was used for another command at index %d", m.Request, r.Index)
	case r.Code != "":
		return true, &Refusal{Code: r.Code, Text: r.Error}
	default:
		return true, nil
	}
}

// requestFloor returns the time of issue at or before which an id is unknown.
func (st *State) requestFloor() time.Time {
	window := st.Now.Add(-requestWindow)
	if window.Before(st.RequestFloor) {
		return st.RequestFloor
	}
	return window
}

// remember keeps the outcome of the entry under its request id.
func (st *State) remember(k Kind, body []byte, at entry, err error) {
	if at.meta.Request == "" {
		return
	}
	r := &Request{Digest: requestDigest(k, body), Issued: at.meta.Issued, Index: at.index, At: at.now}
	var refusal *Refusal
	if asRefusal(err, &refusal) {
		r.Code, r.Error = refusal.Code, refusal.Text
	}
	kept := maps.Clone(st.Requests)
	if kept == nil {
		kept = map[string]*Request{}
	}
	kept[requestKey(at.meta)] = r
	// An id issued ahead of log time stays until its own window is over.
	floor := at.now.Add(-requestWindow)
	maps.DeleteFunc(kept, func(_ string, r *Request) bool {
		return !r.At.After(floor) && !r.Issued.After(floor)
	})
	for len(kept) > maxRequests {
		oldest := ""
		for key, r := range kept {
			if oldest == "" || r.Issued.Before(kept[oldest].Issued) ||
				r.Issued.Equal(kept[oldest].Issued) && key < oldest {
				oldest = key
			}
		}
		if st.RequestFloor.Before(kept[oldest].Issued) {
			st.RequestFloor = kept[oldest].Issued
		}
		delete(kept, oldest)
	}
	st.Requests = kept
}
