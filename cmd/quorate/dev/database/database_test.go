package database

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const installation = "dev.quorate.test"

// world is two databases and a clock that moves by hand.
type world struct {
	t   *testing.T
	at  time.Time
	set *Set
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, at: time.Unix(1_800_000_000, 0)}
	w.set = NewSet(installation, []string{"us", "eu"}, func() time.Time { return w.at })
	w.set.Up("eu")
	w.set.Up("us")
	return w
}

func token(epoch uint64) Token {
	return Token{Installation: installation, Generation: 1, Epoch: epoch}
}

func (w *world) after(d time.Duration) { w.at = w.at.Add(d) }

func (w *world) learn(active string, epoch, index uint64) {
	w.set.Learn(Ownership{Token: token(epoch), Active: active, Index: index})
}

func (w *world) write(cluster string, claim Token) Receipt {
	w.t.Helper()
	r, err := w.set.Write(cluster, claim)
	require.NoError(w.t, err)
	return r
}

// writers are the clusters whose database accepts a write now.
func (w *world) writers() []string {
	var accept []string
	for _, c := range w.set.Clusters() {
		if r, err := w.set.Write(c, Token{}); err == nil && r.Accepted {
			accept = append(accept, c)
		}
	}
	return accept
}

func TestWhoAcceptsWrites(t *testing.T) {
	tests := []struct {
		name string
		do   func(w *world)
		want []string
	}{
		{"nobody before a token was read", func(*world) {}, nil},
		{"the active side", func(w *world) { w.learn("eu", 1, 10) }, []string{"eu"}},
		{"the active side, as long as it is told so", func(w *world) {
			w.learn("eu", 1, 10)
			w.after(Fresh)
		}, []string{"eu"}},
		{"nobody once that is too old", func(w *world) {
			w.learn("eu", 1, 10)
			w.after(Fresh + time.Millisecond)
		}, nil},
		{"nobody while it moves", func(w *world) {
			w.learn("eu", 1, 10)
			w.set.Learn(Ownership{Token: token(1), Active: "eu", Held: true, Index: 11})
		}, nil},
		{"nobody when a node that is behind says it does not move yet", func(w *world) {
			w.set.Learn(Ownership{Token: token(1), Active: "eu", Held: true, Index: 11})
			w.learn("eu", 1, 10)
		}, nil},
		{"the new side after a move", func(w *world) {
			w.learn("eu", 1, 10)
			w.learn("us", 2, 12)
		}, []string{"us"}},
		{"the new side, whatever a node that is behind says", func(w *world) {
			w.learn("us", 2, 12)
			w.learn("eu", 1, 13)
		}, []string{"us"}},
		{"nobody when all that is told is behind", func(w *world) {
			w.learn("us", 2, 12)
			w.after(Fresh + time.Millisecond)
			w.learn("eu", 1, 10)
		}, nil},
		{"not the old side when it returns", func(w *world) {
			w.learn("eu", 1, 10)
			w.set.Down("eu")
			w.learn("us", 2, 12)
			w.set.Up("eu")
		}, []string{"us"}},
		{"nobody when a side returns and has not read yet", func(w *world) {
			w.learn("eu", 1, 10)
			w.set.Down("eu")
			w.set.Up("eu")
		}, nil},
		{"a side that returned and has read", func(w *world) {
			w.learn("eu", 1, 10)
			w.set.Down("eu")
			w.set.Up("eu")
			w.learn("eu", 1, 10)
		}, []string{"eu"}},
		{"not a side that was told a higher token before it restarted", func(w *world) {
			w.learn("us", 2, 12)
			w.set.Down("eu")
			w.set.Up("eu")
			w.learn("eu", 1, 13)
		}, []string{"us"}},
		{"a higher generation before a higher epoch", func(w *world) {
			w.learn("eu", 7, 90)
			w.set.Learn(Ownership{Token: Token{installation, 2, 1}, Active: "us", Index: 3})
		}, []string{"us"}},
		{"not who another installation names", func(w *world) {
			w.set.Learn(Ownership{Token: Token{"other", 1, 9}, Active: "eu", Index: 99})
		}, nil},
		{"not who a node without a leader names", func(w *world) {
			w.set.Learn(Ownership{Token: token(1), Active: "eu", Index: 10, Invalid: true})
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.do(w)
			require.Equal(t, tt.want, w.writers())
		})
	}
}

func TestAWriteUnderALowerTokenIsRefused(t *testing.T) {
	w := newWorld(t)
	w.learn("eu", 5, 10)
	require.True(t, w.write("eu", token(5)).Accepted)
	require.Contains(t, w.write("eu", token(4)).Why, "is lower than the highest seen (generation 1, epoch 5)")
	require.Contains(t, w.write("eu", Token{"other", 1, 9}).Why, "another installation")

	// A writer that knows more fences the database that does not.
	require.Contains(t, w.write("eu", token(6)).Why, "has seen a higher token")
	require.Contains(t, w.write("eu", token(5)).Why, "is lower than the highest seen")
	require.Contains(t, w.write("eu", Token{}).Why, "has seen a higher token")
	w.learn("eu", 5, 11)
	require.False(t, w.write("eu", Token{}).Accepted, "what it read is lower than what it saw")
	w.learn("eu", 6, 12)
	require.True(t, w.write("eu", token(6)).Accepted)
}

func TestRowsThatWereNotReplicatedAreLostInAMove(t *testing.T) {
	w := newWorld(t)
	w.learn("eu", 1, 10)
	w.set.SetLag(time.Second)
	w.write("eu", Token{})
	w.after(600 * time.Millisecond)
	require.Equal(t, 2, w.write("eu", Token{}).Behind)
	w.after(600 * time.Millisecond)
	last := w.write("eu", Token{})
	require.Equal(t, 2, last.Behind, "the first one has arrived")
	require.Equal(t, 3, last.Rows)

	w.set.Down("eu")
	w.after(time.Minute)
	w.learn("us", 2, 12)
	r := w.write("us", Token{})
	require.Equal(t, Receipt{Cluster: "us", Accepted: true, Token: token(2), Rows: 2, Behind: 1, Lost: 2}, r)

	w.set.Up("eu")
	w.after(time.Second)
	w.learn("us", 2, 13)
	require.Equal(t, 1, w.write("us", Token{}).Behind, "replication goes on, from the new side")
}

func TestFrozenReplicationKeepsRowsUntilItThaws(t *testing.T) {
	w := newWorld(t)
	w.learn("eu", 1, 10)
	w.set.Freeze()
	w.write("eu", Token{})
	w.after(time.Second)
	require.Equal(t, 2, w.write("eu", Token{}).Behind)
	w.set.SetLag(0)
	require.Equal(t, 0, w.write("eu", Token{}).Behind, "without a lag each row arrives at once")
}

func TestTheHandlerSpeaksHTTP(t *testing.T) {
	w := newWorld(t)
	h := w.set.Handler("eu")
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		return rec
	}
	require.Equal(t, http.StatusOK, ask("GET", Path, "").Code)
	require.Equal(t, http.StatusConflict, ask("POST", "/write", "").Code)
	require.Equal(t, http.StatusBadRequest, ask("POST", "/write", "{").Code)
	w.learn("eu", 3, 10)
	rec := ask("POST", "/write", `{"token":{"installation":"dev.quorate.test","generation":1,"epoch":3}}`)
	require.Equal(t, http.StatusOK, rec.Code)
	var r Receipt
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &r))
	require.Equal(t, Receipt{Cluster: "eu", Accepted: true, Token: token(3), Rows: 1}, r)
	require.Equal(t, http.StatusConflict, ask("POST", "/write", `{"token":{"installation":"dev.quorate.test","generation":1,"epoch":2}}`).Code)
	w.set.Down("eu")
	require.Equal(t, http.StatusServiceUnavailable, ask("POST", "/write", "").Code)
}
