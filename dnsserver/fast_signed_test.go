package dnsserver

import (
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// signedPaths answers from a table of signed zones, by keys that may be replaced.
func signedPaths(t *testing.T, algorithm statestore.Algorithm, denial statestore.Denial) (*paths, map[string]*dnssec.Zone) {
	t.Helper()
	st := signedState(algorithm, denial)
	table, err := routing.Compile(st)
	require.NoError(t, err)
	keys := map[string]*dnssec.Zone{}
	for _, name := range []string{zone, childZone} {
		keys[name] = signedZone(t, name, st.Spec.Zones[name].DNSSEC)
	}
	return newPathsWith(table, Config{Keys: func(name string) *dnssec.Zone { return keys[name] }}), keys
}

// askAgain asks, has signatures kept that were missing, and asks again.
func (p *paths) askAgain(t *testing.T, query []byte) (fast bool) {
	t.Helper()
	if fast = p.ask(t, query, someClient); !fast && p.w.unsigned != nil {
		p.signPrepared(p.w.from, p.w.unsigned)
		fast = p.ask(t, query, someClient)
	}
	return fast
}

// TestBothPathsGiveTheSameSignatures: for every name and type of signed zones, with DO
// and without.
func TestBothPathsGiveTheSameSignatures(t *testing.T) {
	for _, algorithm := range []statestore.Algorithm{statestore.ECDSAP256SHA256, statestore.ED25519} {
		for _, denial := range []statestore.Denial{statestore.CompactDenial, statestore.NSECDenial} {
			t.Run(string(algorithm)+" "+string(denial), func(t *testing.T) {
				p, _ := signedPaths(t, algorithm, denial)
				signed := 0
				for _, name := range signedNames() {
					for _, qtype := range signedTypes {
						for _, do := range []bool{false, true} {
							query, err := newQuery(name, qtype).SetEdns0(1232, do).Pack()
							require.NoError(t, err)
							if p.askAgain(t, query) && do {
								signed++
							}
						}
					}
				}
				require.Greater(t, signed, 20, "signed answers on the fast path")
			})
		}
	}
}

func TestKeptSignaturesEndWithTheirKeysAndTheirTime(t *testing.T) {
	p, keys := signedPaths(t, statestore.ED25519, statestore.CompactDenial)
	query, err := newQuery("db."+zone, dns.TypeA).SetEdns0(1232, true).Pack()
	require.NoError(t, err)
	require.False(t, p.ask(t, query, someClient), "nothing is signed yet")
	require.NotNil(t, p.w.unsigned)
	require.True(t, p.askAgain(t, query))
	require.True(t, p.ask(t, query, someClient))

	fastAt := func(now time.Time) bool {
		p.w.begin(p.current(), 0)
		p.w.query.Now = now
		buf := make([]byte, maxQuery)
		_, ok := p.fast(p.w, buf, copy(buf, query), someClient.Addr(), 0)
		return ok
	}
	require.True(t, fastAt(time.Now()))
	require.False(t, fastAt(time.Now().Add(7*24*time.Hour)), "when they are due to be replaced")
	require.False(t, fastAt(time.Now().Add(-7*24*time.Hour)), "a clock that was set back: they are not valid yet")

	keys[zone] = signedZone(t, zone, p.table.State().Spec.Zones[zone].DNSSEC)
	require.False(t, p.ask(t, query, someClient), "the zone has other keys")
	require.True(t, p.askAgain(t, query))
}
