//go:build conformance

package conformance

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// delv validates each answer itself; the resolver only fetches.
func (in *installation) delv(t *testing.T) {
	anchors := file(t, "anchors", trustAnchors(in.tr.ds))
	asked, secure := 0, 0
	for _, z := range in.tr.zones {
		for _, e := range []expectation{
			{name: "@", typ: dns.TypeSOA},
			{name: "@", typ: dns.TypeNS},
			{name: "@", typ: dns.TypeDNSKEY},
			{name: "www", typ: dns.TypeA},
			{name: "web", typ: dns.TypeAAAA},
			{name: "chain", typ: dns.TypeA},
			{name: "big", typ: dns.TypeTXT},
			{name: "delv.wild", typ: dns.TypeA},
			{name: "www.secure", typ: dns.TypeA},
			{name: "www", typ: dns.TypeMX, records: -1},
			{name: "delv.wild", typ: dns.TypeMX, records: -1},
			{name: "ent", typ: dns.TypeA, records: -1},
			{name: "delv-not-there", typ: dns.TypeA, records: -1},
		} {
			if e.typ == dns.TypeDNSKEY && !z.signed() {
				continue
			}
			asked++
			name, typ := full(e.name, z), dns.Type(e.typ).String()
			out, err := in.w.command(patience, "delv", "@"+unboundAddr, "-a", anchors, "+root=.", name, typ)
			require.NoError(t, err)
			want := "; unsigned answer"
			if z.signed() {
				want = "; fully validated"
			}
			if e.records < 0 {
				want = "; negative response, " + strings.TrimPrefix(want, "; ")
			}
			if z.signed() {
				secure++
			}
			require.Containsf(t, out, want, "delv %s %s", name, typ)
		}
	}
	summary.add("delv: %d answers, %d fully validated, 0 wrong", asked, secure)
}

// graphvizRelease mends Debian's packages: dnsviz asks pygraphviz for its version in a
// place where this one has none.
const graphvizRelease = `import types, pygraphviz
pygraphviz.release = types.SimpleNamespace(version=pygraphviz.__version__)
`

// dnsviz asks the nodes themselves, from the root down, and weighs all they say.
func (in *installation) dnsviz(t *testing.T) {
	dir := t.TempDir()
	probed, anchors := filepath.Join(dir, "probed"), filepath.Join(dir, "root.key")
	write(t, anchors, rootKeys(t, in))
	args := []string{"dnsviz", "probe", "-A", "-a", ".", "-x", fmt.Sprintf(".:ns.root=%s,ns.root=[%s]", rootAddr, six(rootAddr)), "-t", "4", "-o", probed}
	for _, z := range in.tr.zones {
		args = append(args, strings.TrimSuffix(z.name, "."))
	}
	_, err := in.w.command(2*time.Minute, args...)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "sitecustomize.py"), graphvizRelease)
	out, err := in.w.command(time.Minute, "env", "PYTHONPATH="+dir, "dnsviz", "grok", "-r", probed, "-t", anchors, "-l", "warning")
	require.NoError(t, err)
	require.Empty(t, strings.TrimSpace(out), "dnsviz warns of something")
	out, err = in.w.command(time.Minute, "env", "PYTHONPATH="+dir, "dnsviz", "print", "-r", probed, "-t", anchors)
	require.NoError(t, err)
	for _, z := range in.tr.zones {
		if z.signed() { // the zone and its delegation are secure
			require.Contains(t, out, "\n"+strings.TrimSuffix(z.name, ".")+" [.] [.]\n")
		}
	}
	signatures := strings.Count(out, "RRSIG:")
	require.Greater(t, signatures, 40, "dnsviz looked at everything:\n%s", out)
	summary.add("dnsviz: %d zones from our root, %d signatures, 0 errors, 0 warnings", len(in.tr.zones), signatures)
}

// rootKeys asks the root for its keys, as trusted keys are written.
func rootKeys(t *testing.T, in *installation) string {
	t.Helper()
	reply, err := in.w.resolves(clientAddr, rootAddr, ".", dns.TypeDNSKEY)
	require.NoError(t, err)
	var keys []string
	for _, rr := range reply.Answer {
		if key, ok := rr.(*dns.DNSKEY); ok && key.Flags&dns.SEP != 0 {
			keys = append(keys, key.String())
		}
	}
	require.NotEmpty(t, keys)
	return strings.Join(keys, "\n") + "\n"
}

// acceptedWarnings are those of zonemaster that docs/conformance.md gives a reason for.
var acceptedWarnings = map[string]bool{"NAMESERVER_IP_WITHOUT_REVERSE": true}

// zonemaster runs its own tests against each zone.
func (in *installation) zonemaster(t *testing.T) {
	said := regexp.MustCompile(`^\s*[\d.]+\s+(CRITICAL|ERROR|WARNING|NOTICE|INFO)\s+\S+\s+(\S+)`)
	messages, warnings := 0, 0
	for _, z := range in.tr.zones {
		args := []string{"zonemaster-cli", "--hints", in.tr.hints, "--level", "INFO", "--raw", "--show-module", "--no-progress"}
		for _, module := range []string{"Basic", "Address", "Consistency", "DNSSEC", "Delegation", "Nameserver", "Syntax", "Zone"} {
			args = append(args, "--test", module)
		}
		out, err := in.w.command(3*time.Minute, append(args, strings.TrimSuffix(z.name, "."))...)
		require.NoError(t, err)
		before := messages
		for line := range strings.Lines(out) {
			m := said.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			messages++
			switch {
			case m[1] == "INFO" || m[1] == "NOTICE":
			case m[1] == "WARNING" && acceptedWarnings[m[2]]:
				warnings++
			default:
				t.Errorf("%s: %s", z.name, strings.Join(strings.Fields(line), " "))
			}
		}
		require.Greater(t, messages-before, 60, "%s: zonemaster looked at everything:\n%s", z.name, out)
	}
	summary.add("zonemaster: %d zones, %d findings, 0 errors, %d accepted warnings", len(in.tr.zones), messages, warnings)
}
