package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

var errNoTable = errors.New("no table is loaded")

type logLevelInput struct {
	writing
	Body apitype.LogLevel
}

func (s *Server) nodeRoutes(api huma.API) {
	s.explainRoute(api)
	huma.Register(api, operation(http.MethodGet, "/node/log-level", "log-level", "This node's log level", statestore.CanAdmin, http.StatusNotImplemented),
		func(ctx context.Context, _ *reading) (*output[apitype.LogLevel], error) {
			return s.logLevel(callOf(ctx))
		})
	huma.Register(api, operation(http.MethodPut, "/node/log-level", "set-log-level", "Change this node's log level until it restarts", statestore.CanAdmin, http.StatusUnprocessableEntity, http.StatusNotImplemented),
		func(ctx context.Context, in *logLevelInput) (*output[apitype.LogLevel], error) {
			c := callOf(ctx)
			if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
				return nil, err
			}
			if s.cfg.LogLevel == nil {
				return nil, unsupported("change its log level")
			}
			var level slog.Level
			if err := level.UnmarshalText([]byte(in.Body.Level)); err != nil {
				return nil, invalidField("/level", "must be debug, info, warn or error, is %q", in.Body.Level)
			}
			s.cfg.LogLevel.Set(level)
			s.log.Info("log level changed", keyUser, c.p.User, keyLevel, level.String())
			return s.logLevel(c)
		})
	huma.Register(api, operation(http.MethodGet, "/node/config", "node-config", "This node's configuration, secrets masked", statestore.CanAdmin, http.StatusNotImplemented),
		func(ctx context.Context, _ *reading) (*output[apitype.NodeConfig], error) {
			c := callOf(ctx)
			if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
				return nil, err
			}
			if s.cfg.NodeConfig == nil {
				return nil, unsupported("show its configuration")
			}
			return envelope(c, "node-config", apitype.NodeConfig{Node: s.cfg.Node, Source: s.cfg.NodeConfig()}), nil
		})
	s.reloadRoute(api)
	backup := operation(http.MethodGet, "/backup", "backup", "A snapshot of the replicated state", statestore.CanAdmin)
	backup.Responses = map[string]*huma.Response{"200": {
		Description: "The snapshot",
		Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}},
	}}
	huma.Register(api, backup, func(ctx context.Context, _ *reading) (*huma.StreamResponse, error) {
		c := callOf(ctx)
		if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			hc.SetHeader("Content-Type", "application/octet-stream")
			hc.SetHeader("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fmt.Sprintf("quorate-%d.snap", c.st.Index)))
			hc.SetStatus(http.StatusOK)
			if err := statestore.WriteSnapshot(hc.BodyWriter(), c.st); err != nil {
				s.log.Warn("backup ended early", keyUser, c.p.User, keyErr, err)
				panic(http.ErrAbortHandler) // the reader must not take it for whole
			}
		}}, nil
	})
}

func (s *Server) logLevel(c *call) (*output[apitype.LogLevel], error) {
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	if s.cfg.LogLevel == nil {
		return nil, unsupported("tell its log level")
	}
	return envelope(c, "log-level", apitype.LogLevel{Level: strings.ToLower(s.cfg.LogLevel.Level().String())}), nil
}

// probeCheck is one line of a health endpoint's verbose answer.
type probeCheck struct {
	name string
	err  error
}

// healthRoutes are for machines and need no login. They say nothing that a
// stranger could use.
func (s *Server) healthRoutes(mux *http.ServeMux) {
	for _, prefix := range []string{"", "/v1"} {
		mux.HandleFunc("GET "+prefix+"/livez", s.health(func() []probeCheck { return []probeCheck{{name: "http"}} }))
		// Readiness is about answering. Without quorum this node answers on, in
		// exactly the partition it is built for, so quorum is not asked here.
		mux.HandleFunc("GET "+prefix+"/readyz", s.health(func() []probeCheck {
			checks := []probeCheck{{name: "sockets"}, {name: "table"}}
			if !s.cfg.Bound() {
				checks[0].err = errors.New("a socket is not bound yet")
			}
			if s.cfg.Table() == nil {
				checks[1].err = errNoTable
			}
			return checks
		}))
		mux.HandleFunc("GET "+prefix+"/quorumz", s.health(func() []probeCheck {
			check := probeCheck{name: "quorum"}
			if q := s.cfg.Quorum(); !q.HasQuorum {
				check.err = fmt.Errorf("no leader heard for %.1f s", q.Stale.Seconds())
				if q.Trouble != "" {
					check.err = errors.New(q.Trouble)
				}
			}
			return []probeCheck{check}
		}))
	}
}

func (s *Server) health(run func() []probeCheck) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		failed := false
		for _, c := range run() {
			if c.err != nil {
				failed = true
				fmt.Fprintf(&b, "[-]%s failed: %v\n", c.name, c.err)
				continue
			}
			fmt.Fprintf(&b, "[+]%s ok\n", c.name)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := "ok\n"
		if failed {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = b.String()
		} else if r.URL.Query().Has("verbose") {
			text = b.String() + "ok\n"
		}
		_, _ = io.WriteString(w, text) // a prober that went away asks again
	}
}
