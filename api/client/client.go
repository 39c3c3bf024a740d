// Package client talks to /v1 of any node, for the command line and for programs.
//
// It tries the addresses in order until one answers, sends the same idempotency
// key with every try of a write, and turns problems into errors that a program
// can branch on. It never keeps, prints or logs a token.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
)

// Defaults of Options.
const (
	DefaultSocket  = "/run/quorate/quorate.sock"
	DefaultTimeout = 20 * time.Second // above what a node waits for a commit

	dialTimeout = 3 * time.Second // so that a dead first address does not eat the time

	// maxAnswer bounds what is read of an answer that is no stream.
	maxAnswer = 64 << 20
)

// Options says where to talk to and as whom.
type Options struct {
	// Addrs are URLs or HOST:PORT, tried in order; an element may be a comma list,
	// and "unix:PATH" or an absolute path is a socket. Empty: the local socket.
	Addrs []string

	TokenFile string // holds the bearer token; must not be readable by others
	Token     string // instead of TokenFile, for the demo's users

	CAFile  string        // PEM that vouches for https addresses; empty: the system's
	Timeout time.Duration // of one call; zero: DefaultTimeout
}

// Client calls the API. It is safe for concurrent use.
type Client struct {
	bases   []base
	token   string
	timeout time.Duration
	tls     *tls.Config
}

type base struct {
	url    string // without /v1
	shown  string // for messages
	http   *http.Client
	socket string
}

// New returns a client. It reads the token file, but connects to nothing yet.
func New(o Options) (*Client, error) {
	c := &Client{token: strings.TrimSpace(o.Token), timeout: o.Timeout}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if o.TokenFile != "" {
		token, err := readToken(o.TokenFile)
		if err != nil {
			return nil, err
		}
		c.token = token
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, &UsageError{fmt.Errorf("read CA file: %w", err)}
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, &UsageError{fmt.Errorf("read CA file %s: holds no certificate", o.CAFile)}
		}
		c.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	addrs := o.Addrs
	if len(addrs) == 0 {
		addrs = []string{"unix:" + DefaultSocket}
	}
	for _, list := range addrs {
		for a := range strings.SplitSeq(list, ",") {
			if a = strings.TrimSpace(a); a == "" {
				continue
			}
			b, err := c.base(a)
			if err != nil {
				return nil, err
			}
			c.bases = append(c.bases, b)
		}
	}
	if len(c.bases) == 0 {
		return nil, &UsageError{errors.New("no address to talk to")}
	}
	return c, nil
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", &UsageError{fmt.Errorf("read token file: %w", err)}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", &UsageError{fmt.Errorf("read token file %s: others can read it (mode %04o); run: chmod 600 %s", path, info.Mode().Perm(), path)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", &UsageError{fmt.Errorf("read token file: %w", err)}
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \n\t") {
		return "", &UsageError{fmt.Errorf("read token file %s: must hold one token", path)}
	}
	return token, nil
}

func (c *Client) base(addr string) (base, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     c.tls,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns:        4,
		IdleConnTimeout:     time.Minute,
	}
	b := base{shown: addr, http: &http.Client{
		Transport: transport,
		// The API never redirects; following one would hand the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok || strings.HasPrefix(addr, "/") {
		path = strings.TrimPrefix(path, "//")
		b.url, b.socket = "http://quorate.local", path
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		return b, nil
	}
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return base{}, &UsageError{fmt.Errorf("address must be HOST:PORT, a URL or unix:PATH, is %q", b.shown)}
	}
	b.url = u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return b, nil
}

// Meta is what the headers of an answer say of it.
type Meta struct {
	Addr     string // that answered
	Node     string
	Leader   string // empty: none known
	Revision uint64
	Index    uint64
	AsOf     time.Time
	Stale    bool // the node hears no leader: read only, and as old as AsOf
	ETag     string
	Request  string // idempotency key of a write
	Status   int
}

// Result is a decoded answer.
type Result[T any] struct {
	apitype.Envelope[T]
	Meta Meta            `json:"-"`
	Raw  json.RawMessage `json:"-"` // the envelope as it was sent, for -o json
}

// Request is a call by hand; the methods of Client make it for the usual ones.
type Request struct {
	Method string
	Path   string // below /v1, such as "/status"
	Query  url.Values
	Body   any    // encoded as JSON; nil: none
	Key    string // idempotency key of a write; empty: a fresh one

	IfMatch string
}

// Do sends a request and decodes the envelope. Its error is a *ProblemError, a
// *UnreachableError or a *UsageError; ExitCode knows them.
func Do[T any](ctx context.Context, c *Client, r Request) (*Result[T], error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, shown, err := c.send(ctx, r, "application/json")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.lost(r, shown, err)
	}
	out := &Result[T]{Meta: meta(resp, shown), Raw: data}
	if err := json.Unmarshal(data, &out.Envelope); err != nil {
		return nil, fmt.Errorf("%s answered with something that is not quorate's API: %w", shown, err)
	}
	return out, nil
}

// First returns the first item, or an error when there is none.
func (r *Result[T]) First() (T, error) {
	var zero T
	if len(r.Items) == 0 {
		return zero, fmt.Errorf("the answer of %s holds no %s", r.Meta.Addr, r.Kind)
	}
	return r.Items[0], nil
}

func meta(resp *http.Response, addr string) Meta {
	h := resp.Header
	num := func(name string) uint64 {
		n, _ := strconv.ParseUint(h.Get(name), 10, 64) // absent: zero
		return n
	}
	asOf, _ := time.Parse(time.RFC3339Nano, h.Get(apitype.HeaderAsOf)) // absent: zero
	return Meta{
		Addr: addr, Node: h.Get(apitype.HeaderNode), Leader: h.Get(apitype.HeaderLeader),
		Revision: num(apitype.HeaderRevision), Index: num(apitype.HeaderIndex), AsOf: asOf,
		Stale: h.Get(apitype.HeaderStale) == "true", ETag: h.Get("ETag"),
		Request: h.Get(apitype.HeaderIdempotency), Status: resp.StatusCode,
	}
}

// send tries the addresses in order. A read goes on after any failure to get an
// answer; a write only when it certainly reached nobody, unless it carries a key
// that makes a second try safe, which it always does.
func (c *Client) send(ctx context.Context, r Request, accept string) (*http.Response, string, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return nil, "", fmt.Errorf("encode the request: %w", err)
		}
	}
	write := r.Method != http.MethodGet
	if write && r.Key == "" {
		r.Key = NewKey()
	}
	var tried []error
	sent := false
	for _, b := range c.bases {
		resp, err := c.try(ctx, b, r, body, accept)
		if err != nil {
			sent = sent || !isDial(err)
			tried = append(tried, fmt.Errorf("%s: %w", b.shown, plain(err)))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if resp.StatusCode < 300 {
			return resp, b.shown, nil
		}
		p := readProblem(resp, b.shown)
		_ = resp.Body.Close()
		return nil, b.shown, p
	}
	err := &UnreachableError{Tried: tried, Timeout: ctx.Err() != nil}
	if write && sent {
		err.Unknown, err.Request = true, r.Key
	}
	return nil, "", err
}

func (c *Client) try(ctx context.Context, b base, r Request, body []byte, accept string) (*http.Response, error) {
	u := b.url + "/v1" + r.Path
	if len(r.Query) > 0 {
		u += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "quorate-client")
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.Key != "" {
		req.Header.Set(apitype.HeaderIdempotency, r.Key)
	}
	if r.IfMatch != "" {
		req.Header.Set("If-Match", r.IfMatch)
	}
	return b.http.Do(req)
}

// lost is an answer that broke off. The write was done or refused: which, only
// asking again tells.
func (c *Client) lost(r Request, shown string, err error) error {
	return &UnreachableError{
		Tried:   []error{fmt.Errorf("%s: the answer broke off: %w", shown, err)},
		Unknown: r.Method != http.MethodGet, Request: r.Key,
	}
}

// NewKey returns an idempotency key with its time in it, so that a retry after
// the installation forgot it is refused instead of done twice.
func NewKey() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand panics instead
	return "q" + strconv.FormatInt(time.Now().Unix(), 10) + "-" + hex.EncodeToString(b[:])
}

// Close drops idle connections.
func (c *Client) Close() {
	for _, b := range c.bases {
		b.http.CloseIdleConnections()
	}
}
