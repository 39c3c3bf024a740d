package dnsserver

import (
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/dnsserver/wire"
	"github.com/quorate/quorate/routing"
)

// Both paths go by the same sizes. Packets shorter than a header are dropped.
const (
	udpSize    = wire.UDPSize
	plainSize  = wire.PlainSize
	headerSize = wire.HeaderSize
	optSize    = wire.OPTSize
	maxName    = wire.MaxName
)

// message is an answer being made, with what is counted of it.
type message struct {
	dns.Msg
	edns    edns
	proto   Proto
	shard   *shard
	qname   []byte // of the question, in wire format; nil: there is none to give back
	settled bool   // the answer needs nothing of the table, though its code says no error
	dropped bool   // it is not sent: the client's network has had too much
	limit   int    // octets
	zone    string // label: a configured zone or "none"
	qtype   string // label: a known type or "other"
	table   *routing.Table
	answer  routing.Answer
	rrsigs  []dns.RR  // what is asked for, where that is RRSIG
	lie     bool      // NSEC or RRSIG is asked for at a name that compact denial says is there
	from    time.Time // when the last signature begins to be valid
	until   time.Time // when the first signature is due to be replaced; zero: there is none
}

// asks reports whether the query is one that the table answers: nothing about its
// form has settled the answer.
func (m *message) asks() bool { return m.Rcode == dns.RcodeSuccess && !m.settled }

// bare is an answer of a header alone, for queries that cannot be read.
func bare(query []byte, rcode int) []byte {
	if len(query) < headerSize {
		return nil
	}
	h := make([]byte, headerSize)
	copy(h, query[:2])
	h[2] = 0x80 | query[2]&0x79 // QR; the query's opcode and RD
	h[3] = byte(rcode)
	return h
}
