package probe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatAResponseMustHold(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Content-Type", "application/json; charset=utf-8")
		w.Header().Add("X-Role", "replica")
		w.Header().Add("X-Role", "primary")
		_, _ = io.WriteString(w, `{"db":"ready","n":1.10,"yes":true,"none":null,"list":["a","b"],"nodes":[{"s":"up"},{"s":"up"},{"s":"down","off":true}]}`)
	})
	mux.HandleFunc("/switch", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	mux.HandleFunc("/two", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"db":"ready"} {}`) })
	mux.HandleFunc("/hundred", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	})
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			_, _ = io.WriteString(w, strings.Repeat("x", 10))
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/edge", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", maxBody)) })
	mux.HandleFunc("/past", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", maxBody+1)) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(60 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		_, _ = io.WriteString(w, "ok")
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	p := localProber(nil)

	header := func(k, v string) HTTPExpect { return HTTPExpect{Header: map[string]string{k: v}} }
	values := func(k, v string) HTTPExpect { return HTTPExpect{JSON: map[string]string{k: v}} }
	most := func(n int) HTTPExpect { return HTTPExpect{MaxBody: n} }
	tests := []struct {
		name   string
		path   string
		expect HTTPExpect
		reason Reason
		detail string
	}{
		{"a header that matches", "/json", header("content-type", "json"), ReasonOK, ""},
		{"any value of a header may match", "/json", header("X-Role", "^primary$"), ReasonOK, ""},
		{"a header that does not match", "/json", header("X-Role", "^leader$"), ReasonBody, "header X-Role does not match, is: replica, primary"},
		{"a header that is not there", "/json", header("X-None", ""), ReasonBody, "no header X-None"},
		{"another protocol", "/switch", HTTPExpect{Status: []StatusRange{{101, 101}}}, ReasonOK, ""},
		{"another protocol has no body to match", "/switch", HTTPExpect{Status: []StatusRange{{101, 101}}, BodyRegex: "ok"}, ReasonBody, "body does not match"},
		{"another protocol has no JSON", "/switch", HTTPExpect{Status: []StatusRange{{101, 101}}, JSON: map[string]string{"$.db": "ready"}}, ReasonBody, "body is no JSON"},
		{"a text in JSON", "/json", values("$.db", "ready"), ReasonOK, ""},
		{"another text in JSON", "/json", values("$.db", "starting"), ReasonBody, "$.db is ready"},
		{"a number is compared as it is written", "/json", values("$.n", "1.10"), ReasonOK, ""},
		{"another way to write a number", "/json", values("$.n", "1.1"), ReasonBody, "is 1.10"},
		{"true in JSON", "/json", values("$.yes", "true"), ReasonOK, ""},
		{"null in JSON", "/json", values("$.none", "null"), ReasonOK, ""},
		{"a path that leads nowhere", "/json", values("$.missing", "x"), ReasonBody, "body has no $.missing"},
		{"an array is no scalar", "/json", values("$.list", "an array"), ReasonBody, "is an array"},
		{"all values of a path must match", "/json", values("$.nodes[*].s", "up"), ReasonBody, "is down"},
		{"a filter leaves out the others", "/json", values("$.nodes[?!@.off].s", "up"), ReasonOK, ""},
		{"no JSON at all", "/hundred", values("$.db", "ready"), ReasonBody, "body is no JSON"},
		{"a second document", "/two", values("$.db", "ready"), ReasonBody, "more follows"},
		{"a body as long as allowed", "/hundred", most(100), ReasonOK, ""},
		{"a longer body", "/hundred", most(99), ReasonBody, "a body of 100 bytes"},
		{"a longer body that does not say so", "/chunked", most(99), ReasonBody, "more than 99 bytes"},
		{"a body as long as is read", "/edge", most(maxBody), ReasonOK, ""},
		{"a body longer than is read", "/past", most(maxBody), ReasonBody, "bytes"},
		{"without a bound a longer body is fine", "/past", HTTPExpect{}, ReasonOK, ""},
		{"fast enough", "/json", HTTPExpect{MaxLatency: time.Minute}, ReasonOK, ""},
		{"too slow", "/slow", HTTPExpect{MaxLatency: 50 * time.Millisecond}, ReasonLatency, "it took "},
		{"a wrong body goes before a slow one", "/slow", HTTPExpect{MaxLatency: time.Millisecond, BodyRegex: "x"}, ReasonBody, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := p.Once(t.Context(), httpCheck(portOf(t, srv.Listener.Addr()), func(h *HTTPCheck) { h.Path, h.Expect = tt.path, tt.expect }), loopback)
			require.Equal(t, tt.reason, r.Reason, r.Detail)
			require.Contains(t, r.Detail, tt.detail)
		})
	}
}

func TestAnExpectationThatDoesNotCompile(t *testing.T) {
	for _, e := range []HTTPExpect{{BodyRegex: "("}, {Header: map[string]string{"A": "("}}, {JSON: map[string]string{"db": "x"}}} {
		_, err := newExpectation(&e)
		require.Error(t, err, "%+v", e)
	}
}

func TestWhatIsWorthAWarning(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	warn := Warn{CertExpiresAfter: time.Hour, MaxLatency: time.Second}
	tests := []struct {
		name   string
		warn   Warn
		took   time.Duration
		expiry time.Time
		want   string
	}{
		{"nothing", warn, time.Second, now.Add(time.Hour), ""},
		{"a slow result", warn, time.Second + 1, now.Add(time.Hour), DegradedLatency},
		{"a certificate that ends soon", warn, 0, now.Add(time.Hour - 1), DegradedCert},
		{"an expired certificate", warn, 0, now.Add(-time.Hour), DegradedCert},
		{"the certificate goes first", warn, time.Minute, now, DegradedCert},
		{"without TLS there is no certificate", warn, 0, time.Time{}, ""},
		{"nobody asked", Warn{}, time.Hour, now, ""},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.warn.degraded(tt.took, tt.expiry, now), tt.name)
	}
}

func TestADegradedResultIsGood(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") }))
	defer srv.Close()
	check := httpCheck(portOf(t, srv.Listener.Addr()), func(h *HTTPCheck) { h.Warn.MaxLatency = 1 })
	r := localProber(nil).Once(t.Context(), check, loopback)
	require.True(t, r.OK)
	require.Equal(t, DegradedLatency, r.Degraded)
	require.Positive(t, r.RTT)
	require.Less(t, r.RTT, r.Took)
}

func TestExpandReplacesEveryHostName(t *testing.T) {
	const in, out = "{service}.{zone}", "web.gslb.example.com"
	c := Check{
		HTTP:  &HTTPCheck{Host: in},
		HTTPS: &HTTPCheck{Host: in, TLS: &TLSCheck{ServerName: in, CA: "ca"}},
		TLS:   &HandshakeCheck{ServerName: in},
		GRPC:  &GRPCCheck{Host: in, TLS: &TLSCheck{ServerName: in}},
		DNS:   &DNSCheck{Name: in},
	}
	e := c.Expand("web", "gslb.example.com.")
	for _, got := range []string{e.HTTP.Host, e.HTTPS.Host, e.HTTPS.TLS.ServerName, e.TLS.ServerName, e.GRPC.Host, e.GRPC.TLS.ServerName, e.DNS.Name} {
		require.Equal(t, out, got)
	}
	require.Equal(t, "ca", e.HTTPS.TLS.CA)
	require.Equal(t, in, c.HTTPS.TLS.ServerName, "the original stays")
	require.Equal(t, Check{}, Check{}.Expand("a", "b"))
}
