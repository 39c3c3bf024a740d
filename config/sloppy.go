package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// sloppy warns about a check that says less than people will think it says.
func (b *specBuilder) sloppy(v, probe *value, ch *statestore.Check) {
	b.sloppyTimes(v, ch)
	for _, tls := range []*value{probe.child("tls"), v.child("tls")} {
		if off := tls.child("verify"); off.fine() && off.given && !get[bool](tls, "verify") {
			b.c.warnf(off.at, off.path, "any certificate is taken: whoever answers on the address is believed")
		}
	}
	switch {
	case ch.HTTP != nil:
		b.sloppyResponse(probe, ch.HTTP.Expect)
	case ch.HTTPS != nil:
		b.sloppyResponse(probe, ch.HTTPS.Expect)
	case ch.DNS != nil && matchesAll(ch.DNS.AnswerRegex):
		at := probe.child("expect").child("answer_regex")
		b.c.warnf(at.at, at.path, "%s matches everything: no answer is bad", quote(at.text))
	case ch.ICMP != nil && ch.ICMP.MaxLoss == 1:
		at := probe.child("expect").child("max_loss")
		b.c.warnf(at.at, at.path, "all may be lost: the check cannot fail")
	}
}

func (b *specBuilder) sloppyTimes(v *value, ch *statestore.Check) {
	own, inherited := v.child("timeout"), b.defaults.child("check").child("timeout")
	switch {
	case v.set("timeout"):
		if own.fine() && ch.Timeout == ch.Interval {
			b.c.warnf(own.at, own.path, "as long as the interval: a slow target is probed without a pause")
		}
	case v.set("interval") && v.child("interval").fine() && inherited.fine():
		if d, _ := valueOf[statestore.Duration](inherited); d > ch.Interval {
			at := v.child("interval")
			b.c.warnf(at.at, at.path, "below the timeout %s of defaults.check, which is cut to it; set a timeout", short(d.D()))
		}
	}
}

// sloppyResponse warns when (nearly) every response is good.
func (b *specBuilder) sloppyResponse(probe *value, e statestore.HTTPExpect) {
	expect := probe.child("expect")
	all := matchesAll(e.BodyRegex)
	if at := expect.child("body_regex"); all {
		b.c.warnf(at.at, at.path, "%s matches everything: no body is bad", quote(at.text))
	}
	status := expect.child("status")
	if !status.fine() || !status.given || e.BodyRegex != "" && !all || len(e.JSON)+len(e.Header) > 0 {
		return
	}
	switch {
	case takes(e.Status, 100, 599):
		b.c.warnf(status.at, status.path, "every status is good, and any body: only a connection that fails is bad")
	case takes(e.Status, 404, 404):
		b.c.warnf(status.at, status.path, "404 is good, and any body: a server that does not know the service passes too")
	}
}

// takes reports whether every status from low to high is in ranges.
func takes(ranges []statestore.StatusRange, low, high int) bool {
	for code := low; code <= high; code++ {
		if !slices.ContainsFunc(ranges, func(r statestore.StatusRange) bool { return r.Low <= code && code <= r.High }) {
			return false
		}
	}
	return true
}

// longestLoose is the longest expression that is tried: longer ones mean something,
// and may take long to compile.
const longestLoose = 64

// matchesAll reports whether an expression matches nothing at all and an odd text
// alike, which one that means anything does not.
func matchesAll(expr string) bool {
	if expr == "" || len(expr) > longestLoose {
		return false
	}
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString("") && re.MatchString("\x01~\n\x02")
}

// weakness says why a check tells little about the service, or "".
func weakness(c *statestore.Check) string {
	anything := func(h *statestore.HTTPCheck) bool {
		return h.Expect.BodyRegex == "" && len(h.Expect.JSON)+len(h.Expect.Header) == 0
	}
	switch {
	case c.ICMP != nil:
		return "only pings"
	case c.TCP != nil && c.TCP.Expect == "":
		return "only connects"
	case c.HTTP != nil && anything(c.HTTP) && takes(c.HTTP.Expect.Status, 404, 404):
		return "takes nearly any response"
	case c.HTTPS != nil && anything(c.HTTPS) && (takes(c.HTTPS.Expect.Status, 404, 404) || !c.HTTPS.TLS.Verify):
		return "takes nearly any server"
	case c.GRPC != nil && c.GRPC.TLS != nil && !c.GRPC.TLS.Verify:
		return "takes any server"
	}
	return ""
}

// sloppyService warns when all that is asked of a service's endpoints says little.
// A stateful one is moved by it.
func (b *specBuilder) sloppyService(s *statestore.Service, v *value) {
	stateful := v.set("stateful")
	own := slices.Concat(s.Checks.All, s.Checks.Any)
	at := v
	for _, key := range []string{"check", "checks"} {
		if v.set(key) {
			at = v.child(key)
		}
	}
	if at.bad {
		return
	}
	if stateful && !v.set("check") && !v.set("checks") {
		b.c.warnf(v.at, v.path, "is stateful and has no check of its own: a cluster's front door says little about it")
		return
	}
	var weak []string
	for _, c := range own {
		if why := weakness(c); why != "" && (stateful || c.ICMP != nil) {
			weak = append(weak, c.Name+" "+why)
		}
	}
	if len(own) == 0 || len(weak) < len(own) {
		return
	}
	after := "which a host does that serves nothing"
	if stateful {
		after = "and what is stateful moves on that; check what a client would use"
	}
	b.c.warnf(at.at, at.path, "%s, %s", strings.Join(weak, ", "), after)
}
