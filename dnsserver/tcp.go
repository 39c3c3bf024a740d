package dnsserver

import (
	"encoding/binary"
	"time"
)

const (
	maxTCP          = 1024
	maxTCPPerPrefix = 128

	// maxTCPQuery is far above any query; a longer one closes the connection.
	maxTCPQuery = 8192
	// acceptPause is how long accepting waits after an error such as "too many open files".
	acceptPause = 50 * time.Millisecond
	// keepaliveUnit is what edns-tcp-keepalive counts in (RFC 7828 3.1).
	keepaliveUnit = 100 * time.Millisecond
	// prefixSize is the length of a message's length (RFC 1035 4.2.2).
	prefixSize = 2
)

// tcpTimes bound how long a connection may take.
type tcpTimes struct {
	// idle is how long it may wait between messages; pressed, once half of all
	// connections are taken (RFC 7766 6.2.3).
	idle, pressed time.Duration
	// message bounds receiving one message and sending what answers it: a client that
	// sends an octet at a time, or never reads, is closed.
	message time.Duration
}

var tcpDefaults = tcpTimes{idle: 10 * time.Second, pressed: 2 * time.Second, message: 2 * time.Second}

// tcpIdle is how long connections may be idle now.
func (s *Server) tcpIdle() time.Duration {
	if s.conns.pressed() {
		return s.times.pressed
	}
	return s.times.idle
}

// messageLength returns the length that a message's first two octets promise, and
// whether a query can have it.
func messageLength(b []byte) (n int, possible bool) {
	n = int(binary.BigEndian.Uint16(b))
	return n, n >= headerSize && n <= maxTCPQuery
}

// appendMessage appends a message with its length before it. Nil is none.
func appendMessage(to, message []byte) []byte {
	if message == nil {
		return to
	}
	to = binary.BigEndian.AppendUint16(to, uint16(len(message)))
	return append(to, message...)
}
