//go:build integration

package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nginxServers are the ports of one nginx.
type nginxServers struct{ http, h1, h2, expired, other int }

func startNginx(t *testing.T, certs, others *certificates) nginxServers {
	t.Helper()
	path := program(t, "nginx")
	dir := t.TempDir()
	for name, content := range map[string]string{
		"healthz": "ok", "long": strings.Repeat("x", 2000), "db.json": `{"db":"ready","lag":3}`, "big": strings.Repeat("x", 3*maxBody),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	var s nginxServers
	var servers strings.Builder
	server := func(port *int, listen string, extra ...string) {
		*port = freePort(t)
		fmt.Fprintf(&servers, `
  server {
    listen 127.0.0.1:%d %s;
    %s
    root %s;
    location /moved { return 302 /healthz; }
    location /fail { return 503 "sorry\n"; }
    location /trickle { alias %s/long; limit_rate_after 600; limit_rate 10; }
    location /slow { alias %s/long; limit_rate 1500; }
    location /headers { add_header X-Role "primary"; return 200 "ok"; }
  }`, *port, listen, strings.Join(extra, "\n    "), dir, dir, dir)
	}
	secure := func(c *certificates, after time.Duration) string {
		cert, key := pemFiles(t, c.leaf(time.Now().Add(after), "web.example.com"))
		return fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s;", cert, key)
	}
	server(&s.http, "")
	server(&s.h1, "ssl", secure(certs, time.Hour))
	server(&s.h2, "ssl http2", secure(certs, time.Hour))
	server(&s.expired, "ssl", secure(certs, -time.Minute))
	server(&s.other, "ssl", secure(others, time.Hour))
	conf := file(t, "nginx.conf", fmt.Appendf(nil, `
daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr warn; user root;
events { worker_connections 256; }
http {
  access_log off; types { application/json json; } default_type text/plain;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  %[2]s
}
`, t.TempDir(), servers.String()))
	start(t, s.other, path, "-c", conf, "-e", "stderr")
	return s
}

func TestRealNginx(t *testing.T) {
	certs, others := newCertificates(t), newCertificates(t)
	s := startNginx(t, certs, others)
	free, hole := freePort(t), blackhole(t)

	plain := func(path string, edit ...func(*HTTPCheck)) Check {
		h := &HTTPCheck{Port: s.http, Path: path, Host: "web.example.com"}
		for _, e := range edit {
			e(h)
		}
		return Check{HTTP: h}
	}
	secure := func(port int, edit ...func(*HTTPCheck)) Check {
		h := &HTTPCheck{Port: port, Path: "/healthz", Host: "web.example.com"}
		for _, e := range edit {
			e(h)
		}
		return Check{HTTPS: h}
	}
	expect := func(e HTTPExpect) func(*HTTPCheck) { return func(h *HTTPCheck) { h.Expect = e } }
	on := func(port int) func(*HTTPCheck) { return func(h *HTTPCheck) { h.Port = port } }
	reuse := func(h *HTTPCheck) { h.Reuse = true }
	host := func(name string) func(*HTTPCheck) { return func(h *HTTPCheck) { h.Host = name } }
	unverified := func(h *HTTPCheck) { h.TLS = &TLSCheck{} }
	everything := HTTPExpect{
		Status: []StatusRange{{200, 200}}, BodyRegex: "ready", Header: map[string]string{"content-type": "json"},
		JSON: map[string]string{"$.db": "ready", "$.lag": "3"}, MaxLatency: 5 * time.Second, MaxBody: 1000,
	}
	tcp := func(port int, send, text string) Check {
		return Check{TCP: &TCPCheck{Port: port, Send: send, Expect: text}}
	}

	runReal(t, localProber(certs.pool), []realCase{
		{"http is well", plain("/healthz", expect(HTTPExpect{BodyRegex: "^ok$"})), ReasonOK, "", ""},
		{"http with every expectation", plain("/db.json", expect(everything)), ReasonOK, "", ""},
		{"http on a kept connection", plain("/healthz", reuse), ReasonOK, "", ""},
		{"http that is slower than it warns of", plain("/healthz", func(h *HTTPCheck) { h.Warn.MaxLatency = 1 }), ReasonOK, "", DegradedLatency},
		{"http by HEAD", plain("/healthz", func(h *HTTPCheck) { h.Method = "HEAD" }), ReasonOK, "", ""},
		{"a status", plain("/fail"), ReasonStatus, "status 503", ""},
		{"a status that is wanted", plain("/fail", expect(HTTPExpect{Status: []StatusRange{{500, 599}}, BodyRegex: "sorry"})), ReasonOK, "", ""},
		{"a path that is not there", plain("/none"), ReasonStatus, "status 404", ""},
		{"a redirect is not followed", plain("/moved"), ReasonStatus, "status 302", ""},
		{"a body", plain("/healthz", expect(HTTPExpect{BodyRegex: "ready"})), ReasonBody, "body does not match, begins: ok", ""},
		{"a value in JSON", plain("/db.json", expect(HTTPExpect{JSON: map[string]string{"$.db": "starting"}})), ReasonBody, "$.db is ready", ""},
		{"a header", plain("/headers", expect(HTTPExpect{Header: map[string]string{"X-Role": "replica"}})), ReasonBody, "is: primary", ""},
		{"a long body", plain("/big", expect(HTTPExpect{MaxBody: maxBody})), ReasonBody, "a body of 196608 bytes", ""},
		{"a long body without a bound", plain("/big"), ReasonOK, "", ""},
		{"a latency", plain("/slow", expect(HTTPExpect{MaxLatency: 300 * time.Millisecond})), ReasonLatency, "it took ", ""},
		{"a body that trickles", plain("/trickle"), ReasonTimeout, "read body after", ""},
		{"http that nobody serves", plain("/healthz", on(free)), ReasonRefused, "refused", ""},
		{"http that is swallowed", plain("/healthz", on(hole)), ReasonTimeout, "", ""},
		{"https where http is expected", plain("/healthz", on(s.h1)), ReasonStatus, "status 400", ""},

		{"https over HTTP/1.1", secure(s.h1), ReasonOK, "", ""},
		{"https over HTTP/2", secure(s.h2), ReasonOK, "", ""},
		{"https over HTTP/2 on a kept connection", secure(s.h2, reuse), ReasonOK, "", ""},
		{"https over HTTP/2 with every expectation", secure(s.h2, expect(everything), func(h *HTTPCheck) { h.Path = "/db.json" }), ReasonOK, "", ""},
		{"https over HTTP/2 with a long body", secure(s.h2, func(h *HTTPCheck) { h.Path = "/big" }), ReasonOK, "", ""},
		{"a certificate that expires soon", secure(s.h2, func(h *HTTPCheck) { h.Warn.CertExpiresAfter = 2 * time.Hour }), ReasonOK, "", DegradedCert},
		{"a status over HTTP/2", secure(s.h2, func(h *HTTPCheck) { h.Path = "/fail" }), ReasonStatus, "status 503", ""},
		{"a body over HTTP/2", secure(s.h2, expect(HTTPExpect{BodyRegex: "ready"})), ReasonBody, "begins: ok", ""},
		{"an expired certificate", secure(s.expired), ReasonTLS, "expired", ""},
		{"an expired certificate unverified", secure(s.expired, unverified), ReasonOK, "", ""},
		{"a certificate of another name", secure(s.h1, host("www.example.com")), ReasonTLS, "www.example.com", ""},
		{"a certificate of an unknown CA", secure(s.other), ReasonTLS, "unknown authority", ""},
		{"http where https is expected", secure(s.http), ReasonTLS, "tls handshake", ""},
		{"https that nobody serves", secure(free), ReasonRefused, "refused", ""},
		{"https that is swallowed", secure(hole), ReasonTimeout, "", ""},

		{"tcp", tcp(s.http, "", ""), ReasonOK, "", ""},
		{"tcp with a dialogue", tcp(s.http, "GET /healthz HTTP/1.0\r\n\r\n", "\r\n\r\nok"), ReasonOK, "", ""},
		{"tcp with another answer", tcp(s.http, "GET /fail HTTP/1.0\r\n\r\n", "200 OK"), ReasonBody, "begins: HTTP/1.1 503", ""},
		{"tcp that says nothing", tcp(hole, "PING\r\n", "PONG"), ReasonTimeout, "", ""},
		{"tcp that nobody serves", tcp(free, "", ""), ReasonRefused, "refused", ""},
	})
}
