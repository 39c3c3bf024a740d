package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// recordPlace is where one static record stands.
type recordPlace struct {
	zone, owner, rtype, data string
	at                       place
	path                     string
}

// CheckRecords calls parse for every static record, in the order of the files, and
// returns what it refuses with its place. The package does not parse rdata itself:
// the DNS library stays with the packages that answer.
func (r *Result) CheckRecords(parse func(zone, owner, rtype, data string) error) []FieldError {
	if len(r.records) == 0 {
		return nil
	}
	var texts []*text
	for _, p := range r.records {
		if !slices.Contains(texts, p.at.text) {
			texts = append(texts, p.at.text)
		}
	}
	c := newCollector(texts)
	for _, p := range r.records {
		if err := parse(p.zone, p.owner, p.rtype, p.data); err != nil {
			c.errorf(p.at, p.path, "must be %s data, is %s: %v", p.rtype, quote(p.data), err)
		}
	}
	c.sorted()
	return c.errs
}

// At moves an error to the static records of a type at an owner: to their first one. It
// reports false where the spec has none.
func (r *Result) At(zone, owner, rtype string, e FieldError) (FieldError, bool) {
	zone = strings.TrimSuffix(zone, ".") + "."
	i := slices.IndexFunc(r.records, func(p recordPlace) bool { return p.zone == zone && p.owner == owner && p.rtype == rtype })
	if i < 0 {
		return e, false
	}
	at := r.records[i].at
	e.File, e.Line, e.Col, e.Source = at.text.name, at.line, at.col, at.text.line(at.line)
	e.Path = fmt.Sprintf("zones.%s.records.%s.%s", strings.TrimSuffix(zone, "."), owner, rtype)
	return e, true
}

// derived are types that quorate makes itself, or that are no records.
var derived = []string{"SOA", "RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "OPT", "TSIG", "TKEY", "ANY", "AXFR", "IXFR"}

// longestStaticTTL is below the most that a TTL may be (RFC 2181 8).
const longestStaticTTL = 24855 * day

// recordSet is what stands at an owner and type: data, or a TTL and data.
func recordSet() *schema {
	data := func() *schema { return listOf(recordData()).min(1) }
	return union(data(), object(
		key("ttl", "Their TTL; 5m when not set.", seconds(0, longestStaticTTL)),
		key("data", "Data in presentation format.", data().req()),
	).opt())
}

// maxData bounds the text of one record: 65,535 octets of which each may be written as
// an escape of four.
const maxData = 256 << 10

func recordData() *schema {
	return scalar("string", "a string without line breaks", func(s string) (any, bool) {
		return s, len(s) <= maxData && !strings.ContainsAny(s, "\n\r\x00")
	})
}

func (b *specBuilder) zoneRecords(zoneName string, zone *statestore.Zone, v *value) {
	if v == nil {
		return
	}
	for _, owner := range v.keys {
		types := v.fields[owner]
		if !types.fine() {
			continue
		}
		for _, t := range types.keys {
			rr := types.fields[t]
			switch {
			case slices.Contains(derived, t):
				b.keyErrorf(types, t, "must be a type that can be set here, is %s, which is derived", t)
				continue
			case t == "NS" && owner == "@":
				b.keyErrorf(types, t, "must not be set here, is what zones.%s.ns is for", strings.TrimSuffix(zoneName, "."))
				continue
			case t == "CNAME" && owner == "@":
				b.keyErrorf(types, t, "must not be at the apex, is next to SOA and NS there (RFC 1034, 3.6.2)")
				continue
			case t == "CNAME" && len(types.keys) > 1:
				b.keyErrorf(types, t, "must be the only type of its owner, is one of %s (RFC 1034, 3.6.2)", joinNames(types.keys))
				continue
			}
			data := rr
			if rr.s.kind == objectKind {
				data = rr.child("data")
			}
			if !data.fine() {
				continue
			}
			if t == "CNAME" && len(data.items) > 1 {
				b.errorf(data, "must be one name, is %d", len(data.items))
				continue
			}
			b.once(data)
			for _, item := range data.items {
				text, ok := item.v.(string)
				if !ok || !item.fine() {
					continue
				}
				b.record(t, text, item)
				b.records = append(b.records, recordPlace{zoneName, owner, t, text, item.at, item.path})
				putIn(&zone.Records, owner, t, append(zone.Records[owner][t], text))
			}
			if rr.set("ttl") {
				putIn(&zone.TTLs, owner, t, uint32(get[statestore.Duration](rr, "ttl").D().Seconds()))
			}
		}
	}
}

// putIn sets an entry of a map of maps.
func putIn[V any](m *map[string]map[string]V, a, b string, v V) {
	if *m == nil {
		*m = map[string]map[string]V{}
	}
	if (*m)[a] == nil {
		(*m)[a] = map[string]V{}
	}
	(*m)[a][b] = v
}

// record checks the data that needs no DNS library.
func (b *specBuilder) record(rtype, data string, item *value) {
	a, err := netip.ParseAddr(data)
	switch {
	case rtype == "A" && (err != nil || !a.Is4()):
		b.errorf(item, "must be an IPv4 address, is %s", quote(data))
	case rtype == "AAAA" && (err != nil || !a.Is6() || a.Zone() != ""):
		b.errorf(item, "must be an IPv6 address, is %s", quote(data))
	case data == "":
		b.errorf(item, "must be %s data in presentation format, is empty", rtype)
	}
}
