//go:build conformance

package conformance

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/miekg/dns"
)

// startUnbound resolves at addr: minimal names, changed case, denial used for other
// names, validation. With subnets it also tells the nodes who asks (RFC 7871).
func startUnbound(tr *tree, addr string, subnets bool) *process {
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
  verbosity: 1
  val-log-level: 2
  num-threads: 1
  interface: %s
  outgoing-interface: %[3]s
  outgoing-interface: %[4]s
  do-ip6: yes
  access-control: 0.0.0.0/0 allow
  root-hints: %[5]q
  trust-anchor-file: %[6]q
  use-caps-for-id: yes
  qname-minimisation: yes
  qname-minimisation-strict: yes
  aggressive-nsec: yes
  harden-algo-downgrade: yes
  harden-below-nxdomain: yes
  harden-referral-path: yes
  edns-buffer-size: 1232
`, dir, filepath.Join(dir, "pid"), addr, six(addr), tr.hints, tr.anchor)
	if subnets {
		conf += "  module-config: \"subnetcache validator iterator\"\n"
		for _, m := range members {
			conf += fmt.Sprintf("  send-client-subnet: %s\n  send-client-subnet: %s\n", m.addr, six(m.addr))
		}
	}
	conf += "remote-control:\n  control-enable: no\n"
	p := tr.w.start("unbound", "unbound", "-d", "-c", file(t, "unbound.conf", conf))
	tr.w.until(p, addr, parentZone, dns.TypeSOA)
	return p
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
