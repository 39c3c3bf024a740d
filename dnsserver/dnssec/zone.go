package dnssec

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Keys are those of one role. Next and Previous are there during a roll.
type Keys struct {
	Active, Next, Previous *Key
}

func (k Keys) published() []*Key {
	var list []*Key
	for _, key := range []*Key{k.Active, k.Next, k.Previous} {
		if key != nil && !slices.ContainsFunc(list, key.equal) {
			list = append(list, key)
		}
	}
	return list
}

// Policy says how a zone is signed.
type Policy struct {
	Zone      string // lower case, with the final dot
	Algorithm uint8
	Compact   bool          // denial as RFC 9824 has it; else a chain of NSEC records
	Valid     time.Duration // of signatures
	TTL       uint32        // of DNSKEY, CDS and CDNSKEY
	Leaving   bool          // CDS and CDNSKEY ask the parent to remove the DS (RFC 8078 4)

	// KSK signs DNSKEY, CDS and CDNSKEY by all of its keys: whichever the parent's DS
	// names, in whatever cache, is among them (double signature, RFC 6781 4.1.2). The
	// parent's DS should name Active. ZSK signs everything else by Active; its other
	// keys are published only (pre-publication, RFC 6781 4.1.1.1).
	KSK, ZSK Keys
}

// Zone is a zone that can be signed, or the reason why it cannot. It is immutable.
type Zone struct {
	Name    string
	Compact bool

	// Err is why nothing of the zone can be signed here; nil: all can.
	Err error

	// Lacks is what of the keys is not as it should be although it can be signed; nil:
	// nothing.
	Lacks error

	policy  Policy
	ksks    []signing
	zsk     signing
	apex    map[uint16]Set // DNSKEY, CDS, CDNSKEY
	windows windows
}

// signing is a key with what of its signatures is alike.
type signing struct {
	key    *Key
	tag    uint16
	prefix [sha256.Size]byte // digest of the key, the zone and the policy of windows
}

// Unsignable returns a zone that cannot be signed because of err: it is answered
// SERVFAIL where signatures are wanted, never without them.
func Unsignable(name string, err error) *Zone { return &Zone{Name: name, Err: err} }

// Lacking returns the zone as it is, with what it lacks.
func (z *Zone) Lacking(err error) *Zone {
	next := *z
	next.Lacks = err
	return &next
}

// NewZone returns the zone that a policy makes. The error says what of the keys does
// not fit.
func NewZone(p Policy) (*Zone, error) {
	z := &Zone{Name: p.Zone, Compact: p.Compact, policy: p, windows: windowsOf(p.Valid)}
	if p.KSK.Active == nil || p.ZSK.Active == nil {
		return nil, errors.New("a KSK and a ZSK are needed")
	}
	for _, k := range slices.Concat(p.KSK.published(), p.ZSK.published()) {
		if k.algorithm != p.Algorithm {
			return nil, fmt.Errorf("a key is of algorithm %s, the zone's is %s", AlgorithmName(k.algorithm), AlgorithmName(p.Algorithm))
		}
	}
	var dnskeys []dns.RR
	for _, k := range p.KSK.published() {
		z.ksks = append(z.ksks, z.signing(k, kskFlags))
		dnskeys = append(dnskeys, k.dnskey(p.Zone, kskFlags, p.TTL))
	}
	for _, k := range p.ZSK.published() {
		if slices.ContainsFunc(p.KSK.published(), k.equal) {
			return nil, errors.New("one key is both KSK and ZSK; make two")
		}
		dnskeys = append(dnskeys, k.dnskey(p.Zone, zskFlags, p.TTL))
	}
	z.zsk = z.signing(p.ZSK.Active, zskFlags)
	cds, cdnskey := z.requests()
	z.apex = map[uint16]Set{dns.TypeDNSKEY: setOf(dnskeys...), dns.TypeCDS: setOf(cds), dns.TypeCDNSKEY: setOf(cdnskey)}
	return z, nil
}

func (z *Zone) signing(k *Key, flags uint16) signing {
	tag := k.dnskey(z.Name, flags, 0).KeyTag()
	b := append([]byte{k.algorithm, byte(flags >> 8), byte(flags)}, k.public...)
	b = binary.BigEndian.AppendUint64(b, uint64(z.policy.Valid))
	return signing{key: k, tag: tag, prefix: sha256.Sum256(append(b, z.Name...))}
}

// requests returns what the zone asks of its parent: a DS of the active KSK, or none
// (RFC 7344 4, RFC 8078 4).
func (z *Zone) requests() (cds *dns.CDS, cdnskey *dns.CDNSKEY) {
	header := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: z.Name, Rrtype: t, Class: dns.ClassINET, Ttl: z.policy.TTL}
	}
	if z.policy.Leaving {
		return &dns.CDS{DS: dns.DS{Hdr: header(dns.TypeCDS), Digest: "00"}},
			&dns.CDNSKEY{DNSKEY: dns.DNSKEY{Hdr: header(dns.TypeCDNSKEY), Protocol: protocol, PublicKey: "AA=="}}
	}
	key := z.policy.KSK.Active.dnskey(z.Name, kskFlags, z.policy.TTL)
	ds := key.ToDS(dns.SHA256)
	cds, cdnskey = &dns.CDS{DS: *ds}, &dns.CDNSKEY{DNSKEY: *key}
	cds.Hdr, cdnskey.Hdr = header(dns.TypeCDS), header(dns.TypeCDNSKEY)
	return cds, cdnskey
}

// Apex returns the zone's DNSKEY, CDS or CDNSKEY set, and false for every other type.
func (z *Zone) Apex(qtype uint16) (Set, bool) {
	s, ok := z.apex[qtype]
	return s, ok
}

// apexTypes are what a signed zone has at its apex beside its own.
var apexTypes = []uint16{dns.TypeDNSKEY, dns.TypeCDS, dns.TypeCDNSKEY}

// KeyInfo is one key of a zone, for people.
type KeyInfo struct {
	Role      string // "ksk" or "zsk"
	Place     string // "active", "next" or "previous"
	Tag       uint16
	Algorithm string
	Signs     bool
	DS        string // of a KSK: what the parent holds for it, without owner and TTL
}

// Keys returns the zone's keys: KSKs first, the active one of each role first.
func (z *Zone) Keys() []KeyInfo {
	var list []KeyInfo
	add := func(role string, flags uint16, keys Keys) {
		for _, p := range []struct {
			place string
			key   *Key
		}{{"active", keys.Active}, {"next", keys.Next}, {"previous", keys.Previous}} {
			if p.key == nil {
				continue
			}
			record := p.key.dnskey(z.Name, flags, z.policy.TTL)
			info := KeyInfo{Role: role, Place: p.place, Tag: record.KeyTag(), Algorithm: AlgorithmName(p.key.algorithm), Signs: role == "ksk" || p.place == "active"}
			if role == "ksk" {
				ds := record.ToDS(dns.SHA256)
				info.DS = fmt.Sprintf("%d %d %d %s", ds.KeyTag, ds.Algorithm, ds.DigestType, strings.ToUpper(ds.Digest))
			}
			list = append(list, info)
		}
	}
	if z.Err == nil {
		add("ksk", kskFlags, z.policy.KSK)
		add("zsk", zskFlags, z.policy.ZSK)
	}
	return list
}

// signers returns the keys that sign a type: of what concerns the keys and the
// parent those that the parent's DS may name (RFC 7344 4.1).
func (z *Zone) signers(qtype uint16) []signing {
	if slices.Contains(apexTypes, qtype) {
		return z.ksks
	}
	return []signing{z.zsk}
}
