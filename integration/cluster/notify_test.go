//go:build integration

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/client"
)

const receiverPort = 9000

// receiver takes webhooks on a host of its own, or does what receivers do instead.
type receiver struct {
	t    *testing.T
	host *host

	server *http.Server
	done   chan struct{}

	mu    sync.Mutex
	sick  string   // "": it is well; "hangs", "fails"
	heard []uint64 // ids of events it took, in order
	times int      // requests it took, repeated ones too
}

func (r *receiver) up() {
	var ln net.Listener
	require.NoError(r.t, r.host.inside(func() (err error) {
		ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", netip.AddrPortFrom(r.host.addr, receiverPort).String())
		return err
	}))
	r.server, r.done = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}, make(chan struct{})
	go func(server *http.Server, done chan struct{}) {
		defer close(done)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			r.t.Errorf("receiver: %v", err)
		}
	}(r.server, r.done)
}

func (r *receiver) down() {
	_ = r.server.Close() // breaking connections is the point
	<-r.done
}

func (r *receiver) be(sick string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sick = sick
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body) // its headers say what matters here
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.sick {
	case "hangs":
		r.mu.Unlock()
		<-req.Context().Done()
		r.mu.Lock()
		return
	case "fails":
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	id, err := strconv.ParseUint(req.Header.Get("Quorate-Event-Id"), 10, 64)
	if err != nil {
		r.t.Errorf("an event without an id: %v", err)
	}
	r.times++
	if !slices.Contains(r.heard, id) {
		r.heard = append(r.heard, id)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) took() ([]uint64, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard), r.times
}

// A receiver hangs, fails and dies, and leaders are killed meanwhile. It is told of
// every step of every move, in order, and no approval waits for it.
func TestReceiverIsToldEverythingAndHoldsUpNobody(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s")+fmt.Sprintf(`notify:
  receivers: { bus: { webhook: { url: "http://10.77.0.100:%d/in" } } }
  routes: [ { match: { type: ["cutover.*"], service: [orders] }, to: [bus] } ]
`, receiverPort))
	bus := &receiver{t: t, host: in.client}
	bus.up()
	t.Cleanup(func() { bus.down() })
	side, epoch := "eu", uint64(1)
	move := func() time.Duration {
		t.Helper()
		eventually(t, settle, "all is well", in.allWell)
		co := in.propose(in.leader(), other(side), "planned")
		begun := time.Now()
		require.NoError(t, in.approve(in.leader(), co.ID))
		in.ended(in.others(), co.ID, "done")
		took := time.Since(begun)
		side, epoch = other(side), epoch+1
		in.ordersMoved(in.others(), side, epoch)
		return took
	}
	var well, sick durations
	for range 3 {
		well = append(well, move())
	}
	for _, how := range []string{"hangs", "fails", "is gone"} {
		if how == "is gone" {
			bus.down()
		}
		bus.be(how)
		for range 2 {
			sick = append(sick, move())
		}
		leader := in.leader()
		in.kill(leader)
		pause(t, time.Second) // another leads, and tries in its turn
		if how == "is gone" {
			bus.up()
		}
		bus.be("")
		in.restart(leader)
		in.caughtUp(leader)
	}
	fmt.Printf("MEASURED %-38s approval to done, receiver well: %s; sick: %s\n", t.Name(), well, sick)

	var want []uint64
	res, err := in.leader().api.Events(t.Context(), client.EventQuery{Types: "cutover.*", Service: "orders", Limit: 1000})
	require.NoError(t, err)
	for _, e := range res.Items {
		want = append(want, e.Index)
	}
	slices.SortFunc(want, cmp.Compare[uint64])
	begun := time.Now()
	eventually(t, 45*time.Second, "everything was told", func(context.Context) error {
		if got, _ := bus.took(); len(got) < len(want) {
			return fmt.Errorf("%d of %d events", len(got), len(want))
		}
		return nil
	})
	got, times := bus.took()
	fmt.Printf("MEASURED %-38s %d events told in %d requests over three dead leaders, the last %s after the receiver was well\n",
		t.Name(), len(got), times, time.Since(begun).Round(100*time.Millisecond))
	require.Equal(t, want, got, "in order")
}
