//go:build integration

package probe

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// serveGRPC serves health, unless it is nil, until the test ends.
func serveGRPC(t *testing.T, h healthpb.HealthServer, opts ...grpc.ServerOption) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(opts...)
	if h != nil {
		healthpb.RegisterHealthServer(srv, h)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return portOf(t, ln.Addr())
}

func TestRealGRPC(t *testing.T) {
	certs, others := newCertificates(t), newCertificates(t)
	h := health.NewServer()
	h.SetServingStatus("orders.v1.Orders", healthpb.HealthCheckResponse_SERVING)
	h.SetServingStatus("stock.v1.Stock", healthpb.HealthCheckResponse_NOT_SERVING)
	secure := func(c *certificates, after time.Duration) int {
		leaf := c.leaf(time.Now().Add(after), "rpc.example.com")
		return serveGRPC(t, h, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{leaf}})))
	}
	plain, bare := serveGRPC(t, h), serveGRPC(t, nil)
	overTLS, expired, other := secure(certs, time.Hour), secure(certs, -time.Minute), secure(others, time.Hour)
	leaving := serveGRPC(t, h, grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.Unavailable, "shutting down")
	}))
	stuck := serveGRPC(t, h, grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))

	check := func(port int, service string) Check { return Check{GRPC: &GRPCCheck{Port: port, Service: service}} }
	withTLS := func(port int, host string) Check {
		return Check{GRPC: &GRPCCheck{Port: port, Host: host, TLS: &TLSCheck{Verify: true}}}
	}
	runReal(t, localProber(certs.pool), []realCase{
		{"the server", check(plain, ""), ReasonOK, "", ""},
		{"a service", check(plain, "orders.v1.Orders"), ReasonOK, "", ""},
		{"over TLS", withTLS(overTLS, "rpc.example.com"), ReasonOK, "", ""},
		{"a service that does not serve", check(plain, "stock.v1.Stock"), ReasonStatus, "NOT_SERVING", ""},
		{"a service that is not known", check(plain, "none.v1.None"), ReasonStatus, "NOT_FOUND", ""},
		{"a server without a health service", check(bare, ""), ReasonStatus, "UNIMPLEMENTED", ""},
		{"a server that is leaving", check(leaving, ""), ReasonStatus, "UNAVAILABLE: shutting down", ""},
		{"a server that is stuck", check(stuck, ""), ReasonTimeout, "", ""},
		{"an expired certificate", withTLS(expired, "rpc.example.com"), ReasonTLS, "expired", ""},
		{"a certificate of another name", withTLS(overTLS, "x.example.com"), ReasonTLS, "x.example.com", ""},
		{"a certificate of an unknown CA", withTLS(other, "rpc.example.com"), ReasonTLS, "unknown authority", ""},
		{"plain text where TLS is expected", withTLS(plain, "rpc.example.com"), ReasonTLS, "", ""},
		{"TLS where plain text is expected", check(overTLS, ""), ReasonOther, "", ""},
		{"nobody listens", check(freePort(t), ""), ReasonRefused, "refused", ""},
		{"nobody answers", check(blackhole(t), ""), ReasonTimeout, "", ""},
	})
}
