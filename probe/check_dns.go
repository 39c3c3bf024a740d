package probe

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// dnsChecker asks one question over UDP, and over TCP when the answer is truncated.
type dnsChecker struct {
	r      *runner
	addr   string
	query  []byte // with an id of zero
	name   string
	qtype  uint16
	rcode  int
	answer *regexp.Regexp // nil: anything
}

// dnsUDPSize is what is offered for UDP: what passes everywhere unfragmented.
const dnsUDPSize = 1232

func (r *runner) newDNS(check *DNSCheck, endpoint netip.Addr) (checker, error) {
	c := &dnsChecker{r: r, addr: hostPort(endpoint, check.Port), name: dns.Fqdn(check.Name)}
	if _, ok := dns.IsDomainName(c.name); !ok || check.Name == "" {
		return nil, fmt.Errorf("name: must be a domain name, is %q", check.Name)
	}
	var ok bool
	if c.qtype, ok = dns.StringToType[strings.ToUpper(check.Type)]; !ok {
		return nil, fmt.Errorf("type: must be a record type such as A, is %q", check.Type)
	}
	if c.rcode, ok = dns.StringToRcode[strings.ToUpper(cmp.Or(check.RCode, "NOERROR"))]; !ok {
		return nil, fmt.Errorf("rcode: must be a response code such as NOERROR, is %q", check.RCode)
	}
	var err error
	if check.AnswerRegex != "" {
		if c.answer, err = regexp.Compile(check.AnswerRegex); err != nil {
			return nil, fmt.Errorf("answer_regex: %w", err)
		}
	}
	var m dns.Msg
	m.SetQuestion(c.name, c.qtype) // asks for recursion, as every stub does
	m.SetEdns0(dnsUDPSize, false)
	m.Id = 0
	if c.query, err = m.Pack(); err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	return c, nil
}

func (c *dnsChecker) run(ctx context.Context, rec *recorder) (seen, error) {
	buf := c.r.borrow()
	defer c.r.giveBack(buf)
	m, _, err := c.exchange(ctx, rec, "udp", buf)
	if err != nil {
		return seen{}, err
	}
	saw := seen{}
	if m.Truncated {
		if m, saw.rtt, err = c.exchange(ctx, rec, "tcp", buf); err != nil {
			return saw, fmt.Errorf("over tcp, since the answer was truncated: %w", err)
		}
	}
	rec.start("match")
	if err := c.judge(m); err != nil {
		return saw, err
	}
	if rec != nil {
		rec.ok(answerText(m))
	}
	return saw, nil
}

// exchange asks over network and returns the response, and how long connecting took.
func (c *dnsChecker) exchange(ctx context.Context, rec *recorder, network string, buf *buffer) (*dns.Msg, time.Duration, error) {
	l, rtt, err := c.r.connect(ctx, rec, network, c.addr)
	if err != nil {
		return nil, 0, err
	}
	defer l.drop()
	rec.start("send")
	// Room for the length that TCP puts first.
	packet := append(binary.BigEndian.AppendUint16(buf.body[:0], uint16(len(c.query))), c.query...)
	id := packet[2:4]
	_, _ = rand.Read(id) // crypto/rand never fails
	if network == "udp" {
		packet = packet[2:]
	}
	if _, err := l.Write(packet); err != nil {
		return nil, rtt, fmt.Errorf("send query: %w", err)
	}
	if rec != nil {
		rec.ok(fmt.Sprintf("%s %s, %d bytes", c.name, dns.TypeToString[c.qtype], len(c.query)))
	}
	rec.start("read")
	wanted := binary.BigEndian.Uint16(id)
	buf.body = slices.Grow(buf.body[:0], maxBody)
	read := c.readDatagram
	if network == "tcp" {
		read = c.readStream
	}
	m, n, err := read(l, buf.body[:maxBody], wanted)
	if err != nil {
		return nil, rtt, fmt.Errorf("read response: %w", err)
	}
	if rec != nil {
		rec.ok(fmt.Sprintf("%d bytes, truncated: %v", n, m.Truncated))
	}
	return m, rtt, nil
}

// readDatagram waits for the response: what is not for this query is a late response
// to another one, or somebody guessing.
func (c *dnsChecker) readDatagram(from io.Reader, b []byte, id uint16) (*dns.Msg, int, error) {
	for {
		n, err := from.Read(b)
		if err != nil {
			return nil, 0, err
		}
		if n >= 2 && binary.BigEndian.Uint16(b) == id {
			m, err := c.parse(b[:n])
			return m, n, err
		}
	}
}

// readStream reads the response of a TCP connection.
func (c *dnsChecker) readStream(from io.Reader, b []byte, id uint16) (*dns.Msg, int, error) {
	if _, err := io.ReadFull(from, b[:2]); err != nil {
		return nil, 0, fmt.Errorf("its length: %w", err)
	}
	b = b[:binary.BigEndian.Uint16(b)]
	if n, err := io.ReadFull(from, b); err != nil {
		return nil, n, fmt.Errorf("after %d of %d bytes: %w", n, len(b), err)
	}
	if len(b) < 2 || binary.BigEndian.Uint16(b) != id {
		return nil, len(b), &badError{ReasonDNS, "it has the id of another query", ""}
	}
	m, err := c.parse(b)
	return m, len(b), err
}

// parse returns the response in b if it is one to the question.
func (c *dnsChecker) parse(b []byte) (*dns.Msg, error) {
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		return nil, &badError{ReasonDNS, fmt.Sprintf("it is no DNS message: %v", err), ""}
	}
	switch {
	case !m.Response:
		return nil, &badError{ReasonDNS, "it is a query, not a response", ""}
	case len(m.Question) == 0 && m.Rcode != dns.RcodeSuccess:
		return m, nil // some servers leave the question out when they refuse it
	case len(m.Question) != 1 || m.Question[0].Qtype != c.qtype || m.Question[0].Qclass != dns.ClassINET ||
		!strings.EqualFold(m.Question[0].Name, c.name):
		return nil, &badError{ReasonDNS, "it answers another question", ""}
	}
	return m, nil
}

// judge returns what is wrong with a response.
func (c *dnsChecker) judge(m *dns.Msg) error {
	if m.Rcode != c.rcode {
		return &badError{ReasonStatus, "rcode " + rcodeText(m.Rcode), "rcode " + rcodeText(c.rcode)}
	}
	if c.answer == nil {
		return nil
	}
	for _, rr := range m.Answer {
		if c.answer.MatchString(rdata(rr)) {
			return nil
		}
	}
	return &badError{ReasonBody, "no answer matches: " + answerText(m), fmt.Sprintf("%.120s", c.answer)}
}

// rdata returns the data of a record in presentation format.
func rdata(rr dns.RR) string { return strings.TrimPrefix(rr.String(), rr.Header().String()) }

// answerText writes the answers for people.
func answerText(m *dns.Msg) string {
	if len(m.Answer) == 0 {
		return rcodeText(m.Rcode) + " without answers"
	}
	var all []string
	for _, rr := range m.Answer {
		all = append(all, dns.TypeToString[rr.Header().Rrtype]+" "+rdata(rr))
	}
	return fmt.Sprintf("%s, %.160s", rcodeText(m.Rcode), strings.Join(all, ", "))
}

func rcodeText(code int) string { return cmp.Or(dns.RcodeToString[code], fmt.Sprint(code)) }

func (c *dnsChecker) close() {}
