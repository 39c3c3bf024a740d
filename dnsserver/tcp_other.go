//go:build !linux

package dnsserver

import (
	"context"
	"net"
)

// serveTCP answers the connections of all listeners until ctx is done, and returns
// once all have ended.
func (s *Server) serveTCP(ctx context.Context, listeners []*net.TCPListener) {
	t := &netTCP{s: s, open: map[net.Conn]struct{}{}}
	t.serve(ctx, listeners)
}
