package dnsserver

import (
	"encoding/hex"
	"net/netip"

	"github.com/miekg/dns"
)

// edns is what a query's OPT record said, and what the answer's must say. The zero
// value is a query without one: its answer has none either.
type edns struct {
	present   bool
	malformed bool // two of them, not at the root, not in the additional section, or a bad option
	version   uint8
	size      uint16
	do        bool
	nsid      bool
	subnet    netip.Prefix
	ecs       *dns.EDNS0_SUBNET // to send back
	stale     bool              // the answer is older than its service wants it (RFC 8914)
	withheld  string            // why nobody is answered of a stateful service
}

// readEDNS reads the OPT record of a query (RFC 6891 6.1.1). Options nobody knows
// are ignored.
func readEDNS(q *dns.Msg) edns {
	var e edns
	for _, section := range [][]dns.RR{q.Answer, q.Ns} {
		for _, rr := range section {
			if rr.Header().Rrtype == dns.TypeOPT {
				e.present, e.malformed = true, true
			}
		}
	}
	for _, rr := range q.Extra {
		opt, ok := rr.(*dns.OPT)
		if !ok {
			continue
		}
		if e.present || opt.Hdr.Name != "." {
			e.malformed = true
		}
		e.present = true
		e.version, e.size, e.do = opt.Version(), opt.UDPSize(), opt.Do()
		for _, o := range opt.Option {
			switch o := o.(type) {
			case *dns.EDNS0_NSID:
				e.nsid = true
			case *dns.EDNS0_SUBNET:
				e.readSubnet(o)
			}
		}
	}
	return e
}

// readSubnet takes the client's subnet (RFC 7871 7.1.2). It is sent back as it came,
// with the scope of the answer: 0 until something depended on it.
func (e *edns) readSubnet(o *dns.EDNS0_SUBNET) {
	bits := 0
	switch o.Family {
	case 1:
		bits = 32
	case 2:
		bits = 128
	}
	addr, ok := netip.AddrFromSlice(o.Address)
	if bits == 32 {
		addr = addr.Unmap()
	}
	switch {
	case o.Family == 0 && o.SourceNetmask == 0 && o.SourceScope == 0:
		e.ecs = &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET}
		return
	case bits == 0, !ok, o.SourceScope != 0, int(o.SourceNetmask) > bits, addr.BitLen() != bits:
		e.malformed = true
		return
	}
	subnet := netip.PrefixFrom(addr, int(o.SourceNetmask))
	if subnet.Masked() != subnet {
		e.malformed = true // bits beyond the prefix must be zero
		return
	}
	e.subnet = subnet
	e.ecs = &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: o.Family, SourceNetmask: o.SourceNetmask, Address: o.Address}
}

// limit is how many octets the client takes over UDP.
func (e edns) limit() int {
	if !e.present {
		return plainSize
	}
	return max(plainSize, int(e.size)) // RFC 6891 6.2.5
}

// reply returns the answer's OPT record, or nil when the query had none.
func (e edns) reply(cfg Config) *dns.OPT {
	if !e.present {
		return nil
	}
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(udpSize)
	if e.do {
		opt.SetDo()
	}
	if e.nsid && cfg.NSID != "" {
		opt.Option = append(opt.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: hex.EncodeToString([]byte(cfg.NSID))})
	}
	if e.ecs != nil && !e.malformed && e.version == 0 {
		opt.Option = append(opt.Option, e.ecs)
	}
	if e.stale {
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer})
	}
	if e.withheld != "" {
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNotReady, ExtraText: e.withheld})
	}
	return opt
}
