package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// reader reads a stream one event at a time.
type reader struct {
	t  *testing.T
	sc *bufio.Scanner
}

type message struct{ id, event, data string }

// open starts a stream and returns it with a function that ends it.
func (r *rig) open(t *testing.T, path string, headers ...string) (*reader, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.ts.URL+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer qt1.admin."+canary)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	return &reader{t, bufio.NewScanner(resp.Body)}, cancel
}

func (rd *reader) next() message {
	rd.t.Helper()
	var m message
	for rd.sc.Scan() {
		line := rd.sc.Text()
		switch {
		case line == "" && m != (message{}):
			return m
		case strings.HasPrefix(line, "id: "):
			m.id = line[4:]
		case strings.HasPrefix(line, "event: "):
			m.event = line[7:]
		case strings.HasPrefix(line, "data: "):
			m.data += line[6:]
		}
	}
	rd.t.Fatalf("the stream ended: %v", rd.sc.Err())
	return m
}

func TestEventsAreStreamedAsTheyAreCommitted(t *testing.T) {
	r := newRig(t)
	s, _ := r.open(t, "/v1/events")
	r.must(statestore.FreezeService{Service: "web", Reason: "audit"})
	m := s.next()
	require.Equal(t, strconv.FormatUint(r.store.State().Index, 10), m.id)
	var ce cloudEvent
	require.NoError(t, json.Unmarshal([]byte(m.data), &ce))
	require.Equal(t, "1.0", ce.SpecVersion)
	require.Equal(t, "dev.quorate.service.frozen", ce.Type)
	require.Equal(t, "services/web", ce.Subject)
	require.Equal(t, "/quorate/test/eu-1", ce.Source)
	require.Equal(t, m.id, ce.ID)
	require.InDelta(t, 1, testutil.ToFloat64(r.server.met.streams), 0)
}

func TestAStreamResumesAfterTheLastEventSeen(t *testing.T) {
	r := newRig(t)
	s, cancel := r.open(t, "/v1/events")
	r.must(statestore.FreezeService{Service: "web", Reason: "one"})
	first := s.next()
	cancel()
	r.must(statestore.ThawService{Service: "web"}, statestore.FreezeService{Service: "web", Reason: "two"})
	s, _ = r.open(t, "/v1/events", "Last-Event-ID", first.id)
	require.Contains(t, s.next().data, "service.thawed")
	require.Contains(t, s.next().data, "two")
	r.must(statestore.ThawService{Service: "web"})
	require.Contains(t, s.next().data, "service.thawed")
}

func TestAStreamSaysWhenHistoryWasCut(t *testing.T) {
	r := newRig(t)
	cutState := *r.store.State()
	cutState.Events = cutState.Events[len(cutState.Events)-2:]
	require.True(t, cut(&cutState, 1))
	require.False(t, cut(&cutState, cutState.Events[0].Index))
	require.False(t, cut(r.store.State(), 0), "nothing was cut yet")

	r.server.cfg.Store = statestore.NewStoreAt(&cutState)
	s, _ := r.open(t, "/v1/events", "Last-Event-ID", "1")
	m := s.next()
	require.Equal(t, "reset", m.event)
	require.Equal(t, fmt.Sprint(cutState.Events[0].Index-1), m.id)
	require.Equal(t, fmt.Sprint(cutState.Events[0].Index), s.next().id)
}

func TestAStreamIsFiltered(t *testing.T) {
	r := newRig(t)
	s, _ := r.open(t, "/v1/events?types=service.*&service=shop")
	r.must(statestore.FreezeService{Service: "web", Reason: "one"}, statestore.FreezeService{Service: "shop", Reason: "two"})
	require.Contains(t, s.next().data, "services/shop")
}

func TestAStreamNeedsALogin(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/v1/events", "/ui/stream"} {
		a := r.as("", "GET", path, "", "Accept", "text/event-stream")
		require.Equal(t, 401, a.status)
		require.Equal(t, apitype.ProblemBase+"unauthorized", a.problem(t).Type)
	}
	require.Equal(t, 422, r.get("/v1/events", "Accept", "text/event-stream", "Last-Event-ID", "x").status)
}

func TestEventPages(t *testing.T) {
	r := newRig(t)
	all := items[apitype.Event](t, r.get("/v1/events?limit=1000"))
	require.Equal(t, len(r.store.State().Events), len(all))
	last := items[apitype.Event](t, r.get("/v1/events?limit=2"))
	require.Equal(t, all[len(all)-2:], last, "without a start the latest are given")
	page := items[apitype.Event](t, r.get(fmt.Sprintf("/v1/events?limit=2&after=%d", all[0].Index)))
	require.Equal(t, all[1:3], page)
	require.Empty(t, items[apitype.Event](t, r.get("/v1/events?types=nothing")))
	require.Len(t, items[apitype.Event](t, r.get("/v1/events?since=1h&limit=1000")), len(all))
	require.Equal(t, 422, r.get("/v1/events?since=yesterday").status)
	r.must(statestore.FreezeService{Service: "shop", Reason: "for shop only"})
	require.NotContains(t, r.as("webops", "GET", "/v1/events?limit=1000", "").body, "for shop only")
	require.Contains(t, r.get("/v1/events?limit=1000").body, "for shop only")
	for _, e := range items[apitype.Event](t, r.get("/v1/history?service=web")) {
		require.NotEqual(t, "token.created", e.Type)
	}
}

func TestTheConsoleIsToldThatSomethingChanged(t *testing.T) {
	r := newRig(t)
	s, _ := r.open(t, "/ui/stream")
	r.must(statestore.FreezeService{Service: "web", Reason: "audit"})
	m := s.next()
	require.Equal(t, "change", m.event)
	require.NotContains(t, m.data, "audit", "the stream says that, never what")
	for m.event != "tick" {
		m = s.next()
	}
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	r := newRig(t)
	s, _ := r.open(t, "/v1/events")
	r.server.stopOnce.Do(func() { close(r.server.stopping) })
	for s.sc.Scan() { // ends before its ten seconds are over
	}
	require.NoError(t, s.sc.Err())
}

func TestAStreamEndsWhenItsTokenIsRevoked(t *testing.T) {
	r := newRig(t)
	s, _ := r.open(t, "/ui/stream")
	r.must(statestore.RevokeToken{ID: "admin"})
	ended := time.AfterFunc(3*consoleTick, func() { t.Error("the stream of a revoked token went on"); r.ts.CloseClientConnections() })
	defer ended.Stop()
	for s.sc.Scan() {
	}
}
