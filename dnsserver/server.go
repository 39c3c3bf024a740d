package dnsserver

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/routing"
)

// Server answers DNS on its addresses. Make one with New.
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	conns   *connections
	times   tcpTimes
	traffic *traffic
	shared  *shard // counts what no worker does: Respond, and with it TCP by package net
	made    time.Time
	limit   atomic.Pointer[limiter] // nil: nothing is limited
	cookies *CookieSecrets          // in use while the nodes share none

	signer     *dnssec.Signer
	signLogged atomic.Int64 // when a signature that could not be made was logged last
	published  publisher

	panicLogged atomic.Int64 // when a panic was logged last, in Unix nanoseconds

	mu    sync.Mutex // guards bound
	bound []*binding
}

// New returns a server that is bound to nothing yet.
func New(cfg Config) *Server {
	if cfg.Table == nil {
		cfg.Table = func() *routing.Table { return nil }
	}
	if cfg.Draw == nil {
		cfg.Draw = rand.Uint64
	}
	if cfg.Age == nil {
		cfg.Age = func() time.Duration { return 0 }
	}
	if cfg.UDPSize == 0 {
		cfg.UDPSize = udpSize
	}
	if cfg.Readers == 0 {
		cfg.Readers = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if cfg.MaxTCP == 0 {
		cfg.MaxTCP = maxTCP
	}
	if cfg.MaxTCPPerPrefix == 0 {
		cfg.MaxTCPPerPrefix = maxTCPPerPrefix
	}
	s := &Server{published: publisher{due: make(chan struct{}, 1)}, cfg: cfg, times: tcpDefaults, signer: dnssec.NewSigner(cfg.Signing), log: cfg.Log, made: time.Now(), cookies: DrawCookieSecrets()}
	s.Limit(cfg.RateLimit)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.metrics = newMetrics(cfg)
	s.shared = s.metrics.counters.shard()
	s.traffic = newTraffic(&s.metrics.counters, s.made)
	s.conns = newConnections(cfg.MaxTCP, cfg.MaxTCPPerPrefix)
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(newSigningCollector(s))
	}
	return s
}

// Bind opens every address for UDP and TCP. When one cannot be had, none is kept,
// and the error names address and cause: "listen udp 127.0.0.1:53: address already
// in use". Binding twice does nothing.
func (s *Server) Bind() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound != nil {
		return nil
	}
	addrs, err := listenAddrs(s.cfg.Listen)
	if err != nil {
		return err
	}
	bound := []*binding{}
	for _, a := range addrs {
		b, err := bind(a, s.cfg.Readers)
		if err != nil && a.optional && errors.Is(err, errNoFamily) {
			continue
		}
		if err != nil {
			for _, b := range bound {
				b.close()
			}
			return err
		}
		bound = append(bound, b)
	}
	s.bound = bound
	return nil
}

// Addrs returns the addresses that Bind opened, with the ports they got.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var addrs []netip.AddrPort
	for _, b := range s.bound {
		addrs = append(addrs, b.addr)
	}
	return addrs
}

// Run binds if Bind was not called, answers until ctx is done, closes every socket
// and returns once all its goroutines have. The error is Bind's.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Bind(); err != nil {
		return err
	}
	s.mu.Lock()
	bound := s.bound
	s.mu.Unlock()
	var wg sync.WaitGroup
	var listeners []*net.TCPListener
	for _, b := range bound {
		for _, p := range b.udp {
			wg.Go(func() { s.serveUDP(ctx, p) })
		}
		listeners = append(listeners, b.tcp)
	}
	wg.Go(func() { s.serveTCP(ctx, listeners) })
	wg.Go(func() { s.keepPrepared(ctx) })
	wg.Go(func() { s.traffic.run(ctx) })
	<-ctx.Done()
	for _, b := range bound {
		b.stop()
	}
	wg.Wait()
	for _, b := range bound {
		b.close()
	}
	return nil
}
