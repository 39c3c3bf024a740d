//go:build integration

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
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
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }),
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

// down closes the listener and every connection.
func (s *site) down() {
	if s.server == nil {
		return
	}
	_ = s.server.Close() // breaking connections is the point
	<-s.done
	s.server = nil
}
