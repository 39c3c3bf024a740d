package config

import "github.com/quorate/quorate/statestore"

// dnssec returns how a zone is signed, or nil where it is not.
func (b *specBuilder) dnssec(v *value) *statestore.DNSSEC {
	mode := get[string](v, "mode")
	if !v.fine() || mode == "" || mode == "off" {
		return nil
	}
	d := &statestore.DNSSEC{
		Mode:      statestore.SigningMode(mode),
		Algorithm: statestore.Algorithm(get[string](v, "algorithm")),
		Denial:    statestore.Denial(get[string](v, "denial")),
		Valid:     get[statestore.Duration](v, "signatures_valid"),
		DSTTL:     get[statestore.Duration](v, "ds_ttl"),
		KSK:       b.signingKey(v, "ksk", mode),
		ZSK:       b.signingKey(v, "zsk", mode),
	}
	b.keysDiffer(v, d)
	return d
}

func (b *specBuilder) signingKey(v *value, role, mode string) statestore.Secret {
	k := v.child(role)
	s := statestore.Secret{Secret: get[string](k, "secret"), Next: get[string](k, "next"), Previous: get[string](k, "previous")}
	switch secret := k.child("secret"); {
	case s.Secret == "" && (secret == nil || secret.fine()):
		at := v.child("mode")
		b.errorf(at, "must have a secret in %s to be %s: a private key, such as quorate zone dnssec keygen makes", role, mode)
	case s.Next != "" && s.Previous != "":
		b.errorf(k.child("next"), "must wait until previous is gone: one step of a roll after the other")
	}
	return s
}

// keysDiffer reports a key that stands at two places.
func (b *specBuilder) keysDiffer(v *value, d *statestore.DNSSEC) {
	places := map[string]string{}
	for _, role := range []struct {
		name string
		keys statestore.Secret
	}{{"ksk", d.KSK}, {"zsk", d.ZSK}} {
		for _, p := range []struct{ key, secret string }{{"secret", role.keys.Secret}, {"next", role.keys.Next}, {"previous", role.keys.Previous}} {
			at := role.name + "." + p.key
			switch other := places[p.secret]; {
			case p.secret == "":
			case other != "":
				b.errorf(v.child(role.name).child(p.key), "must be another secret than that of %s, is %s", other, quote(p.secret))
			default:
				places[p.secret] = at
			}
		}
	}
}
