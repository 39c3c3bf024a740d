package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loopbackOpen lets tests reach their own servers.
var loopbackOpen = AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

func reader(policy AddressPolicy) *capacityReader {
	return &capacityReader{dial: NewDialer(&policy, Source{}), resolver: &resolver{policy: policy}, userAgent: "quorate/test"}
}

// listening starts a server of h and returns its port.
func listening(t *testing.T, h http.HandlerFunc) (*httptest.Server, int) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, s.Listener.Addr().(*net.TCPAddr).Port
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func TestReadACapacityOutOfJSON(t *testing.T) {
	tests := []struct {
		name string
		body string
		path string
		want float64
		err  string
	}{
		{"a number", `{"available": 42.5}`, "$.available", 42.5, ""},
		{"nothing left", `{"available": 0}`, "$.available", 0, ""},
		{"one of many", `{"pools": [{"name": "a", "free": 1}, {"name": "web", "free": 7}]}`, `$.pools[?@.name == "web"].free`, 7, ""},
		{"below nothing", `{"available": -1}`, "$.available", 0, "0 or more, is -1"},
		{"no such value", `{"free": 1}`, "$.available", 0, "must find one value, finds 0"},
		{"several values", `[1, 2]`, "$[*]", 0, "must find one value, finds 2"},
		{"a text", `{"available": "42"}`, "$.available", 0, "must find a number, finds string"},
		{"null", `{"available": null}`, "$.available", 0, "must find a number"},
		{"a number that is none", `{"available": 1e999}`, "$.available", 0, "no JSON"},
		{"no JSON", `<html>`, "$.available", 0, "no JSON"},
		{"too long", `{"available": 1, "pad": "` + strings.Repeat("x", maxReport) + `"}`, "$.available", 0, "at most 65536 bytes"},
		{"no JSONPath", `{}`, "available", 0, "json: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, port := listening(t, says(tt.body))
			got, err := reader(loopbackOpen).read(t.Context(), CapacityPlan{
				Endpoints: addrs("127.0.0.1"), HTTP: &CapacityHTTP{Port: port, Path: "/capacity", JSON: tt.path},
			})
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestACapacityIsAskedForAsWritten(t *testing.T) {
	var got string
	_, port := listening(t, func(w http.ResponseWriter, r *http.Request) {
		got = fmt.Sprint(r.Method, " ", r.URL, " ", r.Host, " ", r.UserAgent())
		_, _ = w.Write([]byte(`1`))
	})
	_, err := reader(loopbackOpen).read(t.Context(), CapacityPlan{
		Hostname: "lb.example.net", Endpoints: addrs("127.0.0.1"), HTTP: &CapacityHTTP{Port: port, Path: "/c?of=web", JSON: "$"},
	})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("GET /c?of=web lb.example.net:%d quorate/test", port), got)
}

func TestTheNextEndpointIsAskedWhenOneDoesNotAnswerWell(t *testing.T) {
	serve := func(addr string, h http.Handler) int {
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close() // another one takes its place
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		return l.Addr().(*net.TCPAddr).Port
	}
	port := serve("127.0.0.2:0", http.NotFoundHandler())
	serve(net.JoinHostPort("127.0.0.3", strconv.Itoa(port)), says(`{"available": 7}`))
	plan := CapacityPlan{Endpoints: addrs("127.0.0.1", "127.0.0.2", "127.0.0.3"), HTTP: &CapacityHTTP{Port: port, JSON: "$.available"}}
	got, err := reader(loopbackOpen).read(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, 7.0, got)
	plan.Endpoints = addrs("127.0.0.1", "127.0.0.2")
	_, err = reader(loopbackOpen).read(t.Context(), plan)
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, "status must be 200, is 404")
	plan.Endpoints = nil
	_, err = reader(loopbackOpen).read(t.Context(), plan)
	require.ErrorContains(t, err, "no endpoint")
}

// B11: a cluster cannot send the node that reads its capacity elsewhere.
func TestB11ACapacityIsReadFromWhereItIsAndNowhereElse(t *testing.T) {
	asked := false
	_, secret := listening(t, func(http.ResponseWriter, *http.Request) { asked = true })
	_, port := listening(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("http://127.0.0.1:%d/", secret), http.StatusFound)
	})
	from := CapacityPlan{Endpoints: addrs("127.0.0.1"), HTTP: &CapacityHTTP{Port: port, JSON: "$.available"}}
	_, err := reader(loopbackOpen).read(t.Context(), from)
	require.ErrorContains(t, err, "status must be 200, is 302")
	require.False(t, asked)

	_, err = reader(AddressPolicy{}).read(t.Context(), from)
	var denied *DeniedError
	require.ErrorAs(t, err, &denied)

	metrics := CapacityPlan{Prometheus: &CapacityPrometheus{URL: fmt.Sprintf("http://127.0.0.1:%d/metrics", port), Metric: "m"}}
	_, err = reader(AddressPolicy{}).read(t.Context(), metrics)
	require.ErrorAs(t, err, &denied)
	metrics.Prometheus.URL = fmt.Sprintf("http://metrics.example.net:%d/metrics", port)
	r := reader(loopbackOpen)
	r.resolver = newResolver(&Config{}, nil) // which finds what the policy denies
	r.resolver.system = func(context.Context, string, string) ([]netip.Addr, error) { return addrs("127.0.0.1"), nil }
	_, err = r.read(t.Context(), metrics)
	require.ErrorAs(t, err, &denied)
	require.False(t, asked)
}

const exposition = `# HELP free Room left.
# TYPE free gauge
free{pool="web",zone="a"} 3
free{pool="web",zone="b"} 4
free{pool="batch",zone="a"} 100
# TYPE wanted gauge
wanted{pool="web"} 10
wanted{pool="idle"} 0
# TYPE done_total counter
done_total 12
# TYPE slow histogram
slow_bucket{le="+Inf"} 1
slow_sum 1
slow_count 1
# TYPE odd gauge
odd{pool="nan"} NaN
odd{pool="inf"} +Inf
odd{pool="minus"} -1
bare 5
`

func TestReadACapacityOutOfAnExposition(t *testing.T) {
	label := func(kv ...string) map[string]string { return map[string]string{kv[0]: kv[1]} }
	tests := []struct {
		name   string
		metric CapacityPrometheus
		want   float64
		err    string
	}{
		{"the sum of the series that match", CapacityPrometheus{Metric: "free", Labels: label("pool", "web")}, 7, ""},
		{"every label must", CapacityPrometheus{Metric: "free", Labels: map[string]string{"pool": "web", "zone": "b"}}, 4, ""},
		{"without labels all", CapacityPrometheus{Metric: "free"}, 107, ""},
		{"a counter", CapacityPrometheus{Metric: "done_total"}, 12, ""},
		{"a metric without a type", CapacityPrometheus{Metric: "bare"}, 5, ""},
		{"a part of what is wanted, of the declared 200", CapacityPrometheus{Metric: "free", Of: "wanted", Labels: label("pool", "web")}, 140, ""},
		{"more than is wanted is no more room", CapacityPrometheus{Metric: "free", Of: "bare"}, 200, ""},
		{"a part of nothing", CapacityPrometheus{Metric: "bare", Of: "wanted", Labels: label("pool", "idle")}, 0, "no series bare"},
		{"nothing is wanted", CapacityPrometheus{Metric: "wanted", Of: "wanted", Labels: label("pool", "idle")}, 0, "must be above 0"},
		{"no such metric", CapacityPrometheus{Metric: "nope"}, 0, "no series nope"},
		{"no such label", CapacityPrometheus{Metric: "free", Labels: label("pool", "none")}, 0, "no series free"},
		{"the whole is missing", CapacityPrometheus{Metric: "free", Of: "nope"}, 0, "no series nope"},
		{"a histogram", CapacityPrometheus{Metric: "slow"}, 0, "gauge or a counter"},
		{"not a number", CapacityPrometheus{Metric: "odd", Labels: label("pool", "nan")}, 0, "is NaN"},
		{"no end", CapacityPrometheus{Metric: "odd", Labels: label("pool", "inf")}, 0, "is +Inf"},
		{"below nothing", CapacityPrometheus{Metric: "odd", Labels: label("pool", "minus")}, 0, "is -1"},
		{"a part that is no number", CapacityPrometheus{Metric: "odd", Of: "bare", Labels: nil}, 0, "is NaN"},
	}
	_, port := listening(t, says(exposition))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.metric.URL = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
			got, err := reader(loopbackOpen).read(t.Context(), CapacityPlan{Declared: 200, Prometheus: &tt.metric})
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestAPartOfNoCapacityIsNoReport(t *testing.T) {
	_, port := listening(t, says(exposition))
	_, err := reader(loopbackOpen).read(t.Context(), CapacityPlan{Prometheus: &CapacityPrometheus{
		URL: fmt.Sprintf("http://127.0.0.1:%d/metrics", port), Metric: "free", Of: "bare",
	}})
	require.ErrorContains(t, err, "needs the cluster's capacity")
}

func TestAnExpositionMayBeAMebibyteAndNoMore(t *testing.T) {
	line := "# " + strings.Repeat("x", 61) + "\n"
	for _, tt := range []struct {
		lines int
		err   string
	}{{maxExposition/len(line) - 1, ""}, {maxExposition/len(line) + 1, "at most 1048576 bytes"}} {
		_, port := listening(t, says("free 3\n"+strings.Repeat(line, tt.lines)))
		_, err := reader(loopbackOpen).read(t.Context(), CapacityPlan{Prometheus: &CapacityPrometheus{URL: fmt.Sprintf("http://127.0.0.1:%d/", port), Metric: "free"}})
		if tt.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.err)
		}
	}
}

// The example of docs/capacity.md: a cluster gets as much of its weight as of the
// deployment it really runs.
func TestKubeStateMetricsSaysWhatReallyGotScheduled(t *testing.T) {
	body, err := os.ReadFile("testdata/kube-state-metrics.txt")
	require.NoError(t, err)
	host := ""
	_, port := listening(t, func(w http.ResponseWriter, r *http.Request) { host = r.Host; _, _ = w.Write(body) })
	r := reader(loopbackOpen)
	r.resolver = newResolver(&Config{Policy: loopbackOpen}, nil)
	r.resolver.system = func(_ context.Context, _, name string) ([]netip.Addr, error) {
		require.Equal(t, "metrics.eu.example.net.", name)
		return addrs("127.0.0.1"), nil
	}
	got, err := r.read(t.Context(), CapacityPlan{Cluster: "eu", Declared: 100, Prometheus: &CapacityPrometheus{
		URL:    fmt.Sprintf("http://metrics.eu.example.net:%d/metrics", port),
		Metric: "kube_deployment_status_replicas_available", Of: "kube_deployment_spec_replicas",
		Labels: map[string]string{"namespace": "shop", "deployment": "web"},
	}})
	require.NoError(t, err)
	require.Equal(t, 75.0, got, "nine of twelve replicas are available")
	require.Equal(t, fmt.Sprintf("metrics.eu.example.net:%d", port), host)
}

func TestACapacityOverHTTPSIsVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(says(`{"available": 7}`))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	read := func(serverName string, roots *x509.CertPool) error {
		r := reader(loopbackOpen)
		r.roots = roots
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		_, err = r.get(t.Context(), u, serverName, maxReport, s.Listener.Addr().String())
		return err
	}
	require.NoError(t, read("example.com", pool))
	require.NoError(t, read("", pool), "without a name the chain alone is verified")
	var verify *tls.CertificateVerificationError
	require.ErrorAs(t, read("other.example.net", pool), &verify)
	require.ErrorContains(t, read("", x509.NewCertPool()), "unknown authority")
	require.ErrorAs(t, read("example.com", x509.NewCertPool()), &verify)
}

func TestAHungEndpointIsGivenUp(t *testing.T) {
	gone := make(chan struct{})
	_, port := listening(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(gone) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := reader(loopbackOpen).read(ctx, CapacityPlan{Endpoints: addrs("127.0.0.1"), HTTP: &CapacityHTTP{Port: port, JSON: "$"}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	<-gone
}
