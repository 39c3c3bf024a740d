package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
)

// Timeouts of the HTTP server. Streams lift the write timeout for themselves.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10

	// proposeTimeout bounds a write. It covers two elections of the WAN profile;
	// what is not applied by then is reported as unknown.
	proposeTimeout = 15 * time.Second

	// shutdownGrace is how long open requests may take once the server stops.
	shutdownGrace = 3 * time.Second
)

// Body limits. The spec's leaves room for thousands of services.
const (
	maxBody     = 64 << 10
	maxSpecBody = 4 << 20
)

// Server serves the API of one node.
type Server struct {
	cfg      Config
	log      *slog.Logger
	met      *metrics
	console  *console.Console
	handler  http.Handler
	openAPI  []byte
	requests *limiter
	failures *limiter
	refusals *limiter
	probes   *limiter
	whatIfs  *limiter
	plans    *planCache
	told     trafficCache

	stopping chan struct{} // closed when Run ends: streams finish
	stopOnce sync.Once
}

// New returns a server that is not serving yet. It returns an error when
// something required is missing from cfg.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Node == "":
		return nil, errors.New("api: Config.Node is empty")
	case cfg.Store == nil, cfg.Proposer == nil, cfg.Quorum == nil, cfg.Table == nil, cfg.Decode == nil:
		return nil, errors.New("api: Config needs Store, Proposer, Quorum, Table and Decode")
	}
	if cfg.IsNoLeader == nil {
		cfg.IsNoLeader = func(err error) bool { return errors.Is(err, ErrNoLeader) }
	}
	if cfg.IsUnknownOutcome == nil {
		cfg.IsUnknownOutcome = func(err error) bool { return errors.Is(err, ErrUnknownOutcome) }
	}
	if cfg.Bound == nil {
		cfg.Bound = func() bool { return true }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.SocketGroup == "" {
		cfg.SocketGroup = "quorate"
	}
	page, err := console.New()
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	s := &Server{
		cfg:      cfg,
		log:      cfg.Log,
		met:      newMetrics(cfg.Registerer),
		console:  page,
		requests: newLimiter(requestRate, requestBurst),
		failures: newLimiter(failureRate, failureBurst),
		refusals: newLimiter(refusalRate, refusalBurst),
		probes:   newLimiter(probeRate, probeBurst),
		whatIfs:  newLimiter(whatIfRate, whatIfBurst),
		plans:    newPlanCache(),
		stopping: make(chan struct{}),
	}
	if err := s.routes(); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return s, nil
}

// OpenAPI returns the description served at /v1/openapi.json.
func (s *Server) OpenAPI() []byte { return s.openAPI }

// Handler returns the whole API and console, for a test server or another mux.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves on all listeners until ctx is done, and closes them. A unix listener
// gives its clients the rights of their user. Run returns nil after ctx, and
// otherwise why a listener failed.
func (s *Server) Run(ctx context.Context, listeners ...net.Listener) error {
	srv := &http.Server{
		Handler:           s.handler,
		ConnContext:       connContext,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(listeners))
	for i, ln := range listeners {
		s.log.Info("api listens", keyAddr, ln.Addr().String())
		wg.Go(func() {
			if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				errs[i] = fmt.Errorf("serve the api on %s: %w", ln.Addr(), err)
				cancel()
			}
		})
	}
	<-ctx.Done()
	// Streams never end by themselves, so they are told first.
	s.stopOnce.Do(func() { close(s.stopping) })
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer done()
	if err := srv.Shutdown(grace); err != nil {
		_ = srv.Close() // whoever is still connected had its grace
	}
	wg.Wait()
	return errors.Join(errs...)
}

// routes builds the mux and the OpenAPI document.
func (s *Server) routes() error {
	installProblems()
	mux := http.NewServeMux()
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "quorate",
				Version:     apitype.Version,
				Description: "Any node answers reads from its own state and forwards writes to the leader.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "qt1.ID.SECRET, from POST /v1/tokens"},
				},
			},
		},
		Formats: map[string]huma.Format{
			"application/json": jsonFormat(),
			"json":             jsonFormat(),
		},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	api := humago.New(mux, cfg)
	api.UseMiddleware(s.admit(api))
	s.readRoutes(api)
	s.zoneRoute(api)
	s.signingRoute(api)
	s.actRoutes(api)
	s.cutoverRoutes(api)
	s.probeRoutes(api)
	s.overrideRoutes(api)
	s.drainsRoutes(api)
	s.simulateRoutes(api)
	s.replayRoutes(api)
	s.specRoutes(api)
	s.accessRoutes(api)
	s.eventRoutes(api)
	s.nodeRoutes(api)

	doc, err := json.MarshalIndent(api.OpenAPI(), "", "  ")
	if err != nil {
		return fmt.Errorf("write the OpenAPI document: %w", err)
	}
	s.openAPI = append(doc, '\n')
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.openAPI) // a client that went away is its own problem
	})
	s.healthRoutes(mux)
	if s.cfg.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{}))
	}
	s.consoleRoutes(mux)
	s.handler = s.wrap(mux)
	return nil
}
