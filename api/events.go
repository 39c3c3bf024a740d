package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

const (
	// keepalive is how often a silent stream carries a comment: below the idle
	// timeout of the proxies people have.
	keepalive = 15 * time.Second

	// streamWrite bounds a write to a reader that does not read.
	streamWrite = 10 * time.Second

	defaultPage = 100
	maxPage     = 1000
)

type eventsInput struct {
	reading
	After       uint64 `query:"after" doc:"only events of a higher log index; without it the latest ones"`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" doc:"100 when absent"`
	Types       string `query:"types" doc:"comma list of types; a final * matches any ending"`
	Service     string `query:"service"`
	Since       string `query:"since" doc:"a time, or a duration such as 2h before now"`
	LastEventID string `header:"Last-Event-ID" doc:"for text/event-stream: resume after it"`
}

type historyInput struct {
	reading
	Service string `query:"service" doc:"only what moved this service's answers"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000"`
}

func (s *Server) eventRoutes(api huma.API) {
	op := operation(http.MethodGet, "/events", "events", "Events, oldest first; a stream with Accept: text/event-stream", statestore.CanRead, http.StatusUnprocessableEntity)
	op.Middlewares = huma.Middlewares{func(hc huma.Context, next func(huma.Context)) {
		if !strings.Contains(hc.Header("Accept"), "text/event-stream") {
			next(hc)
			return
		}
		r, w := humago.Unwrap(hc)
		s.streamEvents(w, r, callOf(hc.Context()))
	}}
	huma.Register(api, op, s.events)
	ok := api.OpenAPI().Paths[op.Path].Get.Responses["200"]
	ok.Description = "A page of events, or a stream of CloudEvents"
	ok.Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	huma.Register(api, operation(http.MethodGet, "/history", "history", "What moved answers and why, oldest first", statestore.CanRead, http.StatusNotFound), s.history)
}

func (s *Server) events(ctx context.Context, in *eventsInput) (*output[apitype.Event], error) {
	c := callOf(ctx)
	var since time.Time
	if in.Since != "" {
		t, err := s.since(in.Since)
		if err != nil {
			return nil, err
		}
		since = t
	}
	limit := in.Limit
	if limit == 0 {
		limit = defaultPage
	}
	items := []apitype.Event{}
	for _, e := range c.st.Events {
		if e.Index > in.After && !e.At.Before(since) && eventMatches(e, in.Types, in.Service) && visible(c, e) {
			items = append(items, eventView(e))
		}
	}
	if len(items) > limit {
		if in.After > 0 || in.Since != "" {
			items = items[:limit] // the reader goes on after the last one
		} else {
			items = items[len(items)-limit:]
		}
	}
	return envelope(c, "event", items...), nil
}

func (s *Server) since(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return s.cfg.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, invalidField("?since", "must be a time such as 2026-11-30T03:00:00Z or a duration such as 2h, is %q", text)
	}
	return t, nil
}

// visible hides events of services that the caller may not read.
func visible(c *call, e statestore.Event) bool {
	name, ok := strings.CutPrefix(e.Subject, "services/")
	if !ok {
		return true
	}
	name, _, _ = strings.Cut(name, "/")
	return c.st.Can(c.p, statestore.CanRead, name)
}

// history is the events that moved answers.
func (s *Server) history(ctx context.Context, in *historyInput) (*output[apitype.Event], error) {
	c := callOf(ctx)
	if in.Service != "" && c.st.Spec.Services[in.Service] == nil {
		return nil, notFound("service", in.Service)
	}
	limit := in.Limit
	if limit == 0 {
		limit = defaultPage
	}
	items := []apitype.Event{}
	for _, e := range c.st.Events {
		if movesAnswers(c.st, e, in.Service) && visible(c, e) {
			items = append(items, eventView(e))
		}
	}
	if len(items) > limit {
		items = items[len(items)-limit:]
	}
	return envelope(c, "event", items...), nil
}

// movesAnswers reports whether an event is part of a service's history: its
// rotations, cutovers and freezes, the drains of its clusters, revisions of the
// spec, and recoveries.
func movesAnswers(st *statestore.State, e statestore.Event, service string) bool {
	kind, _, _ := strings.Cut(e.Type, ".")
	switch kind {
	case "cutover":
		return e.Type != "cutover.refused" && (service == "" || e.Subject == "services/"+service)
	case "generation":
		return true
	case "rotation", "service":
		return service == "" || e.Subject == "services/"+service || !strings.HasPrefix(e.Subject, "services/")
	case "cluster":
		clusters := []string{strings.TrimPrefix(e.Subject, "clusters/")}
		if e.Subject == "clusters" || e.Type == "cluster.drained" || e.Type == "cluster.undrained" {
			var d statestore.DrainDetail
			if json.Unmarshal(e.Detail, &d) != nil {
				return service == ""
			}
			if e.Subject == "clusters" { // several at once
				clusters = d.Clusters
			}
			if service != "" && len(d.Services) > 0 && !slices.Contains(d.Services, service) {
				return false
			}
		}
		candidates := st.Spec.Candidates(service)
		return service == "" || slices.ContainsFunc(clusters, func(c string) bool { return slices.Contains(candidates, c) })
	case "latency": // it ranks the clusters of that policy, and would drown all the rest
		svc := st.Spec.Services[service]
		return svc != nil && svc.Policy.Type == statestore.Latency
	case "spec":
		return true
	}
	return false
}

// cloudEvent is the body of a streamed event, in CloudEvents 1.0 JSON.
type cloudEvent struct {
	SpecVersion string        `json:"specversion"`
	ID          string        `json:"id"`
	Source      string        `json:"source"`
	Type        string        `json:"type"`
	Subject     string        `json:"subject,omitempty"`
	Time        time.Time     `json:"time"`
	ContentType string        `json:"datacontenttype"`
	Data        apitype.Event `json:"data"`
}

// CloudEvent returns an event as CloudEvents 1.0 JSON: the bytes that a stream of
// that node carries, and that it sends to webhooks.
func CloudEvent(installation, node string, e statestore.Event) ([]byte, error) {
	data, err := json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: strconv.FormatUint(e.Index, 10),
		Source: "/quorate/" + installation + "/" + node,
		Type:   "dev.quorate." + e.Type, Subject: e.Subject, Time: e.At.UTC(),
		ContentType: "application/json", Data: eventView(e),
	})
	if err != nil {
		return nil, fmt.Errorf("encode event %d: %w", e.Index, err)
	}
	return data, nil
}

// streamEvents sends events as they are committed. Without Last-Event-ID it
// starts with the next one.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, c *call) {
	after, problem := resumeAfter(r, c.st)
	if problem != nil {
		s.writeProblem(w, r, problem)
		return
	}
	out, done := s.openStream(w)
	defer done()
	after, err := out.reset(c.st, after)
	if err != nil {
		return
	}
	q := r.URL.Query()
	wanted := func(e statestore.Event) bool {
		return eventMatches(e, q.Get("types"), q.Get("service")) && visible(c, e)
	}
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for {
		changed := s.cfg.Store.Changed()
		c.st = s.cfg.Store.State()
		if after, err = s.sendAfter(out, c.st, after, wanted); err != nil {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
			if out.comment("still here") != nil || !s.stillIn(r) {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// resumeAfter returns the index of the last event that the reader has.
func resumeAfter(r *http.Request, st *statestore.State) (uint64, *apitype.Problem) {
	for _, from := range []struct{ pointer, index string }{
		{"Last-Event-ID", r.Header.Get("Last-Event-ID")},
		{"?after", r.URL.Query().Get("after")},
	} {
		if from.index == "" {
			continue
		}
		n, err := strconv.ParseUint(from.index, 10, 64)
		if err != nil {
			return 0, invalidField(from.pointer, "must be a log index, is %q", from.index)
		}
		return n, nil
	}
	return st.Index, nil
}

// reset tells a reader whose place is no longer kept, and returns the place before
// all that is left.
func (o *stream) reset(st *statestore.State, after uint64) (uint64, error) {
	if !cut(st, after) {
		return after, nil
	}
	if len(st.Events) > 0 {
		after = st.Events[0].Index - 1
	}
	return after, o.send("reset", strconv.FormatUint(after, 10), []byte(`{"reason":"history before this was cut; read the state anew"}`))
}

// sendAfter sends the wanted events above an index and returns the last one's.
func (s *Server) sendAfter(out *stream, st *statestore.State, after uint64, wanted func(statestore.Event) bool) (uint64, error) {
	first, _ := slices.BinarySearchFunc(st.Events, after+1, func(e statestore.Event, n uint64) int { return cmp.Compare(e.Index, n) })
	for _, e := range st.Events[first:] {
		after = e.Index
		if !wanted(e) {
			continue
		}
		data, err := CloudEvent(st.Installation, s.cfg.Node, e)
		if err != nil {
			s.log.Error("encode an event", keyIndex, e.Index, keyErr, err)
			continue
		}
		if err := out.send("", strconv.FormatUint(e.Index, 10), data); err != nil {
			return after, err
		}
	}
	return after, nil
}

// stillIn reports whether the reader's credentials hold: a revoked token must not
// read on for ever.
func (s *Server) stillIn(r *http.Request) bool {
	st := s.cfg.Store.State()
	p, err := s.authenticate(r, st)
	return err == nil && canSome(st, p, statestore.CanRead)
}

// cut reports whether events after the index are no longer kept.
func cut(st *statestore.State, after uint64) bool {
	if uint64(len(st.Events)) >= st.Audit.Count {
		return false
	}
	return len(st.Events) == 0 || after < st.Events[0].Index-1
}

// stream writes server-sent events.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// openStream starts a stream. The caller calls done when it ends.
func (s *Server) openStream(w http.ResponseWriter) (*stream, func()) {
	if rec, ok := w.(*recorder); ok {
		rec.stream = true
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	out := &stream{w: w, rc: http.NewResponseController(w)}
	_ = out.rc.SetReadDeadline(time.Time{}) // not every test's writer has deadlines
	w.WriteHeader(http.StatusOK)
	_ = out.comment("quorate")
	s.met.streams.Inc()
	return out, s.met.streams.Dec
}

func (o *stream) send(event, id string, data []byte) error {
	var b bytes.Buffer
	if event != "" {
		fmt.Fprintf(&b, "event: %s\n", event)
	}
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return o.write(b.Bytes())
}

func (o *stream) comment(text string) error { return o.write([]byte(": " + text + "\n\n")) }

func (o *stream) write(b []byte) error {
	_ = o.rc.SetWriteDeadline(time.Now().Add(streamWrite)) // as above
	if _, err := o.w.Write(b); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	if err := o.rc.Flush(); err != nil {
		return fmt.Errorf("flush a stream: %w", err)
	}
	return nil
}
