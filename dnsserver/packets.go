package dnsserver

import "net/netip"

const (
	// maxQuery is the longest query taken over UDP: far above any real one, and
	// what EDNS clients may be told to send at most.
	maxQuery = 4096
	// socketBuffer is the kernel's queues a socket. When one is full, packets are
	// dropped there: work stays bounded without a queue of ours.
	socketBuffer = 1 << 20
	// udpBatch is how many packets a worker takes at once, and so how many wait for
	// the first one's answer at most.
	udpBatch = 32
)

// packet is one datagram, and what is to be sent to where it came from.
type packet struct {
	buf    []byte // its memory, with room for an answer in its place
	n      int
	client netip.AddrPort
	reply  []byte // nil: none
}

// packets moves datagrams in and out for one worker. A socket is one; what knows no
// sockets could be another. The packets of read are the transport's memory, valid until
// the next read.
type packets interface {
	read() ([]packet, error)     // waits for at least one
	write([]packet) (unsent int) // sends those of the last read with a reply
	stop()                       // ends read, with net.ErrClosed
	close()                      // once nobody reads any more
}
