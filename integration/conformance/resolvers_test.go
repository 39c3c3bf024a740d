//go:build conformance

package conformance

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// unbound is a running one.
type unbound struct {
	*process
	w    *world
	conf string
}

// count returns one of its counters.
func (u *unbound) count(t *testing.T, name string) (n int) {
	t.Helper()
	out, err := u.w.command(10*time.Second, "unbound-control", "-c", u.conf, "stats_noreset")
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			n, err = strconv.Atoi(value)
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("unbound has no counter %s:\n%s", name, out)
	return 0
}

// startUnbound resolves at addr: denial used for other names, validation. It asks for
// minimal names and changes their case, or with subnets says who asks (RFC 7871).
func startUnbound(tr *tree, addr string, subnets bool) *unbound {
	t := tr.w.t
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf(`server:
  directory: %q
  chroot: ""
  username: ""
  pidfile: %q
  do-daemonize: no
  use-syslog: no
  qname-minimisation: yes
  qname-minimisation-strict: yes
  verbosity: 3
  extended-statistics: yes
  val-log-level: 2
  num-threads: 1
  interface: %s
  outgoing-interface: %[3]s
  outgoing-interface: %[4]s
  do-ip6: yes
  access-control: 0.0.0.0/0 allow
  root-hints: %[5]q
  trust-anchor-file: %[6]q
  aggressive-nsec: yes
  harden-algo-downgrade: yes
  harden-below-nxdomain: yes
  edns-buffer-size: 1232
`, dir, filepath.Join(dir, "pid"), addr, six(addr), tr.hints, tr.anchor)
	if !subnets {
		conf += "  module-config: \"validator iterator\"\n  use-caps-for-id: yes\n"
	} else {
		conf += "  module-config: \"subnetcache validator iterator\"\n"
		for _, m := range members {
			conf += fmt.Sprintf("  send-client-subnet: %s\n  send-client-subnet: %s\n", m.addr, six(m.addr))
		}
	}
	conf += fmt.Sprintf("remote-control:\n  control-enable: yes\n  control-use-cert: no\n  control-interface: %q\n", filepath.Join(dir, "control"))
	u := &unbound{w: tr.w, conf: file(t, "unbound.conf", conf)}
	u.process = tr.w.start("unbound", "unbound", "-d", "-c", u.conf)
	tr.w.until(u.process, addr, parentZone, dns.TypeSOA)
	return u
}

// startNamed resolves with BIND: minimal names, denial used for other names, validation.
func startNamed(tr *tree) *process {
	t := tr.w.t
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf(`options {
  directory %q;
  pid-file none;
  session-keyfile none;
  lock-file none;
  managed-keys-directory %[1]q;
  listen-on { %s; };
  listen-on-v6 { none; };
  query-source address %[2]s;
  query-source-v6 address %[3]s;
  recursion yes;
  allow-query { any; };
  allow-recursion { any; };
  empty-zones-enable no;
  dnssec-validation yes;
  qname-minimization relaxed;
  synth-from-dnssec yes;
};
controls { };
%[4]s
zone "." { type hint; file %[5]q; };
`, dir, namedAddr, six(namedAddr), trustAnchors(tr.ds), tr.hints)
	p := tr.w.start("named", "named", "-g", "-n", "2", "-c", file(t, "named.conf", conf))
	tr.w.until(p, namedAddr, parentZone, dns.TypeSOA)
	return p
}

// trustAnchors writes DS records of the root as BIND's tools read them.
func trustAnchors(ds []string) string {
	var b strings.Builder
	b.WriteString("trust-anchors {\n")
	for _, text := range ds {
		rr, err := dns.NewRR(text)
		if err != nil {
			panic(fmt.Sprintf("the DS %q was read before: %v", text, err))
		}
		d := rr.(*dns.DS)
		fmt.Fprintf(&b, "  . static-ds %d %d %d \"%s\";\n", d.KeyTag, d.Algorithm, d.DigestType, strings.ToUpper(d.Digest))
	}
	b.WriteString("};\n")
	return b.String()
}
