package probe

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// maxBody is how much of a response is read, and maxHeader of its header: an
// endpoint must not be able to fill this node's memory.
const (
	maxBody   = 64 << 10
	maxHeader = 64 << 10
	// maxFraming is what of a connection is read for a body of maxBody at most: its
	// framing may be as long, and trailers follow.
	maxFraming = 4 * maxBody
	// maxInterim bounds the interim responses (1xx) before the one that counts.
	maxInterim = 5
)

var (
	errNoResponse = errors.New("the server closed the connection without a response")
	errLongHeader = fmt.Errorf("the header is longer than %d bytes", maxHeader)
	errLongBody   = fmt.Errorf("the body is sent in more than %d bytes", maxFraming)
)

// httpRequest is a request as it is sent each time.
type httpRequest struct {
	method string
	host   string
	path   string // with the query
	h1     []byte
	block  []byte                     // of HTTP/2, see h2; empty until it is needed
	fields func() []hpack.HeaderField // makes the block

	like *http.Request // tells ReadResponse whether to expect a body
}

// line returns the request's first line, for people.
func (r *httpRequest) line(proto string) string {
	return fmt.Sprintf("%s %s %s to %s", r.method, r.path, proto, r.host)
}

// h2 returns the header block for HTTP/2.
func (r *httpRequest) h2() []byte {
	if r.block == nil {
		r.block = headerBlock(r.fields())
	}
	return r.block
}

func newHTTPRequest(scheme string, check *HTTPCheck, endpoint netip.Addr, userAgent string) (httpRequest, error) {
	path, err := requestPath(check.Path)
	if err != nil {
		return httpRequest{}, err
	}
	if err := check.sendable(); err != nil {
		return httpRequest{}, err
	}
	headers := map[string]string{"User-Agent": userAgent}
	host := check.Host
	for k, v := range check.Headers {
		switch k = http.CanonicalHeaderKey(k); k {
		case "Host":
			host = cmp.Or(host, v)
		case "Content-Length", "Transfer-Encoding", "Trailer": // there is no body
		default:
			headers[k] = v
		}
	}
	r := httpRequest{method: check.method(), host: cmp.Or(host, hostHeader(scheme, endpoint, check.Port)), path: path}
	switch r.method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		headers["Content-Length"] = "0" // RFC 9110 section 8.6
	}
	if _, own := headers["Connection"]; !own && !check.Reuse {
		headers["Connection"] = "close"
	}
	r.like = &http.Request{Method: r.method}
	names := slices.Sorted(maps.Keys(headers))
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.path, r.host)
	for _, k := range names {
		fmt.Fprintf(&b, "%s: %s\r\n", k, headers[k])
	}
	b.WriteString("\r\n")
	r.h1 = bytes.Clone(b.Bytes())
	method, path, host := r.method, r.path, r.host
	r.fields = func() []hpack.HeaderField {
		fields := requestFields(method, scheme, host, path)
		for _, k := range names {
			switch k {
			case "Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Te", "Content-Length":
				continue // RFC 9113 section 8.2.2
			}
			fields = append(fields, hpack.HeaderField{Name: strings.ToLower(k), Value: headers[k]})
		}
		return fields
	}
	return r, nil
}

// hostHeader returns how a client writes the endpoint: without the usual port.
func hostHeader(scheme string, endpoint netip.Addr, port int) string {
	hp := hostPort(endpoint, port)
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return hp[:strings.LastIndexByte(hp, ':')]
	}
	return hp
}

// requestPath returns the path of a check as it is sent.
func requestPath(path string) (string, error) {
	path = cmp.Or(path, "/")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	if path[0] != '/' && path != "*" {
		return "", fmt.Errorf("path: must begin with /, is %q", path)
	}
	if strings.HasPrefix(path, "//") {
		u, _ = url.ParseRequestURI("/" + path) // RFC 3986 would read a host; it parsed before
		u.Path, u.RawPath = u.Path[1:], ""
	}
	var b strings.Builder
	for _, c := range []byte(u.RequestURI()) {
		if c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// sendable returns what no server could read: it must not look like a failure of
// the endpoint.
func (h *HTTPCheck) sendable() error {
	if strings.ContainsFunc(h.method(), notTokenRune) {
		return fmt.Errorf("method %q cannot be sent", h.Method)
	}
	if h.method() == http.MethodConnect {
		return fmt.Errorf("method %q would open a tunnel", h.Method)
	}
	if strings.ContainsFunc(h.Host, notHostRune) {
		return fmt.Errorf("host %q cannot be sent", h.Host)
	}
	for k, v := range h.Headers {
		if k == "" || strings.ContainsFunc(k, notTokenRune) || strings.ContainsFunc(v, controlRune) ||
			strings.EqualFold(k, "Host") && strings.ContainsFunc(v, notHostRune) {
			return fmt.Errorf("header %q cannot be sent", k)
		}
	}
	return nil
}

func notHostRune(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == '@' }

// notTokenRune reports whether r may not stand in a header's name (RFC 9110 section 5.6.2).
func notTokenRune(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// controlRune reports whether r may not stand in a header's value (RFC 9110 section 5.5).
func controlRune(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// response is what came back, its body still to be read.
type response struct {
	proto   string
	code    int
	header  http.Header
	trailer http.Header // of HTTP/2, complete once the body has ended
	body    io.Reader
	length  int64 // of the body as declared; below 0: not declared
	last    bool  // the server takes no other request on this connection
	ended   bool  // the body was read to its end
	h1      *bufio.Reader
}

// done reports whether the connection can take another request.
func (r *response) done() bool {
	return r.ended && !r.last && (r.h1 == nil || r.h1.Buffered() == 0)
}

// readResponse reads a response of HTTP/1 up to its body.
func readResponse(req *httpRequest, buf *buffer, rec *recorder) (*response, error) {
	if _, err := buf.reader.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errNoResponse
		}
		return nil, fmt.Errorf("read response: %w", err)
	}
	for range maxInterim {
		resp, err := http.ReadResponse(buf.reader, req.like)
		if err != nil {
			// What ended it says more than how what had come so far is malformed.
			err = cmp.Or(buf.in.err, err)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("read response: %w", err)
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		buf.in.left, buf.in.over = maxFraming, errLongBody
		if rec != nil {
			rec.ok(resp.Proto + " " + resp.Status)
		}
		// The body is not closed: closing would read an endless one to its end.
		return &response{
			proto: resp.Proto, code: resp.StatusCode, header: resp.Header, body: resp.Body, length: resp.ContentLength,
			last: resp.Close, h1: buf.reader,
		}, nil
	}
	return nil, errors.New("read response: only interim responses came")
}

// bounded reads left bytes of from, then fails.
type bounded struct {
	from io.Reader
	left int
	over error
	err  error // that reading ended with; nil: it goes on
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.err = b.over
		return 0, b.err
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left, b.err = b.left-n, err
	return n, err
}
