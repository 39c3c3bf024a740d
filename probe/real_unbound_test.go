//go:build integration

package probe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestRealUnbound(t *testing.T) {
	path := program(t, "unbound")
	port := freePort(t)
	// unbound asks it in vain, and says SERVFAIL itself.
	broken := serveDNS(t, func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNotImplemented))
	})
	var long strings.Builder
	for i := range 200 {
		fmt.Fprintf(&long, "  local-data: \"long.probe.test. 60 IN A 198.51.100.%d\"\n", i)
	}
	conf := file(t, "unbound.conf", fmt.Appendf(nil, `
server:
  interface: 127.0.0.1
  port: %d
  do-daemonize: no
  use-syslog: no
  chroot: ""
  username: ""
  pidfile: ""
  directory: "%s"
  module-config: "iterator"
  do-not-query-localhost: no
  access-control: 127.0.0.0/8 allow
  local-zone: "test." nodefault
  local-zone: "probe.test." static
  local-data: "good.probe.test. 60 IN A 192.0.2.7"
  local-data: "good.probe.test. 60 IN TXT 'ready'"
%s  local-zone: "closed.test." always_refuse
forward-zone:
  name: "broken.test."
  forward-addr: 127.0.0.1@%d
remote-control:
  control-enable: no
`, port, t.TempDir(), long.String(), broken))
	start(t, port, path, "-c", conf)

	check := func(name, qtype, rcode, re string) Check {
		return Check{DNS: &DNSCheck{Port: port, Name: name, Type: qtype, RCode: rcode, AnswerRegex: re}}
	}
	at := func(port int) Check { return Check{DNS: &DNSCheck{Port: port, Name: "good.probe.test.", Type: "A"}} }
	runReal(t, localProber(nil), []realCase{
		{"an answer", check("good.probe.test.", "A", "NOERROR", `^192\.0\.2\.`), ReasonOK, "", ""},
		{"another type", check("good.probe.test.", "TXT", "NOERROR", "ready"), ReasonOK, "", ""},
		{"another answer", check("good.probe.test.", "A", "NOERROR", `^198\.`), ReasonBody, "A 192.0.2.7", ""},
		{"no data", check("good.probe.test.", "AAAA", "NOERROR", "."), ReasonBody, "NOERROR without answers", ""},
		{"a truncated answer", check("long.probe.test.", "A", "NOERROR", `198\.51\.100\.199`), ReasonOK, "", ""},
		{"NXDOMAIN", check("none.probe.test.", "A", "NOERROR", ""), ReasonStatus, "rcode NXDOMAIN", ""},
		{"NXDOMAIN that is wanted", check("none.probe.test.", "A", "NXDOMAIN", ""), ReasonOK, "", ""},
		{"SERVFAIL", check("a.broken.test.", "A", "NOERROR", ""), ReasonStatus, "rcode SERVFAIL", ""},
		{"REFUSED", check("a.closed.test.", "A", "NOERROR", ""), ReasonStatus, "rcode REFUSED", ""},
		{"nobody listens", at(freePort(t)), ReasonRefused, "refused", ""},
		{"nobody answers", at(blackhole(t)), ReasonTimeout, "", ""},
	})
}
