package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/miekg/dns"
)

// readPause keeps a socket that fails at once, again and again, from taking a core.
const readPause = 10 * time.Millisecond

// serveUDP answers the packets of one socket until it is stopped, one batch at a time:
// what arrives meanwhile waits in the kernel's bounded queue or is dropped there.
func (s *Server) serveUDP(ctx context.Context, sock packets) {
	runtime.LockOSThread() // its cache and the socket's stay with it
	defer runtime.UnlockOSThread()
	w := s.newWorker(s.metrics.counters.shard(), UDP)
	for {
		batch, err := sock.read()
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
		s.answerBatch(w, batch)
		if unsent := sock.write(batch); unsent > 0 {
			s.metrics.unsent.Add(float64(unsent))
		}
	}
}

// answerBatch answers packets that came together: from one table, at one time.
func (s *Server) answerBatch(w *worker, batch []packet) {
	w.begin(s.current(), s.cfg.Age())
	w.sampled, w.weight = w.due(len(batch))
	for at := 0; at < len(batch); {
		at = s.answerFrom(w, batch, at)
	}
	w.end()
}

// answerFrom answers the packets from number at on, and returns where to go on. A
// packet whose answering panics gets SERVFAIL, and holds up no other.
func (s *Server) answerFrom(w *worker, batch []packet, at int) (next int) {
	next = at
	defer func() {
		if r := recover(); r != nil {
			s.panicked(r)
			batch[next].reply = bare(batch[next].buf[:batch[next].n], dns.RcodeServerFailure)
			next++
		}
	}()
	for ; next < len(batch); next++ {
		sample := uint32(0)
		if next == w.sampled {
			sample = w.weight
		}
		s.answerPacket(w, &batch[next], sample)
	}
	return next
}

// answerPacket answers one packet, by the fast path if that can.
func (s *Server) answerPacket(w *worker, pk *packet, sample uint32) {
	var start time.Time
	if sample > 0 {
		start = time.Now()
	}
	client := pk.client.Addr().Unmap()
	size, ok := s.fast(w, pk.buf, pk.n, client, sample)
	switch {
	case !ok:
		req := request{w.from.table, w.query.Stale, netip.AddrPortFrom(client, pk.client.Port()), UDP, w.shard, sample}
		pk.reply = s.respondSafely(req, pk.buf[:pk.n])
		if w.unsigned != nil {
			s.signPrepared(w.from, w.unsigned)
		}
		return
	case size > 0:
		pk.reply = pk.buf[:size]
	}
	if sample > 0 {
		w.timed(sample, UDP, start)
	}
}
