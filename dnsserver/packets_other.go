//go:build !linux

package dnsserver

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// manyReaders says that one socket serves an address here.
const manyReaders = false

// udpSocket is an address's socket where SO_REUSEPORT does not spread packets, and one
// call moves one packet.
type udpSocket struct {
	conn   *net.UDPConn
	v4     *ipv4.PacketConn
	v6     *ipv6.PacketConn
	dst    net.IP // the address asked; nil: as the kernel chooses
	packet []packet
}

func openPackets(addr netip.AddrPort) (packets, error) {
	network := "udp4"
	if addr.Addr().Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadBuffer(socketBuffer) // the kernel may give less
	u := &udpSocket{conn: conn, packet: []packet{{buf: make([]byte, maxQuery)}}}
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

func (u *udpSocket) read() ([]packet, error) {
	p := &u.packet[0]
	p.reply, u.dst = nil, nil
	var from net.Addr
	var err error
	switch {
	case u.v4 != nil:
		var cm *ipv4.ControlMessage
		if p.n, cm, from, err = u.v4.ReadFrom(p.buf); cm != nil {
			u.dst = cm.Dst
		}
	case u.v6 != nil:
		var cm *ipv6.ControlMessage
		if p.n, cm, from, err = u.v6.ReadFrom(p.buf); cm != nil {
			u.dst = cm.Dst
		}
	default:
		p.n, p.client, err = u.conn.ReadFromUDPAddrPort(p.buf)
		return u.packet, err
	}
	if a, ok := from.(*net.UDPAddr); ok {
		p.client = a.AddrPort()
	}
	return u.packet, err
}

func (u *udpSocket) write(batch []packet) (unsent int) {
	for i := range batch {
		p := &batch[i]
		if p.reply == nil {
			continue
		}
		var err error
		switch to := net.UDPAddrFromAddrPort(p.client); {
		case u.v4 != nil && u.dst != nil:
			_, err = u.v4.WriteTo(p.reply, &ipv4.ControlMessage{Src: u.dst}, to)
		case u.v6 != nil && u.dst != nil:
			_, err = u.v6.WriteTo(p.reply, &ipv6.ControlMessage{Src: u.dst}, to)
		default:
			_, err = u.conn.WriteToUDPAddrPort(p.reply, p.client)
		}
		if err != nil {
			unsent++ // the client asks again; waiting for it would hold up the others
		}
	}
	return unsent
}

func (u *udpSocket) stop() { u.close() }

func (u *udpSocket) close() { _ = u.conn.Close() } // a second time does nothing
