package dnsserver

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/routing"
)

// panicLogEvery bounds how often a panic is logged; each one is counted.
const panicLogEvery = time.Second

// request is one query's circumstances.
type request struct {
	table  *routing.Table // nil: none yet
	age    time.Duration
	client netip.AddrPort
	proto  Proto
	shard  *shard
	sample uint32 // how many queries it is a sample of; 0: it is not looked at
}

// Respond returns the answer to a query, or nil where silence is right: to a
// response, to what has no header, and above the client's rate. UDP and TCP both
// answer by it.
func (s *Server) Respond(table *routing.Table, query []byte, client netip.AddrPort, proto Proto) []byte {
	return s.respondSafely(s.request(s.shared, table, client, proto), query)
}

// request is a single query, of a goroutine that counts in a shard.
func (s *Server) request(sh *shard, table *routing.Table, client netip.AddrPort, proto Proto) request {
	_, sample := sh.due(1)
	return request{table, s.cfg.Age(), client, proto, sh, sample}
}

// respondSafely keeps a panic from ending the process: it is counted, and the
// client hears SERVFAIL and asks another node.
func (s *Server) respondSafely(req request, query []byte) (reply []byte) {
	var start time.Time
	if req.sample > 0 {
		start = time.Now()
	}
	defer func() {
		if r := recover(); r != nil {
			s.panicked(r)
			reply = bare(query, dns.RcodeServerFailure)
		}
	}()
	switch {
	case len(query) < headerSize:
		req.shard.add(s.metrics.counters.dropped("short"))
		return nil
	case query[2]&0x80 != 0:
		req.shard.add(s.metrics.counters.dropped("response"))
		return nil // an answer to a response would make two servers talk for ever
	}
	reply = s.respond(req, query)
	if req.sample > 0 {
		req.shard.timed(req.sample, req.proto, start)
	}
	return reply
}

// panicked counts a panic, and logs it now and then.
func (s *Server) panicked(r any) {
	s.metrics.panics.Inc()
	if now := time.Now().UnixNano(); now-s.panicLogged.Swap(now) > int64(panicLogEvery) {
		s.log.Error("answering a query panicked", keyPanic, fmt.Sprint(r), keyStack, string(debug.Stack()))
	}
}

// respond is the general path, one step a file: read the query (read.go), ask the
// table and fill the message with its answer (fill.go), hold it against the client's
// rate (limited.go), sign it (sign.go), count, and pack what fits (pack.go).
func (s *Server) respond(req request, query []byte) []byte {
	m := s.read(req, query)
	if m.asks() {
		m.ask(s, req)
	}
	m.limitRate(s, req)
	m.sign(s)
	s.count(req, m)
	if m.dropped {
		return nil
	}
	return s.pack(m)
}
