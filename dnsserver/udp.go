package dnsserver

import (
	"context"
	"errors"
	"net"
	"time"
)

const (
	// udpBatch is how many packets a worker takes at once. One, until the sockets
	// can fill more with one call.
	udpBatch = 1
	// readPause keeps a socket that fails at once, again and again, from taking a core.
	readPause = 10 * time.Millisecond
)

// serveUDP answers the packets of one socket until ctx is done, one batch at a
// time: what arrives meanwhile waits in the kernel's bounded queue or is dropped
// there.
func (s *Server) serveUDP(ctx context.Context, sock packets) {
	batch := make([]packet, udpBatch)
	shard := s.metrics.counters.shard()
	for {
		n, err := sock.read(batch)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(readPause):
			}
			continue
		}
		table := s.cfg.Table() // once a batch: its answers are of one table
		age := s.cfg.Age()
		sampled, weight := shard.due(n)
		for i := range n {
			p := &batch[i]
			req := request{table, age, p.client, UDP, shard, 0}
			if i == sampled {
				req.sample = weight
			}
			p.reply = s.respondSafely(req, p.buf[:p.n])
		}
		if err := sock.write(batch[:n]); err != nil {
			s.metrics.unsent.Inc() // the client asks again; waiting for it would hold up the others
		}
	}
}
