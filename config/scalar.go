package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

var (
	stringTag  = []string{"!!str"}
	nameTags   = []string{"!!str", "!!int"} // a cluster may be named 1
	numberTags = []string{"!!int", "!!float"}
)

// scalar declares a value written as a string: parse returns it, or false for
// "must be MUST".
func scalar(typ, must string, parse func(string) (any, bool)) *schema {
	return &schema{typ: typ, must: must, tags: stringTag, parse: func(s string) (any, string) {
		if v, ok := parse(s); ok {
			return v, ""
		}
		return nil, "be " + must
	}}
}

// maxString bounds free text, in bytes; what people write is far below.
const maxString = 4096

func str() *schema {
	return scalar("string", "a string without line breaks", func(s string) (any, bool) {
		return s, len(s) <= maxString && !strings.ContainsAny(s, "\n\r\x00")
	})
}

func label() *schema {
	s := scalar("label", "a DNS label: lower-case letters, digits and hyphens", func(s string) (any, bool) {
		return s, isLabel(s)
	})
	s.tags = nameTags
	return s
}

// isLabel reports whether s is a host name label (RFC 1123, 2.1) in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// fqdn is a host name; its value is in lower case with a trailing dot.
func fqdn() *schema {
	return scalar("name", "a domain name", func(s string) (any, bool) {
		n := strings.ToLower(strings.TrimSuffix(s, ".")) + "."
		return n, isDomain(strings.TrimSuffix(n, "."))
	})
}

// isDomain allows underscores, which names of records have. 253 is RFC 1035's 255
// octets in presentation form.
func isDomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for l := range strings.SplitSeq(s, ".") {
		if !isLabel(strings.ReplaceAll(l, "_", "x")) {
			return false
		}
	}
	return true
}

// serviceName is a name relative to a zone that a service answers for.
func serviceName() *schema {
	return scalar("name in the zone", "a name relative to the zone, or @ for its apex", func(s string) (any, bool) {
		for l := range strings.SplitSeq(s, ".") {
			if !isLabel(l) {
				return s, s == "@"
			}
		}
		return s, len(s) <= 253
	})
}

// ownerName is the owner of static records. It may have any octet, with escapes; what is
// a name the DNS library knows.
func ownerName() *schema {
	return scalar("owner", "a name relative to the zone, @ for its apex, or a wildcard", func(s string) (any, bool) {
		n := strings.ToLower(s)
		ok := n != "" && len(n) <= 4*253 && n[0] != '.' && !strings.Contains(n, "..") && (n[len(n)-1] != '.' || strings.HasSuffix(n, `\.`))
		for _, c := range []byte(n) {
			ok = ok && c > ' ' && c < 0x7f && c != '"' && c != '(' && c != ')' && c != ';' && (c != '@' || n == "@" || strings.Contains(n, `\@`))
		}
		return n, ok
	})
}

func recordType() *schema {
	return scalar("record type", "a record type such as TXT", func(s string) (any, bool) {
		if s == "" || len(s) > 16 {
			return nil, false
		}
		for _, c := range []byte(s) {
			if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
				return nil, false
			}
		}
		return s, true
	})
}

func boolean() *schema {
	s := scalar("boolean", "true or false", func(s string) (any, bool) {
		v, err := strconv.ParseBool(strings.ToLower(s))
		return v, err == nil
	})
	s.tags = []string{"!!bool"}
	return s
}

func integer(lo, hi int) *schema {
	return &schema{
		typ: "integer", must: "a whole number", bounds: fmt.Sprintf("%d to %d", lo, hi), tags: numberTags,
		parse: func(s string) (any, string) {
			n, err := strconv.Atoi(s)
			switch {
			case err != nil:
				return nil, "be a whole number"
			case lo == hi && n != lo:
				return nil, fmt.Sprintf("be %d", lo)
			case n < lo:
				return nil, fmt.Sprintf("be at least %d", lo)
			case n > hi:
				return nil, fmt.Sprintf("be at most %d", hi)
			}
			return n, ""
		},
	}
}

func decimal(lo, hi float64) *schema {
	return &schema{
		typ: "number", must: fmt.Sprintf("a number from %g to %g", lo, hi), bounds: fmt.Sprintf("%g to %g", lo, hi), tags: numberTags,
		parse: func(s string) (any, string) {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(f) || f < lo || f > hi {
				return nil, fmt.Sprintf("be from %g to %g", lo, hi)
			}
			return f, ""
		},
	}
}

const day = 24 * time.Hour

// parseDuration reads a Go duration that may begin with days: "90d", "1d12h".
func parseDuration(s string) (time.Duration, bool) {
	var days time.Duration
	if d, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(d, 10, 16)
		if err != nil {
			return 0, false
		}
		if days = time.Duration(n) * day; rest == "" {
			return days, true
		}
		s = rest
		if s[0] < '0' || s[0] > '9' {
			return 0, false
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > math.MaxInt64-days {
		return 0, false
	}
	return days + d, true
}

// short prints a duration as people write it: 1m rather than 1m0s, 7d rather than 168h0m0s.
func short(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// shortest is the least interval, timeout and recheck: below it, jitter and the
// network decide what a probe says.
const shortest = 100 * time.Millisecond

// duration is a statestore.Duration from lo to hi.
func duration(lo, hi time.Duration) *schema {
	return &schema{
		typ: "duration", must: "a duration such as 10s", bounds: short(lo) + " to " + short(hi), tags: stringTag,
		parse: func(s string) (any, string) {
			d, ok := parseDuration(s)
			switch {
			case !ok:
				return nil, "be a duration such as 10s"
			case d < lo:
				return nil, "be at least " + short(lo)
			case d > hi:
				return nil, "be at most " + short(hi)
			}
			return statestore.Duration(d), ""
		},
	}
}

// seconds is a duration as DNS carries it.
func seconds(lo, hi time.Duration) *schema {
	s := duration(lo, hi)
	s.must, s.bounds = "a duration in whole seconds such as 30s", s.bounds+", whole seconds"
	within := s.parse
	s.parse = func(text string) (any, string) {
		v, must := within(text)
		if d, ok := v.(statestore.Duration); ok && d.D()%time.Second != 0 {
			return nil, "be whole seconds"
		}
		return v, must
	}
	return s
}

func enum(values ...string) *schema { return enumLater(values, nil) }

// enumLater is an enum of which some values have no behaviour in this version.
func enumLater(values, later []string) *schema {
	all := slices.Concat(values, later)
	must := "one of " + strings.Join(all, ", ")
	if len(all) == 1 {
		must = all[0]
	}
	s := scalar("one of "+strings.Join(all, ", "), must, func(s string) (any, bool) { return s, slices.Contains(all, s) })
	s.typ, s.values, s.later = strings.Join(all, " or "), all, later
	return s
}

func filePath() *schema {
	s := str()
	s.typ = "path"
	return s
}

// size is a number of bytes as int64.
func size(lo, hi int64) *schema {
	units := []struct {
		suffix string
		factor int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
	must := "a size such as 512MiB"
	if hi < 1<<20 {
		must = "a size such as 16KiB"
	}
	return &schema{
		typ: "size", must: must, bounds: fmt.Sprintf("%d to %d bytes", lo, hi), tags: stringTag,
		parse: func(s string) (any, string) {
			for _, u := range units {
				num, ok := strings.CutSuffix(s, u.suffix)
				if !ok {
					continue
				}
				n, err := strconv.ParseInt(num, 10, 32)
				switch {
				case err != nil || n < 0:
					return nil, "be " + must
				case n*u.factor < lo:
					return nil, fmt.Sprintf("be at least %d bytes", lo)
				case n*u.factor > hi:
					return nil, fmt.Sprintf("be at most %d bytes", hi)
				}
				return n * u.factor, ""
			}
			return nil, "be " + must
		},
	}
}

// threshold is a statestore.Threshold. Below a majority is known to be wrong only
// with the members; policy.CheckSpec refuses it.
func threshold() *schema {
	s := scalar("majority, all or a number of regions", "majority, all or a number of regions", func(s string) (any, bool) {
		switch s {
		case "majority":
			return statestore.ThresholdMajority, true
		case "all":
			return statestore.ThresholdAll, true
		}
		n, err := strconv.ParseUint(s, 10, 8)
		return statestore.Threshold(n), err == nil && n > 0
	})
	s.tags = nameTags
	return s
}

// staleness is a multiple of the interval or a duration.
type staleness struct {
	times    int
	duration time.Duration
}

func (s staleness) of(interval statestore.Duration) statestore.Duration {
	if s.times > 0 {
		return statestore.Duration(s.times) * interval
	}
	return statestore.Duration(s.duration)
}

func staleAfter() *schema {
	return scalar("duration or multiple of the interval", "a duration, or a multiple of the interval from 2x to 100x", func(s string) (any, bool) {
		if num, ok := strings.CutSuffix(s, "x"); ok {
			n, err := strconv.Atoi(num)
			return staleness{times: n}, err == nil && n >= 2 && n <= 100
		}
		d, ok := parseDuration(s)
		return staleness{duration: d}, ok && d >= 2*shortest && d <= day
	})
}

func statusRange() *schema {
	s := scalar("HTTP status or range", "an HTTP status such as 200, or a range such as 200-399", func(s string) (any, bool) {
		lo, hi, ok := strings.Cut(s, "-")
		if !ok {
			hi = lo
		}
		l, err1 := strconv.Atoi(lo)
		h, err2 := strconv.Atoi(hi)
		return statestore.StatusRange{Low: l, High: h}, err1 == nil && err2 == nil && 100 <= l && l <= h && h <= 599
	})
	s.tags = nameTags
	return s
}
