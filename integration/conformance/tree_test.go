//go:build conformance

package conformance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// parentZone is above the zones that quorate serves.
const parentZone = "example."

// served is a zone that quorate serves.
type served struct {
	name      string
	algorithm string // of DNSSEC, as in the spec; empty: unsigned
	denial    string
	dir       string // holds its keys
	ksk, zsk  string // files of the private keys
	ds        []string
	secure    []string // DS records of the signed zone below it
}

// servedZones are one zone unsigned, and one for each algorithm and way of denial.
var servedZones = []served{
	{name: "plain.example."},
	{name: "p256-compact.example.", algorithm: "ecdsap256sha256", denial: "compact"},
	{name: "p256-nsec.example.", algorithm: "ecdsap256sha256", denial: "nsec"},
	{name: "ed25519-compact.example.", algorithm: "ed25519", denial: "compact"},
	{name: "ed25519-nsec.example.", algorithm: "ed25519", denial: "nsec"},
}

func (z served) signed() bool { return z.algorithm != "" }

// label names the zone in files and services.
func (z served) label() string { return strings.TrimSuffix(z.name, "."+parentZone) }

// tree is what stands above the zones, and below them.
type tree struct {
	w      *world
	zones  []served
	hints  string   // file: where the root is
	anchor string   // file: the root's DS, as a record
	ds     []string // of the root
}

// newTree makes the keys of all zones, and serves a signed root, a signed parent with
// DS records of the signed zones, and two zones below each of them.
func newTree(w *world) *tree {
	t := w.t
	t.Helper()
	tr := &tree{w: w}
	var below strings.Builder
	for _, z := range servedZones {
		if z.signed() {
			z.dir = t.TempDir()
			z.ksk, z.zsk = keygen(t, z.dir, z.algorithm, z.name, true), keygen(t, z.dir, z.algorithm, z.name, false)
			z.ds = dsOf(t, z.ksk)
		}
		tr.zones = append(tr.zones, z)
		delegate(&below, z.name, z.ds, nodeNames(z.name))
	}
	ds := tr.serve(parentZone, parentAddr, below.String())

	below.Reset()
	delegate(&below, parentZone, ds, map[string]string{"ns." + parentZone: parentAddr})
	tr.ds = tr.serve(".", rootAddr, below.String())
	tr.hints = file(t, "root.hints", fmt.Sprintf(". 3600000 NS ns.root.\nns.root. 3600000 A %s\nns.root. 3600000 AAAA %s\n", rootAddr, six(rootAddr)))
	tr.anchor = file(t, "root.ds", strings.Join(tr.ds, "\n")+"\n")
	tr.below()
	return tr
}

// delegate writes the records of a cut.
func delegate(b *strings.Builder, zone string, ds []string, hosts map[string]string) {
	for host, addr := range hosts {
		fmt.Fprintf(b, "%s 300 NS %s\n%s 300 A %s\n%s 300 AAAA %s\n", zone, host, host, addr, host, six(addr))
	}
	for _, rr := range ds {
		fmt.Fprintln(b, rr)
	}
}

// serve signs a zone with keys of its own and serves it by NSD. It returns its DS.
func (tr *tree) serve(zone, addr, records string) (ds []string) {
	t := tr.w.t
	t.Helper()
	dir := t.TempDir()
	ds = sign(t, dir, zone, addr, records)
	tr.nsd(dir, addr, zone)
	return ds
}

// nsd serves zones from the files in dir that are called as they are.
func (tr *tree) nsd(dir, addr string, zones ...string) {
	t := tr.w.t
	t.Helper()
	conf := nsdConf(dir, addr, six(addr))
	for _, zone := range zones {
		conf += fmt.Sprintf("zone:\n  name: %q\n  zonefile: %q\n", zone, zone+"zone")
	}
	p := tr.w.start("nsd at "+addr, "nsd", "-d", "-c", file(t, "nsd.conf", conf))
	tr.w.until(p, addr, zones[len(zones)-1], dns.TypeSOA)
}

// below serves two zones below each of those that quorate serves: one that is not
// signed, and one that is and whose DS quorate has.
func (tr *tree) below() {
	t := tr.w.t
	t.Helper()
	dir := t.TempDir()
	var zones []string
	for i := range tr.zones {
		z := &tr.zones[i]
		sub, secure := "sub."+z.name, "secure."+z.name
		zones = append(zones, sub, secure)
		write(t, filepath.Join(dir, sub+"zone"), zoneText(sub, childAddr, fmt.Sprintf("www.%s A 53.0.1.10\n", sub)))
		z.secure = sign(t, dir, secure, childAddr, fmt.Sprintf("www.%s A 53.0.1.11\n", secure))
	}
	tr.nsd(dir, childAddr, zones...)
}

// zoneText is a zone with one name server, ns.ZONE.
func zoneText(zone, addr, records string) string {
	ns := "ns." + zone
	if zone == "." {
		ns = "ns.root."
	}
	return fmt.Sprintf("$TTL 300\n%s SOA %s hostmaster.%s 1 3600 900 604800 30\n%[1]s NS %[2]s\n%[2]s A %[4]s\n%[2]s AAAA %[5]s\n%[6]s",
		zone, ns, strings.TrimPrefix(zone, "."), addr, six(addr), records)
}

// sign signs a zone and writes it into dir.
func sign(t *testing.T, dir, zone, addr, records string) (ds []string) {
	t.Helper()
	unsigned := file(t, "zone", zoneText(zone, addr, records))
	ksk := keygen(t, dir, "ecdsap256sha256", zone, true)
	keygen(t, dir, "ecdsap256sha256", zone, false)
	run(t, "dnssec-signzone", "-S", "-K", dir, "-d", dir, "-o", zone, "-f", filepath.Join(dir, zone+"zone"), unsigned)
	return dsOf(t, ksk)
}

// keygen makes a key and returns the file of its private part.
func keygen(t *testing.T, dir, algorithm, zone string, ksk bool) string {
	t.Helper()
	args := []string{"-q", "-K", dir, "-a", algorithm}
	if ksk {
		args = append(args, "-f", "KSK")
	}
	name := strings.TrimSpace(run(t, "dnssec-keygen", append(args, zone)...))
	return filepath.Join(dir, name+".private")
}

// dsOf returns the DS records of a key.
func dsOf(t *testing.T, private string) []string {
	t.Helper()
	out := run(t, "dnssec-dsfromkey", "-2", strings.TrimSuffix(private, ".private")+".key")
	var list []string
	for line := range strings.Lines(out) {
		rr, err := dns.NewRR(strings.TrimSpace(line))
		require.NoError(t, err)
		rr.Header().Ttl = 300
		list = append(list, rr.String())
	}
	require.NotEmpty(t, list)
	return list
}
