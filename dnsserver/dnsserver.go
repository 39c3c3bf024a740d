// Package dnsserver answers DNS over UDP and TCP from a routing.Table.
//
// A query costs one atomic load of the table a batch of packets and neither a lock nor
// I/O: with quorum, disk and peers gone the last table goes on answering (G5). Ordinary
// queries are answered from prepared bytes (wire), which the general path made; all
// others by it. UDP is served by a bounded loop, one worker a core and address, never a
// goroutine a packet; a panic is counted and never ends the process. The package decides
// nothing about answers: routing.Select does (G14).
package dnsserver

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/routing"
)

// Config says where to answer and from what. The zero value serves nothing.
type Config struct {
	// Listen are the addresses for UDP and TCP, as IP:PORT; ":53" stands for both
	// wildcards, port 0 for a free one. Empty: this node answers nobody.
	Listen []string

	// Table returns the table to answer from until one is published: one atomic load.
	// While it returns nil, queries are refused.
	Table func() *routing.Table

	// Age returns how long this node has not heard a leader that holds its lease.
	// It is called for every packet batch and must not block. Nil: always fresh.
	Age func() time.Duration

	NSID string        // given to who asks for it (RFC 5001); empty: off
	Draw func() uint64 // random numbers for weighted answers; nil: math/rand/v2

	// Cookies returns the keys of server cookies that all nodes share: one atomic load.
	// Nil, or while it returns nil: keys that only this server knows.
	Cookies func() *CookieSecrets

	RateLimit RateLimit // zero: answers are not limited

	// Keys returns the keys of a signed zone: one atomic load and a look into a map. Nil,
	// or where it returns nil: the zone cannot be signed, and says so.
	Keys    func(zone string) *dnssec.Zone
	Signing dnssec.Limits // of what signatures cost; zero: the defaults

	UDPSize         int // longest answer over UDP; 0: 1232 (RFC 9715)
	Readers         int // UDP readers an address; 0: GOMAXPROCS less one, which is left for everything else
	MaxTCP          int // open TCP connections in all; 0: 1024
	MaxTCPPerPrefix int // open TCP connections from one /24 or /56; 0: 128

	Log        *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

// Proto is how a query came in.
type Proto uint8

// The protocols.
const (
	UDP Proto = iota
	TCP
)

// String returns "udp" or "tcp".
func (p Proto) String() string {
	if p == TCP {
		return "tcp"
	}
	return "udp"
}
