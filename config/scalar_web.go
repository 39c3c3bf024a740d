package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/theory/jsonpath"
)

// wireText is text that goes over the wire as it is, line breaks included.
func wireText() *schema {
	return scalar("string", "a string of at most 4096 bytes", func(s string) (any, bool) { return s, len(s) <= maxString })
}

// headerName is a field name (RFC 9110, 5.1).
func headerName() *schema {
	return scalar("header", "a header name", func(s string) (any, bool) {
		for _, c := range []byte(s) {
			if !alphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
				return nil, false
			}
		}
		return s, s != "" && len(s) <= 128
	})
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// headerValue is a field value (RFC 9110, 5.5).
func headerValue() *schema {
	return scalar("string", "a string without control characters, or spaces around it", func(s string) (any, bool) {
		control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		return s, len(s) <= maxString && !strings.ContainsFunc(s, control) && strings.TrimSpace(s) == s
	})
}

// scalarValue is any scalar but null, as its text.
func scalarValue() *schema {
	s := wireText()
	s.typ, s.must = "scalar", "a string, number or boolean"
	s.tags = []string{"!!str", "!!int", "!!float", "!!bool"}
	return s
}

// jsonPath is a JSONPath (RFC 9535).
func jsonPath() *schema {
	s := scalar("JSONPath", "a JSONPath such as $.status", nil)
	s.parse = func(text string) (any, string) {
		if len(text) > maxString {
			return nil, "be " + s.must
		}
		if _, err := jsonpath.Parse(text); err != nil {
			return nil, "be a JSONPath such as $.status (" + strings.TrimPrefix(err.Error(), "jsonpath: ") + ")"
		}
		return text, ""
	}
	return s
}

// metricName has the grammar of Prometheus' data model.
func metricName() *schema {
	return scalar("metric", "the name of a metric: letters, digits, _ and :", func(s string) (any, bool) {
		return s, isMetric(strings.ReplaceAll(s, ":", "_"))
	})
}

func metricLabel() *schema {
	return scalar("label name", "the name of a metric's label: letters, digits and _", func(s string) (any, bool) {
		return s, isMetric(s) && !strings.HasPrefix(s, "__")
	})
}

func isMetric(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (!alphanumeric(c) || i == 0 && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

// alpn is a protocol id (RFC 7301). Ids may be any bytes; those in use are visible
// ASCII, and commas, quotes and backslashes would need escapes in records.
func alpn() *schema {
	return scalar("ALPN id", "an ALPN id such as h2", func(s string) (any, bool) {
		for _, c := range []byte(s) {
			if c <= ' ' || c >= 0x7f || strings.ContainsRune(`,"\`, rune(c)) {
				return nil, false
			}
		}
		return s, s != "" && len(s) <= 255
	})
}

// serverName is a hostPattern that may be empty.
func serverName() *schema {
	host := hostPattern()
	return scalar(host.typ+" or empty", host.must+", or empty", func(s string) (any, bool) {
		_, must := host.parse(s)
		return s, s == "" || must == ""
	})
}

// namePattern is a domain name in which {service} and {zone} may stand.
func namePattern() *schema {
	return scalar("name", "a domain name, in which {service} and {zone} may stand", func(s string) (any, bool) {
		plain := strings.ToLower(strings.NewReplacer("{service}", "x", "{zone}", "x").Replace(s))
		return s, s == "." || isDomain(strings.TrimSuffix(plain, "."))
	})
}

// The types and codes that a check can name. The DNS library, which knows them all,
// stays with the packages that ask and answer.
var (
	dnsTypes = []string{
		"A", "AAAA", "CAA", "CDNSKEY", "CDS", "CNAME", "DNAME", "DNSKEY", "DS", "HINFO", "HTTPS", "LOC", "MX", "NAPTR", "NS", "NSEC", "NSEC3",
		"NSEC3PARAM", "OPENPGPKEY", "PTR", "RP", "RRSIG", "SMIMEA", "SOA", "SRV", "SSHFP", "SVCB", "TLSA", "TXT", "URI",
	}
	rcodes = []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"}
)

func dnsType() *schema { return known("record type", dnsTypes) }

func rcode() *schema { return known("response code", rcodes) }

// known is one of many names in capitals; a wrong one is told the nearest.
func known(typ string, names []string) *schema {
	s := scalar(typ, "a "+typ+" such as "+names[0], nil)
	s.parse = func(text string) (any, string) {
		upper := strings.ToUpper(text)
		switch like := nearest(upper, names); {
		case slices.Contains(names, text):
			return text, ""
		case slices.Contains(names, upper):
			return nil, "be in capitals, " + upper
		case like != "":
			return nil, "be a " + typ + " such as " + like
		default:
			return nil, "be " + s.must
		}
	}
	return s
}

// addrPort is where a resolver listens. A name would need a resolver.
func addrPort() *schema {
	return scalar("address and port", "an address and port such as 192.0.2.53:53", func(s string) (any, bool) {
		a, err := netip.ParseAddrPort(s)
		return a, err == nil && a.Port() > 0 && usable(a.Addr())
	})
}
