package config

import "github.com/quorate/quorate/statestore"

// dns reads what all nodes answer alike.
func (b *specBuilder) dns() {
	v := b.root.child("dns").child("cookies")
	k := statestore.Secret{Secret: get[string](v, "secret"), Next: get[string](v, "next"), Previous: get[string](v, "previous")}
	if k == (statestore.Secret{}) {
		return
	}
	secret := v.child("secret")
	switch {
	case k.Secret == "" && (secret == nil || secret.fine()):
		b.errorf(v, "must have a secret, is without: name the one that makes cookies now")
	case k.Next != "" && k.Next == k.Secret:
		b.errorf(v.child("next"), "must be another secret than the one in use, is %s", quote(k.Next))
	case k.Previous != "" && (k.Previous == k.Secret || k.Previous == k.Next):
		b.errorf(v.child("previous"), "must be another secret than the others, is %s", quote(k.Previous))
	}
	b.spec.DNS.Cookies = &k
}
