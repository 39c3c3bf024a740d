package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
)

// address is one address to bind. An optional one may be missing because the
// host does not have its family.
type address struct {
	netip.AddrPort
	optional bool
}

// binding is an address with its sockets: one TCP listener, one UDP socket a reader.
type binding struct {
	addr netip.AddrPort
	udp  []packets
	tcp  *net.TCPListener
}

// errNoFamily is a host without IPv4 or without IPv6.
var errNoFamily = errors.New("address family not supported")

// freePortTries is how often a free port is sought whose UDP and TCP sides are
// both free.
const freePortTries = 16

// stop ends reading and accepting.
func (b *binding) stop() {
	for _, p := range b.udp {
		p.stop()
	}
	_ = b.tcp.Close()
}

// close gives everything back, once nobody uses it.
func (b *binding) close() {
	for _, p := range b.udp {
		p.close()
	}
	if b.tcp != nil {
		_ = b.tcp.Close()
	}
}

// listenAddrs parses the addresses. ":PORT" is both wildcards, apart, so that a
// v6 socket never takes v4 packets and the two may also be listed by hand.
func listenAddrs(listen []string) ([]address, error) {
	var addrs []address
	for _, l := range listen {
		if port, ok := strings.CutPrefix(l, ":"); ok {
			v4, err := netip.ParseAddrPort("0.0.0.0:" + port)
			if err != nil {
				return nil, fmt.Errorf("listen %q: must be IP:PORT", l)
			}
			addrs = append(addrs, address{AddrPort: v4}, address{netip.AddrPortFrom(netip.IPv6Unspecified(), v4.Port()), true})
			continue
		}
		a, err := netip.ParseAddrPort(l)
		if err != nil {
			return nil, fmt.Errorf("listen %q: must be IP:PORT", l)
		}
		addrs = append(addrs, address{AddrPort: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())})
	}
	return addrs, nil
}

// bind opens TCP and UDP on one address and the same port.
func bind(a address, readers int) (*binding, error) {
	var err error
	for range freePortTries {
		var b *binding
		if b, err = bindOnce(a, readers); err == nil {
			return b, nil
		}
		if a.Port() != 0 {
			break
		}
	}
	return nil, err
}

// bindOnce takes TCP first: its port is exclusive, while SO_REUSEPORT would let a
// second server of the same user share the UDP port unnoticed.
func bindOnce(a address, readers int) (*binding, error) {
	family := "4"
	if a.Addr().Is6() {
		family = "6"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp"+family, a.String())
	if err != nil {
		return nil, listenError("tcp", a.AddrPort, err)
	}
	b := &binding{tcp: l.(*net.TCPListener)}
	b.addr = b.tcp.Addr().(*net.TCPAddr).AddrPort()
	b.addr = netip.AddrPortFrom(b.addr.Addr().Unmap(), b.addr.Port())
	alone, err := lc.ListenPacket(context.Background(), "udp"+family, b.addr.String())
	if err != nil {
		b.close()
		return nil, listenError("udp", b.addr, err)
	}
	_ = alone.Close() // it only proved that nobody else has the port
	for range readers {
		p, err := openPackets(b.addr)
		if err != nil {
			b.close()
			return nil, listenError("udp", b.addr, err)
		}
		b.udp = append(b.udp, p)
		if !manyReaders {
			break
		}
	}
	return b, nil
}

// listenError says in one line what could not be had and why.
func listenError(network string, a netip.AddrPort, err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	if errors.Is(err, syscall.EAFNOSUPPORT) {
		return fmt.Errorf("listen %s %s: %w", network, a, errNoFamily)
	}
	return fmt.Errorf("listen %s %s: %w", network, a, err)
}
