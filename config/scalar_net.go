package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

func addr() *schema {
	return scalar("address", "an IP address", func(s string) (any, bool) {
		a, err := netip.ParseAddr(s)
		return a, err == nil && usable(a)
	})
}

func addr4() *schema {
	return scalar("IPv4 address", "an IPv4 address", func(s string) (any, bool) {
		a, err := netip.ParseAddr(s)
		return a, err == nil && a.Is4() && usable(a)
	})
}

func addr6() *schema {
	return scalar("IPv6 address", "an IPv6 address", func(s string) (any, bool) {
		a, err := netip.ParseAddr(s)
		return a, err == nil && a.Is6() && usable(a)
	})
}

// usable refuses what no endpoint can have: zones mean nothing to another node.
func usable(a netip.Addr) bool {
	return a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func prefix() *schema {
	return &schema{
		typ: "network", must: "a network such as 10.1.0.0/16", tags: stringTag,
		parse: func(s string) (any, string) {
			p, err := netip.ParsePrefix(s)
			switch {
			case err != nil || p.Addr().Is4In6():
				return nil, "be a network such as 10.1.0.0/16"
			case p != p.Masked():
				return nil, "be the network address " + p.Masked().String()
			}
			return p, ""
		},
	}
}

// hostPort is HOST:PORT; the host may be empty where something listens.
func hostPort(listen bool) *schema {
	must := "HOST:PORT such as 192.0.2.1:53"
	return scalar("host:port", must, func(s string) (any, bool) {
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return nil, false
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 && !listen {
			return nil, false
		}
		if host == "" {
			return s, listen
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return s, true
		}
		return s, isDomain(strings.ToLower(strings.TrimSuffix(host, ".")))
	})
}

func regex() *schema {
	s := scalar("RE2 regex", "a regular expression (RE2)", func(s string) (any, bool) { return s, len(s) <= maxString })
	within := s.parse
	s.parse = func(text string) (any, string) {
		if _, must := within(text); must != "" {
			return nil, must
		}
		var bad *syntax.Error
		if _, err := syntax.Parse(text, syntax.Perl); errors.As(err, &bad) {
			return nil, fmt.Sprintf("be a regular expression (RE2: %s)", bad.Code)
		}
		return text, ""
	}
	return s
}

func selector() *schema {
	return scalar("label selector", "a label selector such as env=prod,tier in (1,2)", func(s string) (any, bool) {
		_, err := labels.Parse(s)
		return s, err == nil && len(s) <= maxString
	})
}

func webURL() *schema {
	return scalar("URL", "an http or https URL", func(s string) (any, bool) {
		u, err := url.Parse(s)
		return s, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
	})
}

// hookURL is a URL with places such as {source} in it.
func hookURL() *schema {
	return scalar("URL", "an http or https URL", func(s string) (any, bool) {
		return s, strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
	})
}

func urlPath() *schema {
	return scalar("path", "a path that starts with /", func(s string) (any, bool) {
		u, err := url.ParseRequestURI(s)
		return s, err == nil && strings.HasPrefix(s, "/") && u.Fragment == "" && len(s) <= maxString && !strings.ContainsAny(s, " \t\r\n")
	})
}

// hostPattern is a host name in which {service} and {zone} stand for the service's
// first name and its zone.
func hostPattern() *schema {
	return scalar("host", "a host name, in which {service} and {zone} may stand", func(s string) (any, bool) {
		plain := strings.NewReplacer("{service}", "x", "{zone}", "x").Replace(s)
		if _, err := netip.ParseAddr(plain); err == nil {
			return s, true
		}
		if host, port, err := net.SplitHostPort(plain); err == nil {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return nil, false
			}
			plain = host
		}
		return s, isDomain(strings.ToLower(strings.TrimSuffix(plain, ".")))
	})
}
