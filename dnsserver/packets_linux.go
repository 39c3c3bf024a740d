package dnsserver

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// manyReaders says that several sockets may share a port (SO_REUSEPORT).
const manyReaders = true

const (
	// controlSize is room for one IP_PKTINFO or IPV6_PKTINFO message with its header: 28
	// and 36 octets, and what aligns them.
	controlSize = 64
	// packetRoom is what lies between the starts of two packets. Were it a power of two,
	// the starts of all would share few cache lines.
	packetRoom = maxQuery + 192
)

// mmsghdr is struct mmsghdr of recvmmsg(2): Go lays it out, padding included, as C does.
type mmsghdr struct {
	unix.Msghdr
	length uint32
}

// udpSocket is one of an address's sockets, read and written many packets a call.
//
// Raw calls never block: the scheduler does not know of them, and the collector would
// wait. The one call that may block is told to it.
//
// The kernel follows the pointers in the headers while a call lasts. What they point to
// is allocated once, reached from here, and as old as the socket (replies: as the
// batch), so that it is there; and Go moves nothing that is on the heap.
type udpSocket struct {
	fd       int
	wildcard bool // every packet brings its destination, and the reply leaves from there
	stopped  atomic.Bool

	packets []packet
	in, out []mmsghdr
	reads   []unix.Iovec // of in
	writes  []unix.Iovec // of out
	names   []unix.RawSockaddrInet6
	control [][controlSize]byte
	got     int // packets of the last read: the kernel has written to their headers
}

func openPackets(addr netip.AddrPort) (packets, error) {
	fd, err := openSocket(addr)
	if err != nil {
		return nil, err
	}
	u := &udpSocket{
		fd: fd, wildcard: addr.Addr().IsUnspecified(),
		packets: make([]packet, udpBatch),
		in:      make([]mmsghdr, udpBatch), out: make([]mmsghdr, udpBatch),
		reads: make([]unix.Iovec, udpBatch), writes: make([]unix.Iovec, udpBatch),
		names: make([]unix.RawSockaddrInet6, udpBatch), control: make([][controlSize]byte, udpBatch),
	}
	memory := make([]byte, udpBatch*packetRoom)
	for i := range udpBatch {
		u.packets[i].buf = memory[i*packetRoom:][:maxQuery:maxQuery]
		u.reads[i].Base = &u.packets[i].buf[0]
		u.reads[i].SetLen(maxQuery)
		for _, h := range []*mmsghdr{&u.in[i], &u.out[i]} {
			h.Iov = &u.reads[i]
			h.SetIovlen(1)
		}
		u.in[i].Name, u.out[i].Iov = nameOf(&u.names[i]), &u.writes[i]
	}
	u.got = udpBatch
	return u, nil
}

func nameOf(a *unix.RawSockaddrInet6) *byte { return (*byte)(unsafe.Pointer(a)) }

// openSocket opens a socket that blocks: its worker has a thread of its own.
func openSocket(addr netip.AddrPort) (int, error) {
	family, to := unix.AF_INET, unix.Sockaddr(nil)
	if a := addr.Addr().Unmap(); a.Is4() {
		to = &unix.SockaddrInet4{Port: int(addr.Port()), Addr: a.As4()}
	} else {
		family = unix.AF_INET6
		to6 := &unix.SockaddrInet6{Port: int(addr.Port()), Addr: a.As16()}
		if a.Zone() != "" {
			ifi, err := net.InterfaceByName(a.Zone())
			if err != nil {
				return 0, err
			}
			to6.ZoneId = uint32(ifi.Index)
		}
		to = to6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err = socketOptions(fd, family == unix.AF_INET6, addr.Addr().IsUnspecified()); err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, to))
	}
	if err != nil {
		_ = unix.Close(fd) // nothing was received
		return 0, err
	}
	return fd, nil
}

func socketOptions(fd int, v6, wildcard bool) error {
	set := func(level, option, value int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, level, option, value))
	}
	_ = set(unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer) // the kernel may give less
	_ = set(unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
	if err := set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	// Replies must not be fragmented by a forged path MTU (RFC 9715).
	if !v6 {
		_ = set(unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
		if wildcard {
			return set(unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		}
		return nil
	}
	_ = set(unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	if err := set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil || !wildcard {
		return err
	}
	return set(unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

// read takes what has come, and only if that is nothing waits.
func (u *udpSocket) read() ([]packet, error) {
	u.renew()
	for {
		n, errno := u.receive()
		switch {
		case u.stopped.Load():
			return nil, net.ErrClosed
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return nil, os.NewSyscallError("recvmmsg", errno)
		}
		u.got = n
		for i := range n {
			u.take(i)
		}
		return u.packets[:n], nil
	}
}

func (u *udpSocket) receive() (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(u.fd), uintptr(unsafe.Pointer(&u.in[0])), udpBatch, unix.MSG_DONTWAIT, 0, 0)
	if errno == unix.EAGAIN {
		n, _, errno = unix.Syscall6(unix.SYS_RECVMMSG, uintptr(u.fd), uintptr(unsafe.Pointer(&u.in[0])), udpBatch, unix.MSG_WAITFORONE, 0, 0)
	}
	return int(n), errno
}

// renew sets the headers of the last read to what they were before it.
func (u *udpSocket) renew() {
	for i := range u.got {
		h := &u.in[i]
		h.Namelen = unix.SizeofSockaddrInet6
		if u.wildcard {
			h.Control = &u.control[i][0]
			h.SetControllen(controlSize)
		}
	}
	u.got = 0
}

// take reads the header of a packet that has come.
func (u *udpSocket) take(i int) {
	p, h := &u.packets[i], &u.in[i]
	p.n, p.reply = int(h.length), nil
	name := &u.names[i]
	port := (*[2]byte)(unsafe.Pointer(&name.Port)) // in network order
	var addr netip.Addr
	if name.Family == unix.AF_INET {
		addr = netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr)
	} else {
		addr = netip.AddrFrom16(name.Addr)
	}
	p.client = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(port[:]))
	if u.wildcard && (h.Flags&unix.MSG_CTRUNC != 0 || !sourceFromDestination(u.control[i][:h.Controllen])) {
		h.Control = nil
		h.SetControllen(0)
	}
}

// write sends the replies to packets of the last read. What the kernel has no room for
// is dropped: those clients ask again, and waiting would hold up the others.
func (u *udpSocket) write(batch []packet) (unsent int) {
	n := 0
	for i := range batch {
		reply := batch[i].reply
		if len(reply) == 0 {
			continue
		}
		h, from := &u.out[n], &u.in[i]
		u.writes[n].Base = &reply[0]
		u.writes[n].SetLen(len(reply))
		h.Name, h.Namelen = from.Name, from.Namelen
		if u.wildcard {
			h.Control, h.Controllen = from.Control, from.Controllen
		}
		n++
	}
	for at := 0; at < n; {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(u.fd), uintptr(unsafe.Pointer(&u.out[at])), uintptr(n-at), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			at += int(sent)
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			return unsent + n - at
		default: // this one has no way back; the others may
			unsent++
			at++
		}
	}
	return unsent
}

// stop wakes the reader: a socket that is shut down does not block. That an unconnected
// one cannot be is what the kernel says after it has done so.
func (u *udpSocket) stop() {
	u.stopped.Store(true)
	_ = unix.Shutdown(u.fd, unix.SHUT_RD)
}

func (u *udpSocket) close() { _ = unix.Close(u.fd) }

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
