package dnsserver

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/miekg/dns"
)

// legalQueries are what the corpus is made from.
func legalQueries() [][]byte {
	var out [][]byte
	for _, name := range []string{"web.gslb.test.", "WWW.gslb.test.", "gslb.test.", "nope.gslb.test.", "text.gslb.test.", "big.gslb.test.", "example.com.", "."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeNS, dns.TypeTXT, dns.TypeANY, 1000} {
			q := asking(name, qtype, dns.ClassINET)
			out = append(
				out, rawQuery(bitRD, q), rawQuery(0, q, optRecord(1232, 0, flagDO)),
				rawQuery(0, q, optRecord(4096, 0, 0, optionOf(3), optionOf(8, 0, 1, 24, 0, 198, 51, 100), optionOf(10, 1, 2, 3, 4, 5, 6, 7, 8))),
			)
		}
	}
	return out
}

// malformed returns the corpus: the same packets in every run.
func malformed() [][]byte {
	r := rand.New(rand.NewPCG(5, 1035))
	legal := legalQueries()
	pick := func() []byte { return append([]byte(nil), legal[r.IntN(len(legal))]...) }
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	pointer := func(to int) []byte { return []byte{0xc0 | byte(to>>8), byte(to)} }
	var out [][]byte
	add := func(p []byte) { out = append(out, p) }
	for range 800 { // some bits turned
		p := pick()
		for range 1 + r.IntN(8) {
			p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		}
		add(p)
	}
	for range 600 { // a bit after the header turned, where the length and types are
		p := pick()
		p[12+r.IntN(len(p)-12)] ^= 1 << r.IntN(8)
		add(p)
	}
	for range 500 { // octets overwritten by what means something
		p := pick()
		p[r.IntN(len(p))] = []byte{0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff, 41}[r.IntN(8)]
		add(p)
	}
	for _, p := range []int{0, 1, 2, 3, 20, 40, 60, 80, 100, 119} { // cut at every octet
		for n := range legal[p] {
			add(legal[p][:n:n])
		}
	}
	for range 500 { // counts that are wrong
		p := pick()
		at := 4 + 2*r.IntN(4)
		binary.BigEndian.PutUint16(p[at:], []uint16{0, 1, 2, 3, 255, 256, 65535, uint16(r.Uint32())}[r.IntN(8)])
		add(p)
	}
	for range 300 { // header noise
		p := pick()
		copy(p[2:4], noise(2))
		add(p)
	}
	for range 400 { // pointers in the question: to itself, to each other, into the header, forward, after labels
		var name []byte
		for range r.IntN(3) {
			name = append(name, 1, 'a')
		}
		name = append(name, pointer([]int{0, 2, 11, 12, 13, 14, 16, 18, 30, 200, 0x3fff}[r.IntN(11)])...)
		p := rawQuery(0, append(append(name, pointer(12)...), 0, 1, 0, 1))
		add(append(p, noise(r.IntN(20))...))
	}
	for range 400 { // pointers of other records' owners
		p := rawQuery(0, asking("web.gslb.test.", dns.TypeA, dns.ClassINET))
		p[11] = byte(1 + r.IntN(2))
		to := []int{0, 11, 12, 16, 25, len(p), len(p) + 1, len(p) + 2, 300}[r.IntN(9)]
		p = append(p, pointer(to)...)
		p = append(p, 0, byte(41+r.IntN(2)*9), 0x10, 0, 0, 0, 0, 0, 0, 0)
		add(append(p, pointer(len(p)-12+r.IntN(14))...))
	}
	for range 300 { // names too long, labels too long, labels of no known kind
		var name []byte
		for range r.IntN(8) {
			name = append(append(name, 63), noise(63)...)
		}
		n := []int{1, 61, 62, 63, 64, 127, 191}[r.IntN(7)]
		name = append(append(append(name, byte(n)), noise(n)...), 0)
		add(rawQuery(0, append(name, 0, 1, 0, 1), optRecord(1232, 0, 0)))
	}
	for range 100 { // names of 254, 255 and 256 octets
		var name []byte
		for range 3 {
			name = append(append(name, 63), noise(63)...)
		}
		n := 60 + r.IntN(3)
		add(rawQuery(0, append(append(append(append(name, byte(n)), noise(n)...), 0), 0, 1, 0, 1)))
	}
	for range 400 { // OPT records: two, three, elsewhere, not at the root, of other versions
		q := asking("web.gslb.test.", uint16(r.IntN(300)), dns.ClassINET)
		records := [][]byte{optRecord(uint16(r.Uint32()), byte(r.IntN(2)), uint16(r.Uint32()))}
		for range r.IntN(3) {
			o := optRecord(1232, byte(r.IntN(3)), 0)
			if r.IntN(3) == 0 {
				o = append([]byte{1, 'x'}, o...)
			}
			records = append(records, o)
		}
		p := rawQuery(0, q, records...)
		if r.IntN(2) == 0 { // among the answers or authorities
			at := 6 + 2*r.IntN(2)
			p[at+1], p[11] = 1, p[11]-1
		}
		add(p)
	}
	for range 200 { // whole records where a query has none
		p := rawQuery(0, asking("web.gslb.test.", []uint16{dns.TypeA, dns.TypeIXFR}[r.IntN(2)], dns.ClassINET))
		for section := range 3 {
			n := r.IntN(3)
			p[7+2*section] = byte(n)
			for range n {
				p = append(p, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1)
			}
		}
		add(p)
	}
	for range 700 { // options: lengths that lie, cookies and subnets of every shape
		var options [][]byte
		for range 1 + r.IntN(3) {
			code := []uint16{3, 8, 8, 8, 10, 10, 9, 11, 12, 15, 100, 65001}[r.IntN(12)]
			data := noise(r.IntN(44))
			if code == 8 && len(data) > 4 && r.IntN(4) > 0 {
				data[0], data[1], data[2], data[3] = 0, byte(r.IntN(4)), byte(r.IntN(34)), byte(r.IntN(5)/4)
				if n := (int(data[2]) + 7) / 8; r.IntN(3) > 0 && len(data) >= 4+n {
					data = data[:4+n]
				}
			}
			o := optionOf(code, data...)
			if r.IntN(6) == 0 {
				o[3] += byte(r.IntN(5)) - 2
			}
			options = append(options, o)
		}
		var q []byte
		if r.IntN(4) > 0 {
			q = asking("web.gslb.test.", dns.TypeA, dns.ClassINET)
		}
		add(rawQuery(0, q, optRecord(1232, 0, 0, options...)))
	}
	for range 200 { // more questions than one
		q := asking("web.gslb.test.", dns.TypeA, dns.ClassINET)
		n := 2 + r.IntN(10)
		p := rawQuery(0, nil)
		p[5] = byte(n)
		for range n {
			p = append(p, q...)
		}
		add(p)
	}
	for range 300 { // noise, with and without a header
		p := noise(r.IntN(600))
		if len(p) > 12 && r.IntN(2) == 0 {
			copy(p[2:12], []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		}
		add(p)
	}
	for range 100 { // something after the end
		add(append(pick(), noise(r.IntN(100))...))
	}
	return out
}
