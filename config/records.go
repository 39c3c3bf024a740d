package config

import (
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

// derived are types that quorate makes itself, and delegated those that cut a zone,
// which it does not serve.
var (
	derived   = []string{"SOA", "RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "OPT", "TSIG", "TKEY", "ANY", "AXFR", "IXFR"}
	delegated = []string{"NS", "DS", "DNAME"}
)

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
			case slices.Contains(delegated, t):
				b.keyErrorf(types, t, "must be a type that can be set here, is %s: delegation below the zone is not served", t)
				continue
			case t == "CNAME" && owner == "@":
				b.keyErrorf(types, t, "must not be at the apex, is next to SOA and NS there (RFC 1034, 3.6.2)")
				continue
			case t == "CNAME" && len(types.keys) > 1:
				b.keyErrorf(types, t, "must be the only type of its owner, is one of %s (RFC 1034, 3.6.2)", joinNames(types.keys))
				continue
			case t == "CNAME" && len(rr.items) > 1:
				b.errorf(rr, "must be one name, is %d", len(rr.items))
				continue
			}
			b.once(rr)
			for _, item := range rr.items {
				data, ok := item.v.(string)
				if !ok || !item.fine() {
					continue
				}
				b.record(t, data, item)
				b.records = append(b.records, recordPlace{zoneName, owner, t, data, item.at, item.path})
				if zone.Records == nil {
					zone.Records = map[string]map[string][]string{}
				}
				if zone.Records[owner] == nil {
					zone.Records[owner] = map[string][]string{}
				}
				zone.Records[owner][t] = append(zone.Records[owner][t], data)
			}
		}
	}
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
