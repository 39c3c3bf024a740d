package config

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// setElsewhere are headers that a request makes itself, by the key that says them.
var setElsewhere = map[string]string{"Host": "host", "Content-Length": "", "Transfer-Encoding": "", "Trailer": ""}

func (b *specBuilder) request(v *value, s *scope, secure bool) *statestore.HTTPCheck {
	h := &statestore.HTTPCheck{
		Port: get[int](v, "port"), Method: get[string](v, "method"), Path: get[string](v, "path"),
		Headers: stringMap(v.child("headers")), Reuse: get[bool](v, "reuse"), Host: b.host(v.child("host"), s),
		Warn: degraded(v.child("warn")),
	}
	expect := v.child("expect")
	h.Expect = statestore.HTTPExpect{
		Status: list[statestore.StatusRange](expect, "status"), BodyRegex: get[string](expect, "body_regex"),
		Header: stringMap(expect.child("header")), JSON: b.scalars(expect.child("json")),
		MaxLatency: get[statestore.Duration](expect, "max_latency"), MaxBody: int(get[int64](expect, "max_body")),
	}
	b.once(expect.child("status"))
	b.headers(v.child("headers"), true)
	b.headers(expect.child("header"), false)
	if h.Method == http.MethodHead {
		for _, key := range []string{"body_regex", "json", "max_body"} {
			if expect.set(key) {
				b.c.errorf(expect.keyAt[key], join(expect.path, key), "must not stand next to method HEAD, which never gets a body")
			}
		}
	}
	if h.Host == "" {
		h.Host = s.own(secure)
	}
	if secure {
		h.TLS = b.verified(v.child("tls"), s)
	}
	return h
}

// own is the host of a check that names none: a service's where the client would
// send its name, a cluster's hostname always.
func (s *scope) own(secure bool) string {
	switch {
	case s.front:
		return s.host
	case secure:
		return expand("{service}.{zone}", s)
	default:
		return ""
	}
}

// headers refuses a name that stands twice in other letters, and one sent that the
// request would replace.
func (b *specBuilder) headers(v *value, sent bool) {
	if v == nil {
		return
	}
	seen := map[string]string{}
	for _, name := range v.keys {
		canonical := http.CanonicalHeaderKey(name)
		instead, taken := setElsewhere[canonical]
		switch other, twice := seen[canonical]; {
		case sent && taken && instead != "":
			b.keyErrorf(v, name, "must not be set here, is what %s is for", instead)
		case sent && taken:
			b.keyErrorf(v, name, "must not be set here, is what the request says itself")
		case twice:
			b.keyErrorf(v, name, "must be set once, is the same header as %s", other)
		}
		seen[canonical] = name
	}
}

// scalars returns what JSON must hold, as JSON writes it.
func (b *specBuilder) scalars(v *value) map[string]string {
	if v == nil || len(v.keys) == 0 {
		return nil
	}
	out := make(map[string]string, len(v.keys))
	for _, path := range v.keys {
		item := v.fields[path]
		text, ok := item.v.(string)
		switch {
		case !ok || item.bad:
		case item.tag == "!!bool":
			out[path] = strings.ToLower(text)
		case item.tag != "!!str" && !json.Valid([]byte(text)):
			b.errorf(item, "must be a number as JSON writes it, or a string in quotes, is %s", text)
		default:
			out[path] = text
		}
	}
	return out
}

func (b *specBuilder) verified(v *value, s *scope) *statestore.TLSCheck {
	t := &statestore.TLSCheck{ServerName: b.host(v.child("server_name"), s), Verify: get[bool](v, "verify"), CA: get[string](v.child("ca"), "secret")}
	if ca := v.child("ca"); t.CA != "" && v.set("verify") && !t.Verify {
		b.errorf(ca, "must not stand next to verify: false, which asks no CA, is %s", quote(t.CA))
	}
	return t
}

func (b *specBuilder) grpc(v *value, s *scope) *statestore.GRPCCheck {
	g := &statestore.GRPCCheck{Port: get[int](v, "port"), Service: get[string](v, "service"), Host: b.host(v.child("host"), s)}
	if v.set("tls") && v.child("tls").fine() {
		g.TLS = b.verified(v.child("tls"), s)
	}
	if g.Host == "" {
		g.Host = s.own(v.set("tls"))
	}
	return g
}

func (b *specBuilder) query(v *value, s *scope) *statestore.DNSCheck {
	expect := v.child("expect")
	q := &statestore.DNSCheck{
		Port: get[int](v, "port"), Name: strings.TrimSuffix(strings.ToLower(b.host(v.child("name"), s)), ".") + ".", Type: get[string](v, "type"),
		RCode: get[string](expect, "rcode"), AnswerRegex: get[string](expect, "answer_regex"),
	}
	if at := expect.child("answer_regex"); at.fine() && q.AnswerRegex != "" && expect.child("rcode").fine() && q.RCode != "NOERROR" {
		b.errorf(at, "must stand with rcode NOERROR, which alone has answers, is with %s", q.RCode)
	}
	return q
}

func (b *specBuilder) handshake(v *value, s *scope) *statestore.HandshakeCheck {
	h := &statestore.HandshakeCheck{
		Port: get[int](v, "port"), ServerName: b.host(v.child("server_name"), s), ALPN: list[string](v, "alpn"), Warn: degraded(v.child("warn")),
	}
	b.once(v.child("alpn"))
	if !v.set("server_name") {
		h.ServerName = s.own(true)
	}
	return h
}

func degraded(v *value) statestore.Warn {
	return statestore.Warn{CertExpiresAfter: get[statestore.Duration](v, "cert_expires_after"), MaxLatency: get[statestore.Duration](v, "max_latency")}
}

// latencies checks that slow, bad and timed out come in this order.
func (b *specBuilder) latencies(probe *value, ch *statestore.Check) {
	most, warn := probe.child("expect").child("max_latency"), probe.child("warn").child("max_latency")
	bad, _ := valueOf[statestore.Duration](most)
	slow, _ := valueOf[statestore.Duration](warn)
	if most.fine() && bad > ch.Timeout {
		b.errorf(most, "must be at most the timeout %s, is %s", short(ch.Timeout.D()), most.text)
	}
	switch {
	case !warn.fine():
	case slow >= ch.Timeout:
		b.errorf(warn, "must be below the timeout %s, is %s", short(ch.Timeout.D()), warn.text)
	case most.fine() && slow >= bad:
		b.errorf(warn, "must be below expect.max_latency %s, is %s", short(bad.D()), warn.text)
	}
}

// valueOf returns the scalar of v, or false.
func valueOf[T any](v *value) (T, bool) {
	if v == nil {
		var zero T
		return zero, false
	}
	t, ok := v.v.(T)
	return t, ok
}

// host expands the places in a name; a front door is no service's.
func (b *specBuilder) host(v *value, s *scope) string {
	pattern, ok := valueOf[string](v)
	if !ok {
		return ""
	}
	if s.front {
		if strings.Contains(pattern, "{") && v.fine() {
			b.errorf(v, "must be a plain name in a cluster's own check, is %s", quote(pattern))
		}
		return pattern
	}
	return expand(pattern, s)
}

// expand fills in the service and its zone. A service at the apex is its zone.
func expand(pattern string, s *scope) string {
	if s.name == "@" {
		pattern = strings.ReplaceAll(pattern, "{service}.{zone}", "{zone}")
		pattern = strings.ReplaceAll(pattern, "{service}", s.zone)
	}
	return strings.NewReplacer("{service}", s.name, "{zone}", s.zone).Replace(pattern)
}
