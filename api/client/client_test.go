package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

// serve answers every call with f.
func serve(t *testing.T, f http.HandlerFunc) string {
	ts := httptest.NewServer(f)
	t.Cleanup(ts.Close)
	return ts.URL
}

func writeProblem(w http.ResponseWriter, name string, status int) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(apitype.Problem{Type: apitype.ProblemBase + name, Title: name, Status: status, Detail: "because", Next: "quorate status"})
}

func answerStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Quorate-Node", "eu-1")
	w.Header().Set("Quorate-Leader", "us-1")
	w.Header().Set("Quorate-Revision", "41")
	w.Header().Set("Quorate-As-Of", "2026-11-30T03:14:09.5Z")
	w.Header().Set("Quorate-Stale", "true")
	_, _ = fmt.Fprint(w, `{"api":"v1","kind":"status","revision":41,"as_of":"2026-11-30T03:14:09.5Z","items":[{"node":"eu-1","later":1}]}`)
}

// deadAddr is an address nobody listens on.
func deadAddr(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func open(t *testing.T, addrs ...string) *Client {
	c, err := New(Options{Addrs: addrs, Token: "qt1.a.b"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestTheNextAddressAnswersWhenTheFirstIsDead(t *testing.T) {
	c := open(t, deadAddr(t)+", "+serve(t, answerStatus))
	res, err := c.Status(t.Context())
	require.NoError(t, err)
	st, err := res.First()
	require.NoError(t, err)
	require.Equal(t, "eu-1", st.Node, "a field this client does not know is no error")
	require.Equal(t, "us-1", res.Meta.Leader)
	require.EqualValues(t, 41, res.Meta.Revision)
	require.True(t, res.Meta.Stale)
	require.Equal(t, 9, res.Meta.AsOf.Second())
	require.Contains(t, string(res.Raw), `"later":1`)
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name   string
		status int
		want   int
	}{
		{apitype.ProblemValidation, 422, 2},
		{apitype.ProblemEvidence, 409, 6},
		{apitype.ProblemDecided, 409, 6},
		{apitype.ProblemSigned, 409, 6},
		{apitype.ProblemSelfApproval, 403, 8},
		{apitype.ProblemUnconfirmed, 409, 4},
		{apitype.ProblemNoQuorum, 503, 3},
		{apitype.ProblemBlocked, 409, 4},
		{apitype.ProblemNotFound, 404, 5},
		{apitype.ProblemStalePlan, 409, 6},
		{apitype.ProblemPrecondition, 412, 6},
		{apitype.ProblemConflict, 409, 6},
		{apitype.ProblemExpired, 410, 6},
		{apitype.ProblemUnknownOutcome, 504, 7},
		{apitype.ProblemForbidden, 403, 8},
		{apitype.ProblemUnauthorized, 401, 8},
		{apitype.ProblemInternal, 500, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, tt.name, tt.status) }))
			_, err := c.Status(t.Context())
			require.Equal(t, tt.want, ExitCode(err))
			require.ErrorContains(t, err, "because")
			require.ErrorContains(t, err, "next: quorate status")
		})
	}
	require.Equal(t, 0, ExitCode(nil))
	require.Equal(t, 1, ExitCode(errors.New("x")))
	require.Equal(t, 130, ExitCode(context.Canceled))
}

func TestNobodyThereIsNoQuorumAndABrokenWriteIsUnknown(t *testing.T) {
	c := open(t, deadAddr(t))
	_, err := c.Status(t.Context())
	require.Equal(t, ExitNoQuorum, ExitCode(err))
	require.ErrorContains(t, err, "connection refused")
	_, err = c.Freeze(t.Context(), apitype.FreezeRequest{Reason: "r"}, "")
	require.Equal(t, ExitNoQuorum, ExitCode(err), "nothing was sent, so nothing can have been done")

	hangUp := serve(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	_, err = open(t, hangUp).Freeze(t.Context(), apitype.FreezeRequest{Reason: "r"}, "k-1")
	require.Equal(t, ExitUnknown, ExitCode(err))
	require.ErrorContains(t, err, "--idempotency-key k-1")
	_, err = open(t, hangUp).Status(t.Context())
	require.Equal(t, ExitNoQuorum, ExitCode(err), "a read has no outcome")
}

func TestATryAtTheNextAddressCarriesTheSameKey(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
	}
	first := serve(t, func(_ http.ResponseWriter, r *http.Request) { note(r); panic(http.ErrAbortHandler) })
	second := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		_, _ = fmt.Fprint(w, `{"api":"v1","kind":"act","items":[{"index":7}]}`)
	})
	_, err := open(t, first, second).Freeze(t.Context(), apitype.FreezeRequest{Reason: "r"}, "")
	require.NoError(t, err)
	require.NotEmpty(t, keys[0])
	for _, k := range keys {
		require.Equal(t, keys[0], k)
	}
}

func TestTheTokenFileMustBePrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("qt1.a.b\n"), 0o644))
	_, err := New(Options{Addrs: []string{"x:1"}, TokenFile: file})
	require.ErrorContains(t, err, "chmod 600")
	require.Equal(t, ExitUsage, ExitCode(err))
	require.NoError(t, os.Chmod(file, 0o600))
	got := ""
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization"); answerStatus(w, r) })
	c, err := New(Options{Addrs: []string{addr + "/v1/"}, TokenFile: file})
	require.NoError(t, err)
	_, err = c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Bearer qt1.a.b", got)
	_, err = New(Options{TokenFile: file + ".none"})
	require.Equal(t, ExitUsage, ExitCode(err))
}

func TestBadAddressesAreUsageErrors(t *testing.T) {
	for _, addr := range []string{"ftp://x", "http://", " , "} {
		_, err := New(Options{Addrs: []string{addr}})
		require.Equal(t, ExitUsage, ExitCode(err), addr)
	}
	_, err := open(t, "unix:"+filepath.Join(t.TempDir(), "none.sock")).Status(t.Context())
	require.ErrorContains(t, err, "is the server running here")
	require.Equal(t, ExitNoQuorum, ExitCode(err))
}

func TestAnythingElseThanTheAPIIsSaidSo(t *testing.T) {
	c := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }))
	_, err := c.Status(t.Context())
	require.ErrorContains(t, err, "not quorate's API")
	require.Equal(t, ExitFailure, ExitCode(err))
}

func TestARedirectIsNotFollowedWithTheToken(t *testing.T) {
	leaked := false
	other := serve(t, func(http.ResponseWriter, *http.Request) { leaked = true })
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }))
	_, err := c.Status(t.Context())
	require.Error(t, err)
	require.False(t, leaked)
}

func TestFollowResumesWhereItWas(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Query().Get("after"))
		n := len(asked)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Quorate-Index", "5")
		if n == 1 {
			_, _ = fmt.Fprint(w, ": hello\n\nid: 6\ndata: {\"data\":{\"index\":6,\"text\":\"one\"}}\n\n")
			return // the node goes away
		}
		_, _ = fmt.Fprint(w, "event: reset\nid: 8\ndata: {}\n\nid: 9\ndata: {\"data\":\ndata: {\"index\":9,\"text\":\"two\"}}\n\n")
	})
	var got []string
	enough := errors.New("enough")
	err := open(t, addr).Follow(t.Context(), EventQuery{}, func(e apitype.Event, err error) error {
		if errors.Is(err, ErrReset) {
			got = append(got, "reset")
			return nil
		}
		got = append(got, e.Text)
		if e.Text == "two" {
			return enough
		}
		return err
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, []string{"one", "reset", "two"}, got)
	require.Equal(t, []string{"", "6"}, asked)
}

func TestFollowEndsWithItsContextAndWithARefusal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	require.NoError(t, open(t, addr).Follow(ctx, EventQuery{}, func(apitype.Event, error) error { return nil }))
	addr = serve(t, func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, apitype.ProblemForbidden, 403) })
	err := open(t, addr).Follow(t.Context(), EventQuery{}, func(apitype.Event, error) error { return nil })
	require.Equal(t, ExitForbidden, ExitCode(err))
}

func TestBlockersAndFieldsAreListedTogether(t *testing.T) {
	err := &ProblemError{Problem: &apitype.Problem{Title: "blocked by a rule", Blockers: []apitype.Blocker{{Rule: "a", Reason: "b"}, {Rule: "c", Reason: "d", Waivable: true}}}}
	require.Equal(t, "blocked by a rule\n  a: b\n  c: d (--force lifts it)", err.Error())
	err = &ProblemError{Problem: &apitype.Problem{Title: "x", Errors: []apitype.FieldError{
		{File: "spec.yaml", Line: 3, Column: 7, Pointer: "services.web", Message: "must be a map"}, {Pointer: "/reason", Message: "must say why"},
	}}}
	require.Equal(t, "spec.yaml:3:7: services.web: must be a map\n/reason: must say why", err.Error())
}

func FuzzReadStream(f *testing.F) {
	f.Add("id: 1\nevent: x\ndata: {}\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		_ = ReadStream(strings.NewReader(s), func(m Message) error {
			if strings.Contains(m.ID, "\n") {
				t.Fatalf("id with a newline: %q", m.ID)
			}
			return nil
		})
	})
}
