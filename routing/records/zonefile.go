package records

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// File is what a master file (RFC 1035 5) holds for a zone.
type File struct {
	Records []FileRecord // in the order of the file
	Ignored []FileNote   // what is derived here instead
	Errors  []FileNote   // all of them; Records is not complete then
}

// FileRecord is one record.
type FileRecord struct {
	Line  int    // where its entry begins
	Owner string // relative to the zone, "@" the apex
	Type  string
	TTL   uint32
	Data  string // presentation format, names absolute: Parse reads it
}

// FileNote is something to say about a line.
type FileNote struct {
	Line int
	Text string
}

// byteOrderMark is what some editors begin a text with. It would be part of a name.
const byteOrderMark = "\ufeff"

// maxFileRecords bounds what a file may hold, $GENERATE included: above it the spec
// could not be replicated. What is ignored or wrong counts too.
const maxFileRecords = 1 << 17

// ReadFile reads the master file of a zone. $ORIGIN begins as the zone. $GENERATE is
// followed, $INCLUDE refused: a zone is one file. The zone's SOA and its apex NS are
// derived, so they are ignored, and said so.
func ReadFile(zone, text string) File {
	zone = dns.CanonicalName(zone)
	r := fileReader{zone: zone, origin: zone, soa: zone}
	for e := range entries(strings.TrimPrefix(text, byteOrderMark)) {
		r.read(e)
		if r.made > maxFileRecords {
			r.errorf(e.line, "must hold at most %d records", maxFileRecords)
			break
		}
	}
	return r.file
}

// fileReader is where the reading of a file stands.
type fileReader struct {
	zone   string
	origin string
	owner  string // of the last record, absolute; empty: none yet
	ttl    uint32
	hasTTL bool
	fixed  bool // by $TTL, which records do not change
	soa    string
	made   int // records read
	file   File
}

func (r *fileReader) errorf(line int, format string, args ...any) {
	r.file.Errors = append(r.file.Errors, FileNote{line, fmt.Sprintf(format, args...)})
}

// ignoref notes something once.
func (r *fileReader) ignoref(line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(r.file.Ignored, func(n FileNote) bool { return n.Text == text }) {
		r.file.Ignored = append(r.file.Ignored, FileNote{line, text})
	}
}

func (r *fileReader) read(e entry) {
	switch {
	case e.open:
		r.errorf(e.line, "must close what it opens, a quote or parenthesis is left open")
	case e.text[0] == '$':
		r.directive(e)
	default:
		r.records(e, e.text)
	}
}

func (r *fileReader) directive(e entry) {
	words := strings.Fields(e.bare)
	switch word := strings.ToUpper(words[0]); {
	case word == "$INCLUDE":
		r.errorf(e.line, "must not include other files: a zone_file holds the whole zone")
	case word == "$GENERATE":
		r.generate(e, words)
	case word != "$ORIGIN" && word != "$TTL":
		r.errorf(e.line, "must be $ORIGIN, $TTL or $GENERATE, is %s", words[0])
	case len(words) != 2:
		r.errorf(e.line, "must be %s and one value", word)
	case word == "$TTL":
		ttl, ok := parseTTL(words[1])
		if !ok {
			r.errorf(e.line, "must be $TTL and a time such as 3600 or 1h, is %q", words[1])
			return
		}
		r.ttl, r.hasTTL, r.fixed = ttl, true, true
	default:
		name := words[1]
		if !dns.IsFqdn(name) {
			name += "." + strings.TrimPrefix(r.origin, ".")
		}
		if _, ok := dns.IsDomainName(name); !ok {
			r.errorf(e.line, "must be $ORIGIN and a domain name, is %q", words[1])
			return
		}
		r.origin = name
	}
}

// generate makes the records of $GENERATE. The parser gives them a TTL of its own where
// they say none, so they are made to say the file's.
func (r *fileReader) generate(e entry, words []string) {
	if len(words) < 5 {
		r.errorf(e.line, "must be $GENERATE, a range, an owner, a type and data")
		return
	}
	_, first := parseTTL(words[3])
	_, second := parseTTL(words[4])
	switch {
	case first || second && dns.StringToClass[strings.ToUpper(words[3])] != 0:
	case !r.hasTTL:
		r.errorf(e.line, "must be a record, is not: missing TTL with no previous value")
		return
	default:
		words = slices.Insert(words, 3, strconv.FormatUint(uint64(r.ttl), 10))
	}
	r.records(e, strings.Join(words, " "))
}

// records reads an entry: one record, or those that $GENERATE makes.
func (r *fileReader) records(e entry, text string) {
	if text[0] == ' ' || text[0] == '\t' {
		if r.owner == "" {
			r.errorf(e.line, "must begin with an owner, begins with a blank before any other record")
			return
		}
		text = r.owner + text
	}
	zp := dns.NewZoneParser(strings.NewReader(text+"\n"), r.origin, "")
	if r.hasTTL {
		zp.SetDefaultTTL(r.ttl)
	}
	for rr, ok := zp.Next(); ok && r.made <= maxFileRecords; rr, ok = zp.Next() {
		r.made++
		r.owner = rr.Header().Name
		if !r.fixed {
			r.ttl, r.hasTTL = rr.Header().Ttl, true // RFC 1035 5.1: the last one stated
		}
		if err := r.add(e.line, rr); err != nil {
			r.errorf(e.line, "%v", err)
		}
	}
	if err := zp.Err(); err != nil {
		r.errorf(e.line, "must be a record, is not: %s", reason(err))
		if !e.blank {
			r.owner = firstOf(r.owner, r.absolute(strings.Fields(e.bare)[0]))
		}
	}
}

func firstOf(a, b string) string {
	if b != "" {
		return b
	}
	return a
}

// absolute returns the name that a word stands for, or "".
func (r *fileReader) absolute(word string) string {
	switch {
	case word == "@":
		return r.origin
	case !dns.IsFqdn(word):
		word += "." + strings.TrimPrefix(r.origin, ".")
	}
	if _, ok := dns.IsDomainName(word); !ok {
		return ""
	}
	return word
}

// signing are types that a signed zone's file holds and that the server makes.
var signing = []uint16{dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeDNSKEY, dns.TypeCDS, dns.TypeCDNSKEY}

// add takes a record over, ignores it or says why it may not be there.
func (r *fileReader) add(line int, rr dns.RR) error {
	h := rr.Header()
	name, typ := plain(h.Name), TypeName(h.Rrtype)
	rel, ok := strings.CutSuffix(name, "."+r.zone)
	if name == r.zone {
		rel, ok = "@", true
	}
	switch {
	case h.Class != dns.ClassINET:
		return fmt.Errorf("class must be IN, is %s", dns.Class(h.Class))
	case !ok:
		return fmt.Errorf("owner must be in zone %s, is %s", r.zone, name)
	case h.Rrtype == dns.TypeSOA && rel != "@":
		return fmt.Errorf("SOA must be at the apex %s, is at %s", r.zone, name)
	case h.Rrtype == dns.TypeSOA:
		r.ignoref(line, "SOA is ignored: it is derived, its times are zones.%s.soa", strings.TrimSuffix(r.zone, "."))
		return nil
	case h.Rrtype == dns.TypeNS && rel == "@":
		r.ignoref(line, "NS of the apex are ignored: they are the nodes that answer, or zones.%s.ns", strings.TrimSuffix(r.zone, "."))
		return nil
	case slices.Contains(signing, h.Rrtype):
		return fmt.Errorf("%s must not be in the file, the server makes it: hand in the unsigned zone", typ)
	case h.Ttl > math.MaxInt32:
		return fmt.Errorf("TTL must be at most %d, is %d (RFC 2181 8)", math.MaxInt32, h.Ttl)
	}
	data, err := written(r.zone, rel, rr)
	if err != nil {
		return err
	}
	r.file.Records = append(r.file.Records, FileRecord{line, rel, typ, h.Ttl, data})
	return nil
}

// written returns the data of a record as Parse reads it: in the form of its type, or
// in the generic one where that does not read back.
func written(zone, owner string, rr dns.RR) (string, error) {
	data, typ := dataText(rr), TypeName(rr.Header().Rrtype)
	wire, err := pack(rr)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s record must have a wire form, has none: %w", typ, err)
	case len(wire) == 0 && !mayBeEmpty(rr):
		return "", fmt.Errorf("%s record must have data, has none", typ)
	}
	set, err := Parse(zone, owner, typ, []string{data})
	if err == nil && string(set.Rdata[0]) == string(wire) {
		return data, nil
	}
	data = generic(hex.EncodeToString(wire))
	if _, other := Parse(zone, owner, typ, []string{data}); other != nil {
		return "", errors.Join(err, other)
	}
	return data, nil
}

// parseTTL reads seconds, or a time such as 1h30m or 2W.
func parseTTL(s string) (uint32, bool) {
	units := map[byte]uint64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}
	var total uint64
	for rest := strings.ToLower(s); rest != ""; {
		end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
		digits, unit := rest, uint64(1)
		if end >= 0 {
			digits, unit = rest[:end], units[rest[end]]
			rest = rest[end+1:]
		} else {
			rest = ""
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || unit == 0 {
			return 0, false
		}
		total += n * unit
	}
	return uint32(total), s != "" && total <= math.MaxInt32
}
