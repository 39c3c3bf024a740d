//go:build conformance

package conformance

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// kind is one record type and how to draw its data.
type kind struct {
	typ  uint16
	draw func(*generator) string
}

// common is how many of kinds, from the start, are drawn half of the time.
const common = 8

// kinds are all types that static data may have, known ones and unknown ones.
var kinds = []kind{
	{dns.TypeA, ipv4},
	{dns.TypeAAAA, ipv6},
	{dns.TypeTXT, texts},
	{dns.TypeMX, func(g *generator) string { return fmt.Sprintf("%d %s", g.IntN(100), host(g)) }},
	{dns.TypeSRV, func(g *generator) string {
		return fmt.Sprintf("%d %d %d %s", g.IntN(10), g.IntN(100), g.IntN(65536), host(g))
	}},
	{dns.TypeCAA, func(g *generator) string { return fmt.Sprintf(`%d issue "ca%d.example"`, g.IntN(2)*128, g.IntN(9)) }},
	{dns.TypePTR, host},
	{dns.TypeHTTPS, service},

	{dns.TypeSVCB, service},
	{dns.TypeNAPTR, func(g *generator) string {
		return fmt.Sprintf(`%d %d "s" "SIP+D2U" "" %s`, g.IntN(100), g.IntN(100), host(g))
	}},
	{dns.TypeHINFO, func(g *generator) string { return fmt.Sprintf(`"cpu%d" "os"`, g.IntN(99)) }},
	{dns.TypeRP, func(g *generator) string { return host(g) + " " + host(g) }},
	{dns.TypeAFSDB, func(g *generator) string { return fmt.Sprintf("%d %s", 1+g.IntN(2), host(g)) }},
	{dns.TypeKX, func(g *generator) string { return fmt.Sprintf("%d %s", g.IntN(100), host(g)) }},
	{dns.TypeRT, func(g *generator) string { return fmt.Sprintf("%d %s", g.IntN(100), host(g)) }},
	{dns.TypePX, func(g *generator) string { return fmt.Sprintf("%d %s %s", g.IntN(100), host(g), host(g)) }},
	{dns.TypeMINFO, func(g *generator) string { return host(g) + " " + host(g) }},
	{dns.TypeLOC, func(g *generator) string {
		return fmt.Sprintf("%d %d 30.000 N %d 10 0.000 W 10.00m 1m 10000m 10m", g.IntN(80), g.IntN(60), g.IntN(170))
	}},
	{dns.TypeSSHFP, func(g *generator) string { return fmt.Sprintf("%d 2 %s", 1+g.IntN(4), hexes(g, 32)) }},
	{dns.TypeTLSA, func(g *generator) string { return fmt.Sprintf("3 1 1 %s", hexes(g, 32)) }},
	{dns.TypeSMIMEA, func(g *generator) string { return fmt.Sprintf("3 0 1 %s", hexes(g, 32)) }},
	{dns.TypeCERT, func(g *generator) string { return fmt.Sprintf("1 %d 8 AQIDBAUG", g.IntN(65536)) }},
	{dns.TypeOPENPGPKEY, func(g *generator) string { return "mQENBFcpw2wBCADWmkWoBZ2" + strings.Repeat("A", 4*g.IntN(3)) + "A" }},
	{dns.TypeDHCID, func(*generator) string { return "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=" }},
	{dns.TypeURI, func(g *generator) string { return fmt.Sprintf(`%d 1 "https://h%d.example/"`, g.IntN(10), g.IntN(10)) }},
	{dns.TypeSPF, texts},
	{dns.TypeEUI48, func(g *generator) string { return dashed(g, 6) }},
	{dns.TypeEUI64, func(g *generator) string { return dashed(g, 8) }},
	{dns.TypeNID, func(g *generator) string { return fmt.Sprintf("%d 0014:4fff:ff20:%04x", g.IntN(99), g.IntN(65536)) }},
	{dns.TypeL32, func(g *generator) string { return fmt.Sprintf("%d %s", g.IntN(99), ipv4(g)) }},
	{dns.TypeL64, func(g *generator) string { return fmt.Sprintf("%d 2001:0db8:1140:%04x", g.IntN(99), g.IntN(65536)) }},
	{dns.TypeLP, func(g *generator) string { return fmt.Sprintf("%d %s", g.IntN(99), host(g)) }},
	{dns.TypeCSYNC, func(g *generator) string { return fmt.Sprintf("%d 3 A NS AAAA", g.IntN(99)) }},
	{dns.TypeX25, func(g *generator) string { return fmt.Sprintf("%08d", g.IntN(99999999)) }},
	{300, opaque},
	{4711, opaque},
	{32770, opaque},
	{65280, opaque},
	{65534, opaque},
}

// ipv4 draws from the networks for documentation.
func ipv4(g *generator) string {
	return netip.AddrFrom4([4]byte{198, 18, byte(g.IntN(256)), byte(g.IntN(256))}).String()
}

func ipv6(g *generator) string {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 12: byte(g.IntN(256)), byte(g.IntN(256)), byte(g.IntN(256)), 1}).String()
}

func hexes(g *generator, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.IntN(256))
	}
	return hex.EncodeToString(b)
}

func dashed(g *generator, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = hexes(g, 1)
	}
	return strings.Join(parts, "-")
}

// texts draws one to three strings, with what must be escaped.
func texts(g *generator) string {
	var parts []string
	for range 1 + g.IntN(3) {
		parts = append(parts, []string{`"v=spf1 -all"`, `"semi;colon"`, `"quo\"te"`, `"\000\255"`, `""`, `"` + hexes(g, g.IntN(120)) + `"`}[g.IntN(6)])
	}
	return strings.Join(parts, " ")
}

// host draws a name for rdata: of the zone, below it, or elsewhere.
func host(g *generator) string {
	switch g.IntN(3) {
	case 0:
		return g.z.name
	case 1:
		return fmt.Sprintf("host%d.provider.example.", g.IntN(5))
	}
	return g.name(labels[g.IntN(4)])
}

// service draws the data of SVCB and HTTPS records: an alias or a service.
func service(g *generator) string {
	if g.IntN(4) == 0 {
		return "0 " + host(g)
	}
	return fmt.Sprintf("%d . alpn=h2 port=%d ipv4hint=%s", 1+g.IntN(9), 1+g.IntN(65535), ipv4(g))
}

// opaque draws data in the form for unknown types (RFC 3597 5).
func opaque(g *generator) string {
	n := g.IntN(20)
	return strings.TrimSpace(fmt.Sprintf(`\# %d %s`, n, hexes(g, n)))
}
