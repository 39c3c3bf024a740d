package dnsserver

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// TestG2NoAnswerIsOlderThanTheTableThatIsIn: while owners change, are withheld and names
// come anew, with scrapes and reloads beside, everybody who asks gets what was published
// when the query left or later; nobody an epoch that was over by then.
func TestG2NoAnswerIsOlderThanTheTableThatIsIn(t *testing.T) {
	st, places := richState(), richPlaces(t)
	table, err := routing.Update(nil, st, routing.Local{Geo: places})
	require.NoError(t, err)
	var now atomic.Pointer[routing.Table]
	now.Store(table)
	registry := prometheus.NewRegistry()
	s := start(t, Config{Table: now.Load, Readers: 2, Registerer: registry}, "127.0.0.1:0")
	s.Publish(table)

	var published, asked atomic.Int64 // epochs; answers
	answer := func(epoch int64) string {
		switch {
		case epoch%5 == 0 && epoch > 0:
			return "SERVFAIL"
		case epoch%2 == 0:
			return "192.0.2.2"
		}
		return "192.0.2.1"
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, network := range []string{"udp", "tcp", "udp", "tcp"} {
		c, err := net.Dial(network, s.Addrs()[0].String())
		require.NoError(t, err)
		defer c.Close() //nolint:errcheck // a test's
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				first := published.Load()
				got, err := owner(c)
				if err != nil {
					t.Error(err)
					return
				}
				last := published.Load() + 1 // swapped in, and not counted yet
				found := false
				for epoch := first; epoch <= last && !found; epoch++ {
					found = got == answer(epoch)
				}
				if !found {
					t.Errorf("%s: %s between the epochs %d and %d", network, got, first, last)
				}
				asked.Add(1)
			}
		})
	}
	for epoch := int64(1); epoch <= 200; epoch++ {
		next := *st
		next.TableIndex++
		next.Services = map[string]*statestore.ServiceState{}
		for name, run := range st.Services {
			next.Services[name] = run
		}
		run := *st.Services["owned"]
		run.Ownership = &statestore.Ownership{Active: map[int64]string{0: "us", 1: "eu"}[epoch%2], Epoch: uint64(12 + epoch)}
		next.Services["owned"] = &run
		local := routing.Local{Geo: places}
		if epoch%5 == 0 {
			local.Withheld = map[string]string{"owned": "it cannot be kept"}
		}
		if epoch%7 == 0 {
			spec := *st.Spec
			next.Spec = &spec // all names are prepared anew
		}
		table, err := routing.Update(now.Load(), &next, local)
		require.NoError(t, err)
		s.Publish(table)
		now.Store(table)
		published.Store(epoch)
		s.Limit(RateLimit{PerSecond: 1 << 20, LogOnly: epoch%2 == 0})
		_, err = registry.Gather()
		require.NoError(t, err)
		s.Traffic(10)
		st = &next
		for came := asked.Load(); asked.Load() < came+2 && !t.Failed(); {
			got, err := net.Dial("udp", s.Addrs()[0].String())
			require.NoError(t, err)
			require.NoError(t, got.SetDeadline(time.Now().Add(10*time.Second)))
			has, err := owner(got)
			require.NoError(t, err)
			require.NoError(t, got.Close())
			require.Equal(t, answer(epoch), has, "epoch %d is in", epoch)
		}
	}
	close(stop)
	wg.Wait()
	require.Zero(t, counted(t, s.metrics.panics))
}

// owner asks for the service owned: an address or a response code.
func owner(c net.Conn) (string, error) {
	dc := &dns.Conn{Conn: c}
	if err := dc.WriteMsg(newQuery("owned."+zone, dns.TypeA)); err != nil {
		return "", err
	}
	r, err := dc.ReadMsg()
	if err != nil {
		return "", err
	}
	if len(r.Answer) == 1 {
		return r.Answer[0].(*dns.A).A.String(), nil
	}
	return dns.RcodeToString[r.Rcode], nil
}
