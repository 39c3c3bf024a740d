package dnsserver

import "net/netip"

const (
	// maxQuery is the longest query taken over UDP: far above any real one, and
	// what EDNS clients may be told to send at most.
	maxQuery = 4096
	// receiveBuffer is the kernel's queue a socket. When it is full, packets are
	// dropped there: work stays bounded without a queue of ours.
	receiveBuffer = 1 << 20
)

// packet is one datagram and what is needed to answer from the address it asked.
type packet struct {
	buf    [maxQuery]byte
	n      int
	client netip.AddrPort

	control [64]byte // ancillary data of the query, turned into the reply's
	nc      int

	reply []byte // nil: none; kept for its capacity
}

// packets moves datagrams between a socket and a worker. A read fills at least
// one and at most len(batch); a batched variant may fill more.
type packets interface {
	read(batch []packet) (int, error)
	write(batch []packet) error // sends those with a reply
	close() error
}
