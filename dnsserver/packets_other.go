//go:build !linux

package dnsserver

import (
	"errors"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// manyReaders says that one socket serves an address here.
const manyReaders = false

// udpSocket is an address's socket where SO_REUSEPORT does not spread packets.
type udpSocket struct {
	conn *net.UDPConn
	v4   *ipv4.PacketConn
	v6   *ipv6.PacketConn
	dst  []net.IP // by batch position: the address asked; nil: as the kernel chooses
}

func openPackets(network string, addr netip.AddrPort) (packets, error) {
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadBuffer(receiveBuffer) // the kernel may give less
	u := &udpSocket{conn: conn, dst: make([]net.IP, 1)}
	if !addr.Addr().IsUnspecified() {
		return u, nil
	}
	if addr.Addr().Is4() {
		u.v4 = ipv4.NewPacketConn(conn)
		return u, u.v4.SetControlMessage(ipv4.FlagDst, true)
	}
	u.v6 = ipv6.NewPacketConn(conn)
	return u, u.v6.SetControlMessage(ipv6.FlagDst, true)
}

func (u *udpSocket) read(batch []packet) (int, error) {
	p := &batch[0]
	u.dst[0] = nil
	var from net.Addr
	var err error
	switch {
	case u.v4 != nil:
		var cm *ipv4.ControlMessage
		if p.n, cm, from, err = u.v4.ReadFrom(p.buf[:]); cm != nil {
			u.dst[0] = cm.Dst
		}
	case u.v6 != nil:
		var cm *ipv6.ControlMessage
		if p.n, cm, from, err = u.v6.ReadFrom(p.buf[:]); cm != nil {
			u.dst[0] = cm.Dst
		}
	default:
		p.n, p.client, err = u.conn.ReadFromUDPAddrPort(p.buf[:])
		return 1, err
	}
	if a, ok := from.(*net.UDPAddr); ok {
		p.client = a.AddrPort()
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
		var err error
		switch to := net.UDPAddrFromAddrPort(p.client); {
		case u.v4 != nil && u.dst[i] != nil:
			_, err = u.v4.WriteTo(p.reply, &ipv4.ControlMessage{Src: u.dst[i]}, to)
		case u.v6 != nil && u.dst[i] != nil:
			_, err = u.v6.WriteTo(p.reply, &ipv6.ControlMessage{Src: u.dst[i]}, to)
		default:
			_, err = u.conn.WriteToUDPAddrPort(p.reply, p.client)
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

func (u *udpSocket) close() error { return u.conn.Close() }
