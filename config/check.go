package config

import (
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

// checkKinds are the keys of a check that say how it probes.
var checkKinds = []string{"http", "https", "tcp", "grpc", "dns", "tls", "icmp"}

// scope is the service a check is made for; nil for a front door.
type scope struct {
	name, zone string // first name, and zone without the trailing dot
	quorum     *value
}

// checks looks at the named checks by themselves, used or not.
func (b *specBuilder) checks() {
	each(b.root, "checks", func(name string, v *value) {
		b.check(v, name, &scope{name: "x", zone: "x"})
	})
}

// times are a check's own, over the defaults.
type times struct {
	interval, timeout, recheck statestore.Duration
	fall, rise                 int
}

// timing returns the times of a check. What a check inherits adapts to the interval
// it sets itself: a timeout is cut to it, and a recheck is a fifth of it.
func (b *specBuilder) timing(v *value) times {
	d := b.defaults.child("check")
	t := times{
		interval: pick[statestore.Duration]("interval", v, d),
		timeout:  pick[statestore.Duration]("timeout", v, d),
		fall:     pick[int]("fall", v, d),
		rise:     pick[int]("rise", v, d),
	}
	shown := short(t.interval.D())
	if own := v.child("timeout"); v.set("timeout") {
		if own.fine() && t.timeout > t.interval {
			b.errorf(own, "must be at most the interval %s, is %s", shown, own.text)
		}
	} else {
		t.timeout = min(t.timeout, t.interval)
	}
	switch own := v.child("recheck"); {
	case v.set("recheck"):
		t.recheck = get[statestore.Duration](v, "recheck")
		if own.fine() && t.recheck > t.interval {
			b.errorf(own, "must be at most the interval %s, is %s", shown, own.text)
		}
	case !v.set("interval") && d.set("recheck"):
		t.recheck = get[statestore.Duration](d, "recheck")
	default:
		t.recheck = max(t.interval/5, statestore.Duration(shortest))
	}
	return t
}

// check builds a check, or reports what is wrong with it and returns nil. It is nil
// too when the check's kind has no behaviour in this version.
func (b *specBuilder) check(v *value, name string, s *scope) *statestore.Check {
	t := b.timing(v)
	var quorum *value
	if s != nil {
		quorum = s.quorum
	}
	ch := &statestore.Check{
		Name: name, Interval: t.interval, Timeout: t.timeout, Fall: t.fall, Rise: t.rise, Recheck: t.recheck,
		StaleAfter: b.staleAfter(quorum).of(t.interval),
	}
	if own := get[string](v, "name"); own != "" {
		ch.Name = own
	}
	// An observer must not count itself stale between two probes.
	if least := t.interval + t.timeout; ch.StaleAfter < least {
		at := givenAt("stale_after", quorum, b.defaults.child("quorum"))
		if at.fine() {
			b.errorf(at, "must be at least interval + timeout %s of check %s, is %s", short(least.D()), quote(ch.Name), at.text)
		}
	}
	var kinds []string
	for _, k := range checkKinds {
		if v.set(k) {
			kinds = append(kinds, k)
		}
	}
	switch {
	case len(kinds) == 0:
		b.errorf(v, "must have one of %s, is without", strings.Join(checkKinds, ", "))
		return nil
	case len(kinds) > 1:
		b.errorf(v, "must have one of %s, is %s", strings.Join(checkKinds, ", "), strings.Join(kinds, " and "))
		return nil
	}
	probe := v.child(kinds[0])
	if probe.bad {
		return nil
	}
	switch kinds[0] {
	case "http":
		ch.HTTP = b.request(probe, s, false)
	case "https":
		ch.HTTPS = b.request(probe, s, true)
	case "tcp":
		ch.TCP = &statestore.TCPCheck{Port: get[int](probe, "port")}
	default:
		return nil // noted by the walk
	}
	return ch
}

func (b *specBuilder) staleAfter(quorum *value) staleness {
	s := pick[staleness]("stale_after", quorum, b.defaults.child("quorum"))
	if s == (staleness{}) {
		s.times = 3 // was reported
	}
	return s
}

func (b *specBuilder) request(v *value, s *scope, secure bool) *statestore.HTTPCheck {
	h := &statestore.HTTPCheck{
		Port: get[int](v, "port"), Method: get[string](v, "method"), Path: get[string](v, "path"),
		Headers: stringMap(v.child("headers")), Reuse: get[bool](v, "reuse"),
	}
	expect := v.child("expect")
	h.Expect = statestore.HTTPExpect{Status: list[statestore.StatusRange](expect, "status"), BodyRegex: get[string](expect, "body_regex")}
	if hs := v.child("headers"); hs != nil {
		for _, name := range hs.keys {
			if strings.EqualFold(name, "host") {
				b.keyErrorf(hs, name, "must not be set here, is what host is for")
			}
		}
	}
	if secure && s != nil && !v.set("host") {
		h.Host = expand("{service}.{zone}", s)
	} else {
		h.Host = b.host(v.child("host"), s)
	}
	if secure {
		tls := v.child("tls")
		h.TLS = &statestore.TLSCheck{ServerName: b.host(tls.child("server_name"), s), Verify: get[bool](tls, "verify")}
	}
	return h
}

// host expands the places in a host name; a front door is no service's.
func (b *specBuilder) host(v *value, s *scope) string {
	if v == nil {
		return ""
	}
	pattern, _ := v.v.(string)
	if s == nil {
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

// detection is about the longest time from a failure to this observer's vote.
func detection(c *statestore.Check) time.Duration {
	return c.Interval.D() + time.Duration(c.Fall-1)*c.Recheck.D() + c.Timeout.D()
}
