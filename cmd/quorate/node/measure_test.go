package node

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// nameServer answers every question for A with its addresses, and a TTL of a second.
type nameServer struct {
	mu    sync.Mutex
	addrs []netip.Addr // none: SERVFAIL
}

func (s *nameServer) set(addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs = nil
	for _, a := range addrs {
		s.addrs = append(s.addrs, netip.MustParseAddr(a))
	}
}

func (s *nameServer) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = conn.Close()
		wg.Wait()
	})
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.answer(buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func (s *nameServer) answer(query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	s.mu.Lock()
	addrs := slices.Clone(s.addrs)
	s.mu.Unlock()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	if len(addrs) == 0 {
		m.RCode = dnsmessage.RCodeServerFailure
	}
	for _, a := range addrs {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

func TestAHostnameIsResolvedCommittedProbedAndAnswered(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	ns := &nameServer{}
	ns.set("127.0.0.1")
	n := onLoopback(t, fmt.Sprintf(`
version: 1
defaults: { quorum: { min_votes: 1 }, check: { interval: 500ms, timeout: 300ms, rise: 1, fall: 1 } }
zones: { gslb.example.com: {} }
clusters: { dr: { region: eu-west, hostname: lb.dr.example.net. } }
services: { web: { policy: { type: weighted }, check: { tcp: { port: %d } } } }
`, srv.Listener.Addr().(*net.TCPAddr).Port), func(cfg *config.Node) { cfg.Observer.Resolvers = []netip.AddrPort{ns.serve(t)} })
	committed := func() string { return fmt.Sprint(n.Store().State().Spec.Clusters["dr"].Endpoints()) }
	require.Eventually(t, func() bool { return committed() == "[127.0.0.1]" }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return answerFor(t, n, "198.51.100.0/24") == "127.0.0.1" }, 10*time.Second, 10*time.Millisecond)

	ns.set("127.0.0.1", "127.0.0.9")
	require.Eventually(t, func() bool { return committed() == "[127.0.0.1 127.0.0.9]" }, 10*time.Second, 10*time.Millisecond)

	ns.set() // the resolver fails: the last good set stays
	index := n.Store().State().TableIndex
	require.Never(t, func() bool { return committed() != "[127.0.0.1 127.0.0.9]" }, 3*time.Second, 100*time.Millisecond)
	require.GreaterOrEqual(t, n.Store().State().TableIndex, index)
}

func TestACapacityIsReadFromTheClusterAndCommitted(t *testing.T) {
	var mu sync.Mutex
	left := 40
	set := func(v int) {
		mu.Lock()
		defer mu.Unlock()
		left = v
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "kube_deployment_status_replicas_available{deployment=\"web\"} %d\nkube_deployment_spec_replicas{deployment=\"web\"} 100\n", left)
			return
		}
		fmt.Fprintf(w, `{"available": %d}`, left)
	}))
	defer srv.Close()
	port := srv.Listener.Addr().(*net.TCPAddr).Port
	n := onLoopback(t, fmt.Sprintf(`
version: 1
defaults: { quorum: { min_votes: 1 } }
zones: { gslb.example.com: {} }
clusters:
  eu: { region: eu-west, ipv4: [127.0.0.1], capacity: 100, capacity_from: { http: { path: /capacity, port: %[1]d, json: "$.available", max_age: 3s, change: 10 } } }
  us:
    region: us-east
    ipv4: [127.0.0.2]
    capacity: 50
    capacity_from:
      prometheus: { url: "http://127.0.0.1:%[1]d/metrics", metric: kube_deployment_status_replicas_available, of: kube_deployment_spec_replicas, labels: { deployment: web }, max_age: 3s }
services: { web: { policy: { type: weighted }, check: { tcp: { port: %[1]d } } } }
`, port))
	reported := func(cluster string) int {
		if r := n.Store().State().Clusters[cluster].Reported; r != nil {
			return r.Capacity
		}
		return -1
	}
	both := func(eu, us int) func() bool {
		return func() bool { return reported("eu") == eu && reported("us") == us }
	}
	require.Eventually(t, both(40, 20), 15*time.Second, 10*time.Millisecond)
	set(5)
	require.Eventually(t, both(5, 3), 15*time.Second, 10*time.Millisecond)
	srv.Close()
	require.Eventually(t, both(-1, -1), 30*time.Second, 10*time.Millisecond, "the declared capacity counts again")
}

func TestNothingIsMeasuredWhereNothingIsAskedFor(t *testing.T) {
	spec := planSpec()
	require.Nil(t, measuredUnder(spec))

	spec.Services["web"].Policy.Type = statestore.Latency
	spec.Services["web"].Clusters.Only = []string{"eu"}
	eu, us := spec.Clusters["eu"].IPv4[0], spec.Clusters["us"].IPv4[0]
	got := measuredUnder(spec).of(probe.Measurements{
		RTT:      map[netip.Addr]time.Duration{eu: time.Millisecond, us: time.Millisecond},
		Resolved: map[string]probe.Resolved{"dr": {Hostname: "lb.", Addrs: []netip.Addr{us}}},
		Capacity: map[string]float64{"us": 7},
	})
	require.Equal(t, controller.Measurement{
		RTT:      map[netip.Addr]statestore.Duration{eu: statestore.Duration(time.Millisecond)},
		Resolved: map[string]controller.Resolved{"dr": {Hostname: "lb.", Addrs: []netip.Addr{us}}},
		Capacity: map[string]float64{"us": 7},
	}, got, "round trips only to what they rank")

	for _, ask := range []func(*statestore.Cluster){
		func(c *statestore.Cluster) { c.Hostname = "lb.example.net." },
		func(c *statestore.Cluster) { c.CapacityFrom = &statestore.CapacityFrom{} },
	} {
		spec := planSpec()
		ask(spec.Clusters["eu"])
		require.NotNil(t, measuredUnder(spec))
	}
}

func TestWhatIsAskedForBesideTheProbesIsInThePlan(t *testing.T) {
	spec := planSpec()
	spec.Clusters["dr"] = &statestore.Cluster{
		Hostname: "lb.dr.example.net.", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.30")}, Capacity: 20,
		CapacityFrom: &statestore.CapacityFrom{
			HTTP:   &statestore.CapacityHTTP{Port: 443, Path: "/capacity", JSON: "$.available"},
			MaxAge: statestore.Duration(30 * time.Second),
		},
	}
	spec.Clusters["us"].CapacityFrom = &statestore.CapacityFrom{
		Prometheus: &statestore.CapacityPrometheus{URL: "http://m/", Metric: "a", Of: "b", Labels: map[string]string{"c": "d"}},
		MaxAge:     statestore.Duration(time.Hour),
	}
	plan := probePlan(spec)
	require.Equal(t, []probe.HostnamePlan{{Cluster: "dr", Hostname: "lb.dr.example.net."}}, plan.Names)
	require.Equal(t, []probe.CapacityPlan{
		{
			Cluster: "dr", MaxAge: 30 * time.Second, Hostname: "lb.dr.example.net.",
			Endpoints: spec.Clusters["dr"].IPv4, Declared: 20, HTTP: &probe.CapacityHTTP{Port: 443, Path: "/capacity", JSON: "$.available"},
		},
		{
			Cluster: "us", MaxAge: time.Hour, Endpoints: spec.Clusters["us"].IPv4,
			Prometheus: &probe.CapacityPrometheus{URL: "http://m/", Metric: "a", Of: "b", Labels: map[string]string{"c": "d"}},
		},
	}, plan.Capacities)
}
