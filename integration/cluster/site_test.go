//go:build integration

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sitePort = 8080

// site is a fake cluster: an HTTP server on a host of its own.
type site struct {
	*host
	t    *testing.T
	name string

	capacity atomic.Int64 // what it says that it can take; negative: nothing

	server *http.Server  // nil: down
	done   chan struct{} // closed when server has ended
}

// up lets the site serve.
func (s *site) up() {
	s.t.Helper()
	if s.server != nil {
		return
	}
	var ln net.Listener
	require.NoError(s.t, s.inside(func() (err error) {
		ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", netip.AddrPortFrom(s.addr, sitePort).String())
		return err
	}))
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: 5 * time.Second,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.t.Errorf("site %s: %v", s.name, err)
		}
	}()
	s.server, s.done = server, done
}

// serve answers every path well, and /capacity with what the site can take.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/capacity" {
		fmt.Fprintln(w, "ok")
		return
	}
	if c := s.capacity.Load(); c >= 0 {
		fmt.Fprintf(w, `{"available": %d}`, c)
		return
	}
	http.Error(w, "not now", http.StatusServiceUnavailable)
}

// down closes the listener and every connection.
func (s *site) down() {
	if s.server == nil {
		return
	}
	_ = s.server.Close() // breaking connections is the point
	<-s.done
	s.server = nil
}
