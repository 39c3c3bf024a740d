package probe

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// grpcChecker asks grpc.health.v1. The one call it makes needs neither streams nor
// generated code, and google.golang.org/grpc would keep several goroutines and a
// connection of its own kind for it.
type grpcChecker struct {
	r       *runner
	addr    string
	service string
	tls     *tlsClient // nil: plain text
	request httpRequest
	message []byte
}

func (r *runner) newGRPC(check *GRPCCheck, endpoint netip.Addr) (checker, error) {
	if strings.ContainsFunc(check.Host, notHostRune) {
		return nil, fmt.Errorf("host %q cannot be sent", check.Host)
	}
	c := &grpcChecker{r: r, addr: hostPort(endpoint, check.Port), service: check.Service}
	scheme := "http"
	if check.TLS != nil {
		scheme = "https"
		c.tls = r.newTLS(check.TLS, check.Host, endpoint, []string{"h2"})
		c.tls.mustChoose = []string{"h2"}
	}
	c.request = httpRequest{
		method: "POST", path: "/grpc.health.v1.Health/Check", host: cmp.Or(check.Host, hostHeader(scheme, endpoint, check.Port)),
	}
	c.request.fields = func() []hpack.HeaderField {
		return append(requestFields(c.request.method, scheme, c.request.host, c.request.path),
			hpack.HeaderField{Name: "content-type", Value: "application/grpc"},
			hpack.HeaderField{Name: "te", Value: "trailers"},
			hpack.HeaderField{Name: "user-agent", Value: r.userAgent})
	}
	c.message = healthRequest(check.Service)
	if len(c.message) > maxHealthMessage {
		return nil, fmt.Errorf("service: must be at most %d bytes, is %d", maxHealthMessage, len(check.Service))
	}
	return c, nil
}

// maxHealthMessage bounds a message each way. A request must fit into one frame.
const maxHealthMessage = 4096

// healthRequest returns a HealthCheckRequest with its length prefix.
func healthRequest(service string) []byte {
	var m []byte
	if service != "" {
		m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), service)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

func (c *grpcChecker) run(ctx context.Context, rec *recorder) (seen, error) {
	l, rtt, err := c.r.connect(ctx, rec, "tcp", c.addr)
	if err != nil {
		return seen{}, err
	}
	defer l.drop()
	saw := seen{rtt: rtt}
	buf := c.r.borrow()
	defer c.r.giveBack(buf)
	var conn io.ReadWriter
	if c.tls != nil {
		if conn, saw.expiry, err = c.tls.handshake(ctx, l, rec); err != nil {
			return saw, err
		}
	} else {
		conn = struct {
			io.Reader
			io.Writer
		}{bufio.NewReader(l), l}
	}
	return saw, c.ask(ctx, newH2(conn), buf, rec)
}

// ask makes the call and returns what is wrong with its outcome.
func (c *grpcChecker) ask(ctx context.Context, h *h2Conn, buf *buffer, rec *recorder) error {
	rec.start("send")
	if err := h.send(c.request.h2(), c.message); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	if rec != nil {
		rec.ok(fmt.Sprintf("%s for service %q to %s", c.request.path, c.service, c.request.host))
	}
	resp, err := h.response(&c.request, rec)
	if err != nil {
		return err
	}
	rec.start("read")
	// Headers alone (RFC: "Trailers-Only") carry the status too.
	status := resp.header
	if status.Get("Grpc-Status") == "" {
		limit := io.LimitReader(resp.body, maxHealthMessage)
		for {
			buf.body = slices.Grow(buf.body, 512)
			n, err := limit.Read(buf.body[len(buf.body):cap(buf.body)])
			buf.body = buf.body[:len(buf.body)+n]
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("read response after %d bytes: %w", len(buf.body), err)
			}
		}
		status = resp.trailer
	}
	if rec != nil {
		rec.ok(fmt.Sprintf("%d bytes", len(buf.body)))
	}
	rec.start("match")
	if err := c.judge(resp, status.Get("Grpc-Status"), status.Get("Grpc-Message"), buf.body); err != nil {
		return err
	}
	if rec != nil {
		rec.ok("SERVING")
	}
	return nil
}

// grpcCodes are the names of the status codes.
var grpcCodes = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED",
}

// servingStatuses are the values of HealthCheckResponse.ServingStatus.
var servingStatuses = [...]string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

// judge returns what is wrong with a response that ended with a gRPC status.
func (c *grpcChecker) judge(resp *response, status, message string, body []byte) error {
	bad := func(format string, args ...any) error {
		return &badError{ReasonStatus, fmt.Sprintf(format, args...), "SERVING"}
	}
	switch {
	case resp.code != 200:
		return bad("HTTP status %d, from something that is no gRPC server", resp.code)
	case !strings.HasPrefix(resp.header.Get("Content-Type"), "application/grpc"):
		return bad("content type %.80q, from something that is no gRPC server", resp.header.Get("Content-Type"))
	case status == "":
		return bad("the response has no grpc-status")
	case status != "0":
		name := "status " + status
		for code, n := range grpcCodes {
			if status == fmt.Sprint(code) {
				name = n
			}
		}
		switch name {
		case "UNIMPLEMENTED":
			return bad("UNIMPLEMENTED: the server has no health service (grpc.health.v1)")
		case "NOT_FOUND":
			return bad("NOT_FOUND: the health service does not know %q", c.service)
		}
		return bad("%s: %.100s", name, message)
	}
	serving, err := servingStatus(body)
	if err != nil {
		return &badError{ReasonBody, "health response: " + err.Error(), "SERVING"}
	}
	if serving == 1 {
		return nil
	}
	if serving < uint64(len(servingStatuses)) {
		return bad("%s", servingStatuses[serving])
	}
	return bad("serving status %d", serving)
}

// servingStatus returns the status of a HealthCheckResponse with its length prefix.
func servingStatus(b []byte) (uint64, error) {
	const prefix = 5 // compressed or not, then four bytes of length
	switch {
	case len(b) < prefix:
		return 0, errors.New("it holds no message")
	case b[0] != 0:
		return 0, errors.New("it is compressed, which was not offered")
	case uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(b)-prefix):
		return 0, fmt.Errorf("the message should have %d bytes, has %d", binary.BigEndian.Uint32(b[1:]), len(b)-prefix)
	}
	var status uint64
	for b = b[prefix:]; len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		b = b[n:]
		if num == 1 && typ == protowire.VarintType {
			if status, n = protowire.ConsumeVarint(b); n < 0 {
				return 0, protowire.ParseError(n)
			}
		} else if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return 0, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return status, nil
}

func (c *grpcChecker) close() {}
