package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// endpoints are what the health checks of all servers ask: one HTTP server on the
// address of each cluster.
type endpoints struct {
	port     int
	servers  []*http.Server
	flapping atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex      // guards what follows
	last  map[string]bool // by path: whether it was well when it was asked last
	turns int             // how often that changed
}

// healthPath is always well. A path below flapPath is, on the first cluster's
// address and while flapping, ill every other flapEvery; else it is well.
const (
	healthPath = "/healthz"
	flapPath   = "/flap/"
	flapEvery  = 100 * time.Millisecond
)

func startEndpoints() (*endpoints, error) {
	e := &endpoints{last: map[string]bool{}}
	for k := range clusterCount {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(clusterAddress(k), strconv.Itoa(e.port)))
		if err != nil {
			e.close()
			return nil, fmt.Errorf("listen where health checks ask: %w", err)
		}
		e.port = l.Addr().(*net.TCPAddr).Port
		s := &http.Server{Handler: e.handler(k == 0), ReadHeaderTimeout: time.Second}
		e.servers = append(e.servers, s)
		e.wg.Go(func() { _ = s.Serve(l) }) // ends when it is closed
	}
	return e, nil
}

func (e *endpoints) handler(first bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(healthPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(flapPath, func(w http.ResponseWriter, r *http.Request) {
		if first && !e.well(r.URL.Path) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
}

// well says whether a flapping path is well now. Each has its own phase, so that
// they do not turn together.
func (e *endpoints) well(path string) bool {
	phase := time.Duration(path[len(path)-1]) * flapEvery / 10
	well := !e.flapping.Load() || time.Now().Add(phase).UnixNano()/int64(flapEvery)%2 == 0
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, known := e.last[path]; known && was != well {
		e.turns++
	}
	e.last[path] = well
	return well
}

// turned is how many changes probes have been shown.
func (e *endpoints) turned() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.turns
}

func (e *endpoints) close() {
	for _, s := range e.servers {
		_ = s.Close() // nobody waits for what it still says
	}
	e.wg.Wait()
}
