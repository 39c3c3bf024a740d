package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/statestore"
)

// zoneKeys holds the keys of signed zones. They are read when the spec names others,
// before the table of that spec is in, and again while some do not read; a key file
// that changes under its name is not looked at, since that would be a roll without its
// waits.
type zoneKeys struct {
	secret func(name string) ([]byte, error)
	log    *slog.Logger

	zones atomic.Pointer[map[string]*dnssec.Zone] // replaced whole

	mu   sync.Mutex // guards what follows, and held by who replaces zones
	read map[string]readKeys
	done *statestore.Spec // all of its keys were read
}

// readKeys is what was read for a zone.
type readKeys struct {
	how statestore.DNSSEC
	ttl statestore.Duration
	why string // what does not read; empty: everything did

	// behind says that the keys in use are those of the spec before.
	behind bool
}

func newZoneKeys(secret func(string) ([]byte, error), log *slog.Logger) *zoneKeys {
	k := &zoneKeys{secret: secret, log: log, read: map[string]readKeys{}}
	k.zones.Store(&map[string]*dnssec.Zone{})
	return k
}

// of returns the keys of a zone; nil: none were read yet.
func (k *zoneKeys) of(zone string) *dnssec.Zone { return (*k.zones.Load())[zone] }

// follow reads the keys that the spec names and that are not in use. A nil k has none.
// Keys of a zone that is signed no more stay until the process ends: the table that
// wants them may still be in.
func (k *zoneKeys) follow(spec *statestore.Spec) {
	if k == nil || spec == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if spec == k.done {
		return
	}
	whole := true
	next := maps.Clone(*k.zones.Load())
	for _, name := range slices.Sorted(maps.Keys(spec.Zones)) {
		z := spec.Zones[name]
		if z.DNSSEC == nil {
			continue
		}
		had, known := k.read[name]
		same := known && had.how == *z.DNSSEC && had.ttl == z.NSTTL
		if same && had.why == "" {
			continue
		}
		now := readKeys{how: *z.DNSSEC, ttl: z.NSTTL}
		zone, err := k.load(name, z)
		if err != nil {
			now.why = err.Error()
		}
		switch {
		case zone != nil:
		case known && next[name].Err == nil && (same && had.behind || !same && had.why == "" && goWith(&had.how, z.DNSSEC)):
			// Other nodes have the keys of this step, and resolvers mix their answers with
			// ours.
			zone, now.behind = next[name].Lacking(err), true
		default:
			zone = dnssec.Unsignable(name, err)
		}
		next[name], k.read[name] = zone, now
		whole = whole && now.why == ""
		if now.why != "" && !(same && now.why == had.why) {
			k.log.Error("keys of a signed zone do not read", keyZone, name, keyBehind, now.behind, keyErr, err)
		}
		if now.why == "" && had.why != "" {
			k.log.Info("the keys of a signed zone read again", keyZone, name)
		}
	}
	k.zones.Store(&next)
	if whole {
		k.done = spec
	}
}

// goWith reports whether a node that has all keys of one step may serve on with them while
// others have those of the next: each publishes what the other signs with. That is so of
// one step of a roll, and neither of two nor of a jump.
func goWith(was, is *statestore.DNSSEC) bool {
	published := func(k statestore.Secret, key string) bool {
		return key == k.Secret || key == k.Next || key == k.Previous
	}
	both := func(was, is statestore.Secret) bool { return published(was, is.Secret) && published(is, was.Secret) }
	return was.Algorithm == is.Algorithm && both(was.KSK, is.KSK) && both(was.ZSK, is.ZSK)
}

// load reads the keys of a zone. Without the key to come it can be signed all the
// same; the error says then too what is missing.
func (k *zoneKeys) load(name string, z *statestore.Zone) (*dnssec.Zone, error) {
	d := z.DNSSEC
	algorithm, ok := dnssec.AlgorithmNumber(string(d.Algorithm))
	if !ok {
		return nil, fmt.Errorf("algorithm %q is not known here", d.Algorithm)
	}
	p := dnssec.Policy{
		Zone: name, Algorithm: algorithm, Compact: d.Denial == statestore.CompactDenial,
		Valid: d.Valid.D(), TTL: uint32(z.NSTTL.D().Seconds()), Leaving: d.Mode == statestore.Leaving,
	}
	var fatal, later []error
	for _, role := range []struct {
		keys  *dnssec.Keys
		names statestore.Secret
	}{{&p.KSK, d.KSK}, {&p.ZSK, d.ZSK}} {
		for _, at := range []struct {
			key  **dnssec.Key
			name string
			errs *[]error
		}{{&role.keys.Active, role.names.Secret, &fatal}, {&role.keys.Previous, role.names.Previous, &fatal}, {&role.keys.Next, role.names.Next, &later}} {
			if at.name == "" {
				continue
			}
			key, err := k.key(at.name)
			if err == nil && key.Algorithm() != algorithm {
				err = fmt.Errorf("secret %s: the key is of algorithm %s, the zone's is %s", at.name, dnssec.AlgorithmName(key.Algorithm()), d.Algorithm)
			}
			if err != nil {
				*at.errs = append(*at.errs, err)
				continue
			}
			*at.key = key
		}
	}
	if len(fatal) > 0 {
		return nil, errors.Join(append(fatal, later...)...)
	}
	zone, err := dnssec.NewZone(p)
	if err != nil {
		return nil, fmt.Errorf("zones.%s.dnssec: %w", strings.TrimSuffix(name, "."), err)
	}
	if err := errors.Join(later...); err != nil {
		return zone.Lacking(err), err
	}
	return zone, nil
}

func (k *zoneKeys) key(name string) (*dnssec.Key, error) {
	value, err := k.secret(name)
	if err != nil {
		return nil, err
	}
	key, err := dnssec.ParseKey(value)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	return key, nil
}

// zoneKeys is what this node has to sign a zone with, for people.
func (n *Node) zoneKeys(zone string) api.ZoneKeys {
	z := n.keys.of(zone)
	if z == nil {
		return api.ZoneKeys{}
	}
	out := api.ZoneKeys{Until: n.dns.SignedUntil(zone)}
	if err := errors.Join(z.Err, z.Lacks); err != nil {
		out.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	for _, k := range z.Keys() {
		out.Keys = append(out.Keys, api.ZoneKey(k))
	}
	return out
}

// namesZoneKey reports whether a secret is a key of a signed zone.
func namesZoneKey(spec *statestore.Spec, name string) bool {
	for _, z := range spec.Zones {
		if d := z.DNSSEC; d != nil {
			for _, k := range []statestore.Secret{d.KSK, d.ZSK} {
				if name == k.Secret || name == k.Next || name == k.Previous {
					return true
				}
			}
		}
	}
	return false
}
