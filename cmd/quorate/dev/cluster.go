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

// fakeCluster is an HTTP server that stands for one of the clusters a person
// would serve from. Its switch closes the listener and every connection, as a
// site that lost its front door does.
type fakeCluster struct {
	name   string
	region string
	addr   netip.Addr     // what DNS answers
	bind   netip.AddrPort // where the server listens, addr's own port unless it cannot be bound

	mu     sync.Mutex // guards server
	server *http.Server
	done   chan struct{} // closed when server has stopped serving
}

// up starts serving. It does nothing when the cluster is up.
func (c *fakeCluster) up() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return nil
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", c.bind.String())
	if err != nil {
		return fmt.Errorf("start cluster %s: %w", c.name, err)
	}
	c.serveLocked(ln)
	return nil
}

// serveLocked serves ln until down. The caller holds mu.
func (c *fakeCluster) serveLocked(ln net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "cluster %s in %s\n", c.name, c.region)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	c.server, c.done = server, done
	go func() {
		defer close(done)
		// Serve returns ErrServerClosed after down; anything else leaves the
		// cluster down, which the probes report.
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			_ = server.Close()
		}
	}()
}

// down stops serving at once and waits for the server to end. It does nothing
// when the cluster is down.
func (c *fakeCluster) down() {
	c.mu.Lock()
	server, done := c.server, c.done
	c.server = nil
	c.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close() // closing listeners and connections is the point; there is nobody to tell
	<-done
}

// clusterPorts bounds the search for a port that every cluster can bind.
const clusterPorts = 200

// openClusters starts one fake cluster a name on the first port from firstPort
// that all of them can bind. Each gets an address of its own in 127.0.8.0/24;
// where the system has no such addresses, clusters answer with documentation
// addresses and listen on 127.0.0.1, one port each.
func openClusters(sites []site, firstPort int) ([]*fakeCluster, error) {
	own := true
	if ln, err := net.Listen("tcp", "127.0.8.1:0"); err != nil {
		own = false
	} else {
		_ = ln.Close() // only asked whether it can be bound
	}
	for port := firstPort; port < firstPort+clusterPorts; port++ {
		clusters := make([]*fakeCluster, 0, len(sites))
		var err error
		for i, s := range sites {
			c := &fakeCluster{name: s.cluster, region: s.region}
			if own {
				c.addr = netip.AddrFrom4([4]byte{127, 0, 8, byte(i + 1)})
				c.bind = netip.AddrPortFrom(c.addr, uint16(port))
			} else {
				c.addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
				c.bind = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port+i))
			}
			if err = c.up(); err != nil {
				break
			}
			clusters = append(clusters, c)
		}
		if err == nil {
			return clusters, nil
		}
		for _, c := range clusters {
			c.down()
		}
	}
	return nil, fmt.Errorf("no port from %d to %d is free on the demo's cluster addresses", firstPort, firstPort+clusterPorts-1)
}
