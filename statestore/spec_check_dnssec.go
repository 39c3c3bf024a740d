package statestore

import "time"

// shortestSignatures keeps the validity of signatures above what clocks are apart.
const shortestSignatures = time.Hour

// checkDNSSEC checks how a zone is signed.
func checkDNSSEC(f *findings, path string, d *DNSSEC) {
	if d == nil {
		return
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
