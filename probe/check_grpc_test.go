package probe

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// healthReply answers like a gRPC server would: a message, then the status as trailer.
func healthReply(w http.ResponseWriter, message []byte, status, text string) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	_, _ = w.Write(message)
	w.(http.Flusher).Flush()
	w.Header().Set("Grpc-Status", status)
	w.Header().Set("Grpc-Message", text)
}

// statusOnly answers with headers alone.
func statusOnly(w http.ResponseWriter, status, text string) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", status)
	w.Header().Set("Grpc-Message", text)
}

func message(b ...byte) []byte { return append([]byte{0, 0, 0, 0, byte(len(b))}, b...) }

func TestGRPCCheck(t *testing.T) {
	var request, authority atomic.Value
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request.Store(fmt.Sprintf("%s %s %s %s %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Te"), body))
		authority.Store(r.Host)
		switch service := string(body[min(7, len(body)):]); service {
		case "", "good":
			healthReply(w, message(8, 1), "0", "")
		case "extra": // a field of a later version comes first
			healthReply(w, message(18, 1, 'x', 8, 1), "0", "")
		case "down":
			healthReply(w, message(8, 2), "0", "")
		case "strange":
			healthReply(w, message(8, 9), "0", "")
		case "empty":
			healthReply(w, message(), "0", "")
		case "nothing":
			healthReply(w, nil, "0", "")
		case "short":
			healthReply(w, []byte{0, 0, 0, 0, 9, 8, 1}, "0", "")
		case "packed":
			healthReply(w, []byte{1, 0, 0, 0, 2, 8, 1}, "0", "")
		case "junk":
			healthReply(w, message(0xff, 0xff), "0", "")
		case "unknown":
			statusOnly(w, "5", "unknown service")
		case "unimplemented":
			statusOnly(w, "12", "unknown method")
		case "late":
			healthReply(w, nil, "14", "shutting%20down")
		case "nostatus":
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = w.Write(message(8, 1))
		case "http":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "html":
			_, _ = io.WriteString(w, "<html>")
		case "reset":
			panic(http.ErrAbortHandler)
		case "hang":
			<-r.Context().Done()
		}
	})
	plain := httptest.NewUnstartedServer(h)
	plain.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	defer plain.Close()
	certs := newCertificates(t)
	later := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	secure := httptest.NewUnstartedServer(h)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = plain.Config.ErrorLog
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{certs.leaf(later, "rpc.example.com")}}
	secure.StartTLS()
	defer secure.Close()
	old := httptest.NewUnstartedServer(h)
	old.Config.ErrorLog = plain.Config.ErrorLog
	old.TLS = &tls.Config{Certificates: []tls.Certificate{certs.leaf(later, "rpc.example.com")}}
	old.StartTLS()
	defer old.Close()
	http1 := httptest.NewServer(h)
	defer http1.Close()

	verified := &TLSCheck{Verify: true}
	tests := []struct {
		name    string
		on      net.Listener
		service string
		host    string
		tls     *TLSCheck
		roots   *x509.CertPool
		reason  Reason
		detail  string
	}{
		{"the server serves", plain.Listener, "", "", nil, nil, ReasonOK, ""},
		{"the service serves", plain.Listener, "good", "", nil, nil, ReasonOK, ""},
		{"a later version of the message", plain.Listener, "extra", "", nil, nil, ReasonOK, ""},
		{"over TLS", secure.Listener, "good", "rpc.example.com", verified, certs.pool, ReasonOK, ""},
		{"over TLS without verification", secure.Listener, "good", "x.example.com", &TLSCheck{}, nil, ReasonOK, ""},
		{"over TLS with another name", secure.Listener, "good", "x.example.com", verified, certs.pool, ReasonTLS, "x.example.com"},
		{"over TLS of nobody known", secure.Listener, "good", "rpc.example.com", verified, x509.NewCertPool(), ReasonTLS, "unknown authority"},
		{"a server without HTTP/2", old.Listener, "good", "rpc.example.com", verified, certs.pool, ReasonTLS, "no application protocol"},
		{"not serving", plain.Listener, "down", "", nil, nil, ReasonStatus, "NOT_SERVING"},
		{"a status of a later version", plain.Listener, "strange", "", nil, nil, ReasonStatus, "serving status 9"},
		{"a message without a field is UNKNOWN", plain.Listener, "empty", "", nil, nil, ReasonStatus, "UNKNOWN"},
		{"no message", plain.Listener, "nothing", "", nil, nil, ReasonBody, "holds no message"},
		{"a message cut short", plain.Listener, "short", "", nil, nil, ReasonBody, "should have 9 bytes, has 2"},
		{"a compressed message", plain.Listener, "packed", "", nil, nil, ReasonBody, "compressed"},
		{"junk in a message", plain.Listener, "junk", "", nil, nil, ReasonBody, "health response"},
		{"a service nobody knows", plain.Listener, "unknown", "", nil, nil, ReasonStatus, `NOT_FOUND: the health service does not know "unknown"`},
		{"no health service", plain.Listener, "unimplemented", "", nil, nil, ReasonStatus, "UNIMPLEMENTED: the server has no health service"},
		{"another status", plain.Listener, "late", "", nil, nil, ReasonStatus, "UNAVAILABLE: shutting%20down"},
		{"no status", plain.Listener, "nostatus", "", nil, nil, ReasonStatus, "no grpc-status"},
		{"an HTTP error", plain.Listener, "http", "", nil, nil, ReasonStatus, "HTTP status 503"},
		{"a web page", plain.Listener, "html", "", nil, nil, ReasonStatus, "no gRPC server"},
		{"a reset", plain.Listener, "reset", "", nil, nil, ReasonOther, "reset the request"},
		{"a call that hangs", plain.Listener, "hang", "", nil, nil, ReasonTimeout, ""},
		{"a server of HTTP/1", http1.Listener, "", "", nil, nil, ReasonOther, "looked like an HTTP/1.1 header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &GRPCCheck{Port: portOf(t, tt.on.Addr()), Service: tt.service, Host: tt.host, TLS: tt.tls}
			c := Check{Timeout: 10 * time.Second, GRPC: g}
			if tt.reason == ReasonTimeout {
				c.Timeout = 200 * time.Millisecond
			}
			r := localProber(tt.roots).Once(t.Context(), c, loopback)
			require.Equal(t, tt.reason, r.Reason, r.Detail)
			require.Contains(t, r.Detail, tt.detail)
			require.Regexp(t, `^[ -~]*$`, r.Detail)
			require.Equal(t, tt.tls != nil && tt.on != old.Listener, r.CertExpiry.Equal(later))
			if tt.reason == ReasonOK {
				want := fmt.Sprintf("POST /grpc.health.v1.Health/Check application/grpc trailers %q", healthRequest(tt.service))
				require.Equal(t, want, request.Load())
				require.Equal(t, tt.host, strings.TrimPrefix(authority.Load().(string), tt.on.Addr().String()))
			}
		})
	}
}

func FuzzServingStatus(f *testing.F) {
	f.Add(message(8, 1))
	f.Add(message(18, 1, 'x', 8, 1))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := servingStatus(b); err == nil && len(b) < 5 {
			t.Error("a message out of nothing")
		}
	})
}
