package config

import (
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

// checkKinds are the keys of a check that say how it probes.
var checkKinds = []string{"http", "https", "tcp", "grpc", "dns", "tls", "icmp"}

// scope is what a check is made for: a service, or a cluster's front door.
type scope struct {
	name, zone string // first name, and zone without the trailing dot
	quorum     *value

	front bool
	host  string // of a front door: the cluster's hostname, or ""
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

// check builds a check, or reports what is wrong with it and returns nil.
func (b *specBuilder) check(v *value, name string, s *scope) *statestore.Check {
	t := b.timing(v)
	ch := &statestore.Check{
		Name: name, Interval: t.interval, Timeout: t.timeout, Fall: t.fall, Rise: t.rise, Recheck: t.recheck,
		StaleAfter: b.staleAfter(s.quorum).of(t.interval),
	}
	if own := get[string](v, "name"); own != "" {
		ch.Name = own
	}
	// An observer must not count itself stale between two probes.
	if least := t.interval + t.timeout; ch.StaleAfter < least {
		at := givenAt("stale_after", s.quorum, b.defaults.child("quorum"))
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
		ch.TCP = &statestore.TCPCheck{Port: get[int](probe, "port"), Send: get[string](probe, "send"), Expect: get[string](probe, "expect")}
	case "grpc":
		ch.GRPC = b.grpc(probe, s)
	case "dns":
		ch.DNS = b.query(probe, s)
	case "tls":
		ch.TLS = b.handshake(probe, s)
	case "icmp":
		ch.ICMP = &statestore.ICMPCheck{Count: get[int](probe, "count"), MaxLoss: get[float64](probe.child("expect"), "max_loss")}
	}
	b.latencies(probe, ch)
	b.sloppy(v, probe, ch)
	return ch
}

func (b *specBuilder) staleAfter(quorum *value) staleness {
	s := pick[staleness]("stale_after", quorum, b.defaults.child("quorum"))
	if s == (staleness{}) {
		s.times = 3 // was reported
	}
	return s
}

// detection is about the longest time from a failure to this observer's vote.
func detection(c *statestore.Check) time.Duration {
	return c.Interval.D() + time.Duration(c.Fall-1)*c.Recheck.D() + c.Timeout.D()
}
