package probe

import (
	"context"
	"crypto/rand"
	"net/netip"
	"sync"
	"time"
)

const (
	// canaryEvery is how often the canaries are asked while nothing fails. A run of
	// bad results asks at once, so it only bounds how late a node learns that it is
	// blind while all its probes are good.
	canaryEvery = 5 * time.Second
	// canaryTimeout is for one round: a canary that needs longer is no use.
	canaryTimeout = time.Second
	// canaryRetry is the pause after a round that nothing answered.
	canaryRetry = 500 * time.Millisecond
	// canaryGap bounds the rounds that failing probes can ask for.
	canaryGap = 100 * time.Millisecond
	// canaryFails is how many rounds in a row make a node blind: one lost packet
	// does not, and no probe turns down in between.
	canaryFails = 2
)

// canaryWatch decides from rounds whether this node can see at all.
type canaryWatch struct {
	running bool
	started time.Time // of the last round, running or not
	due     time.Time
	proven  time.Time // when the last round that was answered had started
	failed  int
}

// blind reports whether too many rounds in a row went unanswered.
func (w *canaryWatch) blind() bool { return w.failed >= canaryFails }

// ask makes a round due that starts from now on.
func (w *canaryWatch) ask(now time.Time) {
	at := now
	if earliest := w.started.Add(canaryGap); earliest.After(at) {
		at = earliest
	}
	if at.Before(w.due) {
		w.due = at
	}
}

// begin notes that a round starts.
func (w *canaryWatch) begin(now time.Time) {
	w.running, w.started, w.due = true, now, now.Add(canaryEvery)
}

// end notes how the running round ended.
func (w *canaryWatch) end(answered bool, now time.Time) {
	w.running = false
	if answered {
		w.failed, w.proven = 0, w.started
		return
	}
	w.failed++
	if retry := now.Add(canaryRetry); retry.Before(w.due) {
		w.due = retry
	}
}

// askCanaries reports whether any canary answers a DNS query or accepts a
// connection within canaryTimeout. It returns at the first answer, after every
// goroutine it started has ended.
func askCanaries(ctx context.Context, dial DialFunc, canaries []netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	answered := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for _, c := range canaries {
		for _, ask := range []func(context.Context, DialFunc, string) bool{askDNS, askTCP} {
			wg.Go(func() {
				if ask(ctx, dial, c.String()) {
					select {
					case answered <- struct{}{}:
					default:
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	select {
	case <-answered:
		return true
	default:
		return false
	}
}

// askTCP reports whether addr accepts a connection.
func askTCP(ctx context.Context, dial DialFunc, addr string) bool {
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // the connection was all we wanted
	return true
}

// askDNS reports whether addr gives any response to a query for the root's name
// servers, a refusal included: whoever answers can be reached.
func askDNS(ctx context.Context, dial DialFunc, addr string) bool {
	conn, err := dial(ctx, "udp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends the read
	defer stop()
	// RFC 1035 section 4.1: id, no flags, one question for ". IN NS".
	query := []byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}
	_, _ = rand.Read(query[:2]) // crypto/rand never fails
	if _, err := conn.Write(query); err != nil {
		return false
	}
	reply := make([]byte, 512)
	for {
		n, err := conn.Read(reply)
		if err != nil {
			return false
		}
		const qr = 0x80
		if n >= 12 && reply[0] == query[0] && reply[1] == query[1] && reply[2]&qr != 0 {
			return true
		}
	}
}
