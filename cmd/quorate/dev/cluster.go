package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// fakeCluster stands for one of the clusters a person would serve from: a web
// server, and a database in those that have one. Its switch closes listeners and
// connections of all of them, as a site that is lost does.
type fakeCluster struct {
	name   string
	region string
	addr   netip.Addr // what DNS answers

	web  *fakeServer
	data *fakeServer // nil: it has no database
}

// fakeServer is one HTTP server of a cluster.
type fakeServer struct {
	port    uint16         // as the spec names it, on the cluster's address
	bind    netip.AddrPort // where it listens: there, unless the address cannot be bound
	handler http.Handler
	changed func(up bool) // told before it serves and before it ends; nil: nobody is

	mu     sync.Mutex // guards what follows
	server *http.Server
	done   chan struct{} // closed when server has stopped serving
}

// servers are those that the cluster has.
func (c *fakeCluster) servers() []*fakeServer {
	if c.data == nil {
		return []*fakeServer{c.web}
	}
	return []*fakeServer{c.web, c.data}
}

// up starts serving. It does nothing when the cluster is up.
func (c *fakeCluster) up() error {
	for _, s := range c.servers() {
		if err := s.up(); err != nil {
			c.down()
			return fmt.Errorf("start cluster %s: %w", c.name, err)
		}
	}
	return nil
}

// down stops serving at once and waits for the servers to end. It does nothing
// when the cluster is down.
func (c *fakeCluster) down() {
	for _, s := range c.servers() {
		s.down()
	}
}

func (s *fakeServer) up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.bind.String())
	if err != nil {
		return err
	}
	if s.changed != nil {
		s.changed(true)
	}
	server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	s.server, s.done = server, done
	go func() {
		defer close(done)
		// Serve returns ErrServerClosed after down; anything else leaves the
		// cluster down, which the probes report.
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			_ = server.Close()
		}
	}()
	return nil
}

func (s *fakeServer) down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return
	}
	if s.changed != nil {
		s.changed(false)
	}
	_ = s.server.Close() // closing listeners and connections is the point; there is nobody to tell
	<-s.done
	s.server = nil
}

// webHandler serves what the clusters' web servers do.
func (c *fakeCluster) webHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "cluster %s in %s\n", c.name, c.region)
	})
	return mux
}

// portsOfClusters bounds the search for a port that every cluster can bind.
const portsOfClusters = 200

// placeClusters makes a cluster a site, with an address of its own in 127.0.8.0/24;
// where the system has no such addresses, clusters answer with documentation
// addresses and listen on 127.0.0.1.
func placeClusters(sites []site) []*fakeCluster {
	own := true
	if ln, err := net.Listen("tcp", "127.0.8.1:0"); err != nil {
		own = false
	} else {
		_ = ln.Close() // only asked whether it can be bound
	}
	clusters := make([]*fakeCluster, 0, len(sites))
	for i, s := range sites {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		if own {
			addr = netip.AddrFrom4([4]byte{127, 0, 8, byte(i + 1)})
		}
		c := &fakeCluster{name: s.cluster, region: s.region, addr: addr}
		c.web = &fakeServer{handler: c.webHandler()}
		clusters = append(clusters, c)
	}
	return clusters
}

// openServers starts servers, one a cluster, on the first port from first that all
// of them can bind: on the clusters' own addresses, or else one port each on
// 127.0.0.1.
func openServers(clusters []*fakeCluster, server func(*fakeCluster) *fakeServer, first int) error {
	for port := first; port < first+portsOfClusters; port++ {
		var err error
		for i, c := range clusters {
			s := server(c)
			s.port, s.bind = uint16(port), netip.AddrPortFrom(c.addr, uint16(port))
			if !c.addr.IsLoopback() {
				s.bind = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port+i))
			}
			if err = s.up(); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
		for _, c := range clusters {
			server(c).down()
		}
	}
	return fmt.Errorf("no port from %d to %d is free on the demo's cluster addresses", first, first+portsOfClusters-1)
}
