package dnsserver

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// edns is what a query's OPT record said, and what the answer's must say. The zero
// value is a query without one: its answer has none either.
type edns struct {
	present   bool
	malformed bool // it is one too many or misplaced, or an option in it is wrong
	version   uint8
	size      uint16
	do        bool
	co        bool // who asks takes NXDOMAIN for what compact denial says is there (RFC 9824 5.1)
	nsid      bool
	cookie    cookie
	subnet    netip.Prefix
	ecs       *dns.EDNS0_SUBNET // to send back
	keepalive bool              // who asks wants to know how long the connection may be idle (RFC 7828)
	idle      time.Duration     // what to say of that; 0: nothing
	errors    []dns.EDNS0       // extended errors to send (RFC 8914)
}

// Bits of an OPT record's TTL (RFC 6891 6.1.3, RFC 9824 5.1).
const (
	flagDO = 1 << 15
	flagCO = 1 << 14
)

// readEDNS reads the OPT record of a query (RFC 6891 6.1.1). Flags and options that
// nobody knows are ignored, and so are the options of another version.
func readEDNS(q *received) edns {
	if !q.opt {
		return edns{}
	}
	e := edns{present: true, malformed: q.malformed, version: uint8(q.ttl >> 16), size: q.class, do: q.ttl&flagDO != 0, co: q.ttl&flagCO != 0}
	if e.version == 0 && !e.malformed {
		e.malformed = !e.readOptions(q.options)
	}
	return e
}

// readOptions reports whether the options are well formed. Of two that are the same
// the first counts (RFC 7873 5.2).
func (e *edns) readOptions(options []byte) bool {
	for len(options) > 0 {
		if len(options) < 4 {
			return false
		}
		code, n := binary.BigEndian.Uint16(options), int(binary.BigEndian.Uint16(options[2:]))
		if options = options[4:]; n > len(options) {
			return false
		}
		data := options[:n]
		options = options[n:]
		ok := true
		switch {
		case code == dns.EDNS0NSID:
			e.nsid = true
		case code == dns.EDNS0SUBNET && e.ecs == nil:
			ok = e.readSubnet(data)
		case code == dns.EDNS0COOKIE && e.cookie.client == nil:
			e.cookie, ok = readCookie(data)
		case code == dns.EDNS0TCPKEEPALIVE:
			e.keepalive = true
		}
		if !ok {
			return false
		}
	}
	return true
}

// limit is how many octets the client takes over UDP.
func (e *edns) limit() int {
	if !e.present {
		return plainSize
	}
	return max(plainSize, int(e.size)) // RFC 6891 6.2.5
}

// explain adds an extended error. Who did not speak EDNS does not hear it.
func (e *edns) explain(code uint16, text string) {
	if e.present {
		e.errors = append(e.errors, &dns.EDNS0_EDE{InfoCode: code, ExtraText: text})
	}
}

// reply returns the answer's OPT record, or nil when the query had none. Options are
// answered only when the query was understood.
func (e *edns) reply(cfg Config) *dns.OPT {
	if !e.present {
		return nil
	}
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(udpSize)
	if e.do {
		opt.SetDo()
	}
	if e.malformed || e.version > 0 {
		return opt
	}
	if e.nsid && cfg.NSID != "" {
		opt.Option = append(opt.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte(cfg.NSID))})
	}
	if e.cookie.reply != nil {
		opt.Option = append(opt.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: hex.EncodeToString(e.cookie.reply)})
	}
	if e.ecs != nil {
		opt.Option = append(opt.Option, e.ecs)
	}
	if e.idle > 0 {
		opt.Option = append(opt.Option, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE, Timeout: uint16(e.idle / keepaliveUnit)})
	}
	opt.Option = append(opt.Option, e.errors...)
	return opt
}
