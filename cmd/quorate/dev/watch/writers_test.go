package watch

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/quorate/dev/database"
)

// fakeBase accepts the writes that its script says, one after the other; the last
// entry stays.
type fakeBase struct{ script []bool }

func (f *fakeBase) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r := database.Receipt{Accepted: f.script[0], Token: database.Token{Epoch: 1}, Rows: 7, Behind: 2, Why: "is not the active side"}
	if len(f.script) > 1 {
		f.script = f.script[1:]
	}
	if !r.Accepted {
		w.WriteHeader(http.StatusConflict)
	}
	_ = json.NewEncoder(w).Encode(r)
}

func TestWritersCountWhoAcceptsAtOnce(t *testing.T) {
	tests := []struct {
		name      string
		eu, us    []bool // a round, and the second look of a round in which both accepted
		now, most []string
	}{
		{"one writer", []bool{true}, []bool{false}, []string{"eu"}, []string{"eu"}},
		{"nobody", []bool{false}, []bool{false}, nil, nil},
		{"one took over from the other within a round", []bool{true, false}, []bool{true, true}, []string{"us"}, []string{"us"}},
		{"two writers", []bool{true, true}, []bool{true, true}, []string{"eu", "us"}, []string{"eu", "us"}},
		{"two writers, of which one stopped just after", []bool{true, true}, []bool{true, false}, []string{"eu", "us"}, []string{"eu", "us"}},
		{"both stopped", []bool{true, false}, []bool{true, false}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eu, us := httptest.NewServer(&fakeBase{tt.eu}), httptest.NewServer(&fakeBase{tt.us})
			defer eu.Close()
			defer us.Close()
			w := NewWriters(map[string]string{"eu": eu.URL, "us": us.URL})
			w.round(t.Context())
			c := w.Counts()
			require.Equal(t, tt.now, c.Now)
			require.Equal(t, tt.most, c.Most)
			require.Equal(t, 7, c.Rows)
		})
	}
}

func TestTwoWritersOnceAreToldForEver(t *testing.T) {
	eu, us := httptest.NewServer(&fakeBase{[]bool{true, true, true, false}}), httptest.NewServer(&fakeBase{[]bool{false, true, true, true}})
	w := NewWriters(map[string]string{"eu": eu.URL, "us": us.URL})
	for range 3 {
		w.round(t.Context())
	}
	us.Close()
	eu.Close()
	c := w.Counts()
	require.Equal(t, []string{"us"}, c.Now)
	require.Equal(t, []string{"eu", "us"}, c.Most)
	require.Contains(t, c.Line(), "TWO WRITERS at ")
	w.round(t.Context())
	require.Equal(t, map[string]string{"eu": "does not answer", "us": "does not answer"}, w.Counts().Refusals)
}
