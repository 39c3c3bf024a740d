package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// manyReaders says that several sockets may share a port (SO_REUSEPORT).
const manyReaders = true

// udpSocket is one of an address's sockets. On a wildcard address it asks for the
// destination of every packet, so that the reply leaves from there.
type udpSocket struct {
	conn     *net.UDPConn
	wildcard bool
}

func openPackets(network string, addr netip.AddrPort) (packets, error) {
	u := &udpSocket{wildcard: addr.Addr().IsUnspecified()}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = u.options(int(fd), addr.Addr().Is6()) }); cerr != nil {
			return cerr
		}
		return err
	}}
	conn, err := lc.ListenPacket(context.Background(), network, addr.String())
	if err != nil {
		return nil, err
	}
	u.conn = conn.(*net.UDPConn)
	_ = u.conn.SetReadBuffer(receiveBuffer) // the kernel may give less
	return u, nil
}

func (u *udpSocket) options(fd int, v6 bool) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	// Replies must not be fragmented by a forged path MTU (RFC 9715).
	if v6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	}
	switch {
	case !u.wildcard:
		return nil
	case v6:
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
}

func (u *udpSocket) read(batch []packet) (int, error) {
	p := &batch[0]
	var err error
	if !u.wildcard {
		p.nc = 0
		p.n, p.client, err = u.conn.ReadFromUDPAddrPort(p.buf[:])
		return 1, err
	}
	var flags int
	p.n, p.nc, flags, p.client, err = u.conn.ReadMsgUDPAddrPort(p.buf[:], p.control[:])
	if err == nil && (flags&unix.MSG_CTRUNC != 0 || !sourceFromDestination(p.control[:p.nc])) {
		p.nc = 0
	}
	return 1, err
}

func (u *udpSocket) write(batch []packet) error {
	var errs error
	for i := range batch {
		p := &batch[i]
		if p.reply == nil {
			continue
		}
		if _, _, err := u.conn.WriteMsgUDPAddrPort(p.reply, p.control[:p.nc], p.client); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

func (u *udpSocket) close() error { return u.conn.Close() }

// sourceFromDestination turns a received IP_PKTINFO or IPV6_PKTINFO message into
// the one that makes a reply leave from the address asked. The two have the same
// form; only the interface is cleared, so that the reply takes the route back,
// except to link-local addresses, which mean nothing without it. It reports
// whether b is exactly such a message.
func sourceFromDestination(b []byte) bool {
	if len(b) < unix.SizeofCmsghdr {
		return false
	}
	// struct cmsghdr: length (a word), level, type; then the data, aligned to a word.
	word := unix.SizeofCmsghdr - 8
	level := int32(binary.NativeEndian.Uint32(b[word:]))
	kind := int32(binary.NativeEndian.Uint32(b[word+4:]))
	info := b[unix.SizeofCmsghdr:]
	switch {
	case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(info) >= unix.SizeofInet4Pktinfo:
		clear(info[:4]) // ipi_ifindex; ipi_spec_dst is the source of what is sent
		return true
	case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(info) >= unix.SizeofInet6Pktinfo:
		if dst := netip.AddrFrom16([16]byte(info[:16])); !dst.IsLinkLocalUnicast() {
			clear(info[16:20])
		}
		return true
	}
	return false
}
