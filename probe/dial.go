package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// DialFunc opens a connection to addr, a literal "IP:PORT".
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// AddressPolicy says which addresses probes and hooks may reach. It is checked
// on the address that is dialled, after any resolution, so a name that resolves
// differently the second time gains nothing.
type AddressPolicy struct {
	// Allow opens private ranges and, by prefixes that lie wholly inside them,
	// loopback, link-local and the like. A metadata address must be listed itself.
	Allow []netip.Prefix
	// Deny is never reached, whatever Allow says: this node's own listeners. An
	// unspecified address stands for loopback; whoever knows the addresses of the
	// node lists them too.
	Deny []netip.AddrPort
}

// DeniedError says that the policy of this node keeps it from an address. The
// endpoint may be well: it is no reason to vote down.
type DeniedError struct {
	Addr netip.AddrPort
	Why  string
}

// Error names the address, the rule and the way out.
func (e *DeniedError) Error() string { return fmt.Sprintf("reach %s: %s", e.Addr, e.Why) }

// addressClass is a range that is closed unless it is listed.
type addressClass struct {
	name     string
	private  bool // opened by any prefix that contains the address
	prefixes []netip.Prefix
}

// closedClasses, first match decides. Metadata services hand out the credentials
// of the machine: each is a class of one, so only the address itself opens it.
var closedClasses = []addressClass{
	{name: "a metadata service", prefixes: prefixes("169.254.169.254/32 169.254.170.2/32 168.63.129.16/32 100.100.100.200/32 192.0.0.192/32 fd00:ec2::254/128 fd20:ce::254/128 fd00:42::42/128")},
	{name: "loopback", prefixes: prefixes("127.0.0.0/8 ::1/128")},
	{name: "unspecified", prefixes: prefixes("0.0.0.0/8 ::/128")},
	{name: "link-local", prefixes: prefixes("169.254.0.0/16 fe80::/10")},
	{name: "multicast", prefixes: prefixes("224.0.0.0/4 ff00::/8")},
	{name: "reserved", prefixes: prefixes("240.0.0.0/4")},
	{name: "private", private: true, prefixes: prefixes("10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10 64:ff9b:1::/48")},
}

func prefixes(list string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range strings.Fields(list) {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// Check returns a *DeniedError when addr may not be reached, else nil.
func (p AddressPolicy) Check(addr netip.AddrPort) error {
	ip := addr.Addr().Unmap().WithZone("")
	if !ip.IsValid() {
		return &DeniedError{addr, "it is not an address"}
	}
	// A translator or tunnel would carry the packet to the IPv4 address inside.
	for _, form := range append([]netip.Addr{ip}, embeddedIPv4(ip)...) {
		if p.own(netip.AddrPortFrom(form, addr.Port())) {
			return &DeniedError{addr, "it is this node's own listener"}
		}
		if class, closed := p.closed(form); closed {
			return &DeniedError{addr, fmt.Sprintf("%s is %s and not listed in observer.allow", form, class)}
		}
	}
	return nil
}

// own reports whether addr is one of Deny.
func (p AddressPolicy) own(addr netip.AddrPort) bool {
	ip := addr.Addr()
	return slices.ContainsFunc(p.Deny, func(d netip.AddrPort) bool {
		own := d.Addr().Unmap().WithZone("")
		return d.Port() == addr.Port() && (own == ip || own.IsUnspecified() && (ip.IsLoopback() || ip.IsUnspecified()))
	})
}

// Control refuses denied addresses; it fits net.Dialer's Control.
func (p AddressPolicy) Control(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reach %q: %w", address, err)
	}
	return p.Check(addr)
}

// closed returns the closed class of ip, and whether Allow leaves it closed.
func (p AddressPolicy) closed(ip netip.Addr) (string, bool) {
	for _, class := range closedClasses {
		i := slices.IndexFunc(class.prefixes, func(r netip.Prefix) bool { return r.Contains(ip) })
		if i < 0 {
			continue
		}
		rng := class.prefixes[i]
		for _, a := range p.Allow {
			a = unmapPrefix(a)
			if !a.Contains(ip) {
				continue
			}
			inside := a.Bits() >= rng.Bits() && rng.Contains(a.Addr())
			if class.private || inside {
				return "", false
			}
		}
		return class.name, true
	}
	return "", false
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// The IPv6 forms that carry an IPv4 address.
var (
	ipv4Compatible = netip.MustParsePrefix("::/96")                     // RFC 4291 2.5.5.1
	ipv4Translated = netip.MustParsePrefix("::ffff:0:0:0/96")           // RFC 2765
	nat64          = netip.MustParsePrefix("64:ff9b::/96")              // RFC 6052
	nat64Local     = netip.MustParsePrefix("64:ff9b:1::/48")            // RFC 8215
	sixToFour      = netip.MustParsePrefix("2002::/16")                 // RFC 3056
	teredo         = netip.MustParsePrefix("2001::/32")                 // RFC 4380
	isatap         = [2][4]byte{{0, 0, 0x5e, 0xfe}, {2, 0, 0x5e, 0xfe}} // RFC 5214
)

// embeddedIPv4 returns the IPv4 addresses that ip would be carried to.
func embeddedIPv4(ip netip.Addr) []netip.Addr {
	if !ip.Is6() || ip.IsUnspecified() || ip.IsLoopback() {
		return nil
	}
	b := ip.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case ipv4Compatible.Contains(ip), ipv4Translated.Contains(ip), nat64.Contains(ip), nat64Local.Contains(ip):
		return []netip.Addr{last}
	case sixToFour.Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	case teredo.Contains(ip):
		server := netip.AddrFrom4([4]byte(b[4:8]))
		return []netip.Addr{server, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
	case slices.Contains(isatap[:], [4]byte(b[8:12])):
		return []netip.Addr{last}
	}
	return nil
}

// Source is the address that probes leave from; invalid ones leave it to the system.
type Source struct {
	IPv4 netip.Addr
	IPv6 netip.Addr
}

// local returns the local address to bind for an address of the family of to.
func (s Source) local(to netip.Addr) netip.Addr {
	if to.Unmap().Is6() {
		return s.IPv6
	}
	return s.IPv4
}

// NewDialer returns a DialFunc that leaves from source and refuses what policy
// denies. A nil policy refuses nothing: for addresses of the node's own file.
//
// The networks are "tcp", "udp" and "icmp": a connection that reads and writes ICMP
// messages through an unprivileged ping socket, its port without meaning. A host
// name is resolved first, so that what the policy judges is what is dialled.
func NewDialer(policy *AddressPolicy, source Source) DialFunc {
	d := dialer{policy, source}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(addr)
		if err != nil {
			return d.dialName(ctx, network, addr)
		}
		return d.dial(ctx, network, to)
	}
}

type dialer struct {
	policy *AddressPolicy // nil: all is open
	source Source
}

func (d dialer) dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if d.policy != nil {
		if err := d.policy.Check(to); err != nil {
			return nil, err
		}
	}
	from := d.source.local(to.Addr())
	nd := net.Dialer{KeepAlive: -1} // probes are too short for keep-alives
	if from.IsValid() {
		nd.Control = bindLate
	}
	switch network {
	case "icmp":
		return dialPing(to.Addr(), from)
	case "udp":
		if from.IsValid() {
			nd.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
	case "tcp":
		if from.IsValid() {
			nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
	default:
		return nil, fmt.Errorf("dial %s %s: %w", network, to, net.UnknownNetworkError(network))
	}
	// Not DialTCP, which binds even without a source: that takes a port for all destinations.
	return nd.DialContext(ctx, network, to.String())
}

// dialName resolves a name and dials its addresses in turn.
func (d dialer) dialName(ctx context.Context, network, addr string) (net.Conn, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	var errs []error
	for _, ip := range ips {
		conn, err := d.dial(ctx, network, netip.AddrPortFrom(ip, uint16(port)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
