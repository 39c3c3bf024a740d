package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// turningStore is a store in which verdicts turn while somebody plans on what he read:
// after the read of that number.
type turningStore struct {
	Store
	reads, at int
	turn      func()
}

func (s *turningStore) State() *statestore.State {
	st := s.Store.State()
	if s.reads++; s.reads == s.at {
		s.turn()
	}
	return st
}

// The plan of a large spec takes longer than a verdict takes to turn. It must neither
// be refused for it, nor be written to the log once for every turn.
func TestAnApplyIsPlannedOnVerdictsThatTurnMeanwhile(t *testing.T) {
	for read := 1; read <= 4; read++ {
		r := newRig(t)
		spec := testSpec()
		spec.Services["web"].Policy.Weights = map[string]int{"eu": 50, "us": 30, "dr": 20}
		before := r.store.State().Index
		r.server.cfg.Store = &turningStore{Store: r.store, at: read, turn: func() {
			r.votes(2, true, map[health.ObserverID][]string{"eu-1": {"eu"}, "us-1": {"eu"}, "ap-1": {"eu"}})
		}}
		body, err := json.Marshal(apitype.ApplyRequest{Source: specText(spec), Force: true})
		require.NoError(t, err)
		a := r.as("admin", http.MethodPut, "/v1/spec", string(body))
		require.Equal(t, http.StatusOK, a.status, a.body)
		st := r.store.State()
		require.Equal(t, before+2, st.Index, "read %d: an entry of votes and one of the spec", read)
		require.EqualValues(t, 2, st.Revision)
		var names []string
		for _, share := range st.Services["web"].Rotation.V4.Shares {
			names = append(names, share.Cluster)
		}
		require.Equal(t, []string{"dr", "us"}, names)
	}
}
