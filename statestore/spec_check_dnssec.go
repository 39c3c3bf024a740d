package statestore

import (
	"slices"
	"strings"
	"time"
)

// shortestSignatures keeps the validity of signatures above what clocks are apart.
const shortestSignatures = time.Hour

// madeBySigning are the types that a signed zone has of its own.
var madeBySigning = []string{"DNSKEY", "CDS", "CDNSKEY", "RRSIG", "NSEC", "NSEC3", "NSEC3PARAM"}

// checkDNSSEC checks how a zone is signed.
func checkDNSSEC(f *findings, path string, z *Zone) {
	d := z.DNSSEC
	if d == nil {
		return
	}
	for _, owner := range sortedKeys(z.Records) {
		for _, typ := range sortedKeys(z.Records[owner]) {
			if slices.Contains(madeBySigning, strings.ToUpper(typ)) {
				f.add(path+".records."+owner+"."+typ, "a signed zone makes its own; remove it")
			}
		}
	}
	path += ".dnssec"
	switch d.Mode {
	case Signed, Leaving:
	default:
		f.add(path+".mode", "must be %s or %s, is %q", Signed, Leaving, d.Mode)
	}
	switch d.Algorithm {
	case ECDSAP256SHA256, ED25519:
	default:
		f.add(path+".algorithm", "must be %s or %s, is %q", ECDSAP256SHA256, ED25519, d.Algorithm)
	}
	switch d.Denial {
	case CompactDenial, NSECDenial:
	default:
		f.add(path+".denial", "must be %s or %s, is %q", CompactDenial, NSECDenial, d.Denial)
	}
	if d.Valid.D() < shortestSignatures {
		f.add(path+".signatures_valid", "must be at least %s, is %s", shortestSignatures, d.Valid.D())
	}
	if d.DSTTL < 0 {
		f.add(path+".ds_ttl", "must not be negative")
	}
	for _, k := range []struct {
		role string
		keys Secret
	}{{"ksk", d.KSK}, {"zsk", d.ZSK}} {
		if k.keys.Secret == "" {
			f.add(path+"."+k.role+".secret", "must not be empty")
		}
		if k.keys.Next != "" && k.keys.Previous != "" {
			f.add(path+"."+k.role, "must not have both next and previous")
		}
	}
}
