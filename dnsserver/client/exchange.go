package client

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	defaultTimeout = 2 * time.Second
	udpSize        = 1232
)

// Client asks one server over one UDP socket, one question at a time. It is not
// safe for concurrent use.
type Client struct {
	server string
	conn   *net.UDPConn
	buf    []byte
}

// Dial makes a client of server (HOST:PORT, or HOST for port 53). Nothing is sent yet.
func Dial(ctx context.Context, server string) (*Client, error) {
	if _, _, err := net.SplitHostPort(server); err != nil {
		server = net.JoinHostPort(strings.Trim(server, "[]"), "53")
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", server)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", server, plain(err))
	}
	return &Client{server: server, conn: c.(*net.UDPConn), buf: make([]byte, dns.MaxMsgSize)}, nil
}

// Close closes the socket.
func (c *Client) Close() error { return c.conn.Close() }

// Query asks for the records of a type at name. An answer with any code is a
// reply; the error is about not getting one.
func (c *Client) Query(ctx context.Context, name, qtype string, opts Options) (*Reply, error) {
	q, err := question(name, qtype, opts)
	if err != nil {
		return nil, err
	}
	timeout := opts.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	tcp := opts.TCP
	var m *dns.Msg
	if !tcp {
		m, err = c.overUDP(ctx, q)
		tcp = err == nil && m.Truncated
	}
	if err == nil && tcp {
		m, err = c.overTCP(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("query %s for %s %s: %w", c.server, q.Question[0].Name, dns.Type(q.Question[0].Qtype), plain(err))
	}
	r := reply(m)
	r.Server, r.TCP, r.Took = c.server, tcp, time.Since(start)
	return r, nil
}

// typeOf returns the number of a type by its name, or by TYPE and the number (RFC 3597 5).
func typeOf(qtype string) (uint16, bool) {
	if t, ok := dns.StringToType[qtype]; ok {
		return t, true
	}
	digits, ok := strings.CutPrefix(qtype, "TYPE")
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), ok && err == nil
}

func question(name, qtype string, opts Options) (*dns.Msg, error) {
	t, ok := typeOf(strings.ToUpper(qtype))
	if !ok {
		return nil, fmt.Errorf("%w: record type must be one such as A or AAAA, is %q", ErrQuestion, qtype)
	}
	fqdn := dns.Fqdn(name)
	if _, ok := dns.IsDomainName(fqdn); !ok || name == "" {
		return nil, fmt.Errorf("%w: name must be a domain name, is %q", ErrQuestion, name)
	}
	q := new(dns.Msg)
	q.Id = dns.Id()
	q.Question = []dns.Question{{Name: fqdn, Qtype: t, Qclass: dns.ClassINET}}
	if opts.NoEDNS && !opts.NSID && !opts.Subnet.IsValid() {
		return q, nil
	}
	q.SetEdns0(udpSize, false)
	opt := q.IsEdns0()
	if opts.NSID {
		opt.Option = append(opt.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
	}
	if opts.Subnet.IsValid() {
		opt.Option = append(opt.Option, subnetOption(opts.Subnet.Masked()))
	}
	return q, nil
}

// subnetOption asks for clients in p (RFC 7871 6).
func subnetOption(p netip.Prefix) *dns.EDNS0_SUBNET {
	family := uint16(1)
	if p.Addr().Is6() {
		family = 2
	}
	return &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}
}

// overUDP sends the question and waits for its answer; others, late ones among
// them, are passed over.
func (c *Client) overUDP(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	wire, err := q.Pack()
	if err != nil {
		return nil, err
	}
	stop := follow(ctx, c.conn)
	defer stop()
	if _, err := c.conn.Write(wire); err != nil {
		return nil, err
	}
	for {
		n, err := c.conn.Read(c.buf)
		if err != nil {
			return nil, err
		}
		m := new(dns.Msg)
		if m.Unpack(c.buf[:n]) == nil && answers(q, m) {
			return m, nil
		}
	}
}

func (c *Client) overTCP(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	wire, err := q.Pack()
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.server)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing was buffered
	stop := follow(ctx, conn)
	defer stop()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)); err != nil {
		return nil, err
	}
	var prefix [2]byte
	if _, err := io.ReadFull(conn, prefix[:]); err != nil {
		return nil, err
	}
	buf := c.buf[:binary.BigEndian.Uint16(prefix[:])]
	if _, err := io.ReadFull(conn, buf); err != nil {
		return nil, err
	}
	m := new(dns.Msg)
	if err := m.Unpack(buf); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if !answers(q, m) {
		return nil, errors.New("the answer is not to this question")
	}
	return m, nil
}

// follow makes the connection's deadlines follow the context.
func follow(ctx context.Context, conn net.Conn) (stop func()) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // fails only on a closed connection, which the next call reports
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !cancel() {
			<-done // else it could end the next question
		}
	}
}

// answers reports whether m answers q: same id, and the question given back. A
// server that could not read the question may leave it out.
func answers(q, m *dns.Msg) bool {
	if m.Id != q.Id || !m.Response {
		return false
	}
	if len(m.Question) == 0 {
		return m.Rcode != dns.RcodeSuccess
	}
	a, b := q.Question[0], m.Question[0]
	return len(m.Question) == 1 && a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}

func reply(m *dns.Msg) *Reply {
	r := &Reply{Rcode: dns.RcodeToString[m.Rcode], Authoritative: m.Authoritative}
	switch {
	case m.Rcode == dns.RcodeBadVers:
		r.Rcode = "BADVERS" // the library has the TSIG name for 16
	case r.Rcode == "":
		r.Rcode = fmt.Sprintf("RCODE%d", m.Rcode)
	}
	if len(m.Question) == 1 {
		r.Name, r.Type = m.Question[0].Name, dns.Type(m.Question[0].Qtype).String()
	}
	for i, rr := range m.Answer {
		if ttl := time.Duration(rr.Header().Ttl) * time.Second; i == 0 || ttl < r.TTL {
			r.TTL = ttl
		}
		r.Records = append(r.Records, rr.String())
		switch rr := rr.(type) {
		case *dns.A:
			r.add(rr.A)
		case *dns.AAAA:
			r.add(rr.AAAA)
		}
	}
	for _, rr := range m.Ns {
		r.Authority = append(r.Authority, rr.String())
	}
	opt := m.IsEdns0()
	if opt == nil {
		return r
	}
	for _, o := range opt.Option {
		switch o := o.(type) {
		case *dns.EDNS0_NSID:
			if b, err := hex.DecodeString(o.Nsid); err == nil {
				r.NSID = string(b)
			}
		case *dns.EDNS0_EDE:
			r.Stale = r.Stale || o.InfoCode == dns.ExtendedErrorCodeStaleAnswer
		case *dns.EDNS0_SUBNET:
			r.Scope = new(o.SourceScope)
		}
	}
	return r
}

func (r *Reply) add(ip net.IP) {
	if a, ok := netip.AddrFromSlice(ip); ok {
		r.Addresses = append(r.Addresses, a.Unmap())
	}
}

// plain strips what repeats the server's address, and names a timeout.
func plain(err error) error {
	var op *net.OpError
	var call *os.SyscallError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	case errors.As(err, &call):
		return call.Err
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
