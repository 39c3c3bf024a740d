package dnsserver

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func unhex(t require.TestingT, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func secretOf(t require.TestingT, s string) CookieSecret {
	k, err := ParseCookieSecret([]byte(s))
	require.NoError(t, err)
	return k
}

// The first vectors of the reference implementation: key 00 to 0f, message 00, 01, ...
func TestSipHash(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	var message []byte
	for n, want := range map[int]uint64{
		0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5, 63: 0x958a324ceb064572,
	} {
		for len(message) < n {
			message = append(message, byte(len(message)))
		}
		require.Equal(t, want, sipHash(key, message[:n]), "%d octets", n)
	}
}

// TestServerCookies holds the vectors of RFC 9018, appendix A: other servers make the
// same cookies and take ours.
func TestServerCookies(t *testing.T) {
	const one, old, rolled = "e5e973e5a6b2a43f48e7dc849e37bfcf", "dd3bdf9344b678b185a6f5cb60fca715", "445536bcd2513298075a5d379663c962"
	tests := []struct {
		name, asked, client string
		secrets             CookieSecrets
		at                  int64
		good                bool
		want                string
	}{
		{"A.1 learning one", "2464c4abcf10c957", "198.51.100.100", CookieSecrets{Current: secretOf(t, one)}, 1559731985, false, "2464c4abcf10c957010000005cf79f111f8130c3eee29480"},
		{"A.2 the same client renews it", "2464c4abcf10c957010000005cf79f111f8130c3eee29480", "198.51.100.100", CookieSecrets{Current: secretOf(t, one)}, 1559734385, true, "2464c4abcf10c957010000005cf7a871d4a564a1442aca77"},
		{"A.3 another client, with reserved bits set", "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", "203.0.113.203", CookieSecrets{Current: secretOf(t, one)}, 1559727985, true, "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5"},
		{"A.3 renewed", "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", "203.0.113.203", CookieSecrets{Current: secretOf(t, one)}, 1559734700, false, "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"},
		{"A.4 IPv6 after a rollover", "22681ab97d52c298010000005cf7c57926556bd0934c72f8", "2001:db8:220:1:59de:d0f4:8769:82b8", CookieSecrets{Current: secretOf(t, rolled), Accepted: []CookieSecret{secretOf(t, old)}}, 1559741961, true, "22681ab97d52c298010000005cf7c609a6bb79d16625507a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := readCookie(unhex(t, tt.asked))
			require.True(t, ok)
			c.answer(&tt.secrets, netip.MustParseAddr(tt.client), time.Unix(tt.at, 0))
			require.Equal(t, tt.good, c.good)
			require.Equal(t, tt.want, hex.EncodeToString(c.reply))
		})
	}
}

func TestWhichCookiesAreGood(t *testing.T) {
	client, now := netip.MustParseAddr("192.0.2.1"), time.Unix(1_800_000_000, 0)
	keys := CookieSecrets{Current: CookieSecret{1}, Accepted: []CookieSecret{{2}, {3}}}
	made := func(by CookieSecret, client string, at time.Time) []byte {
		c, _ := readCookie([]byte("12345678"))
		c.answer(&CookieSecrets{Current: by}, netip.MustParseAddr(client), at)
		return c.reply
	}
	edit := func(at int, b []byte) []byte {
		b[at] ^= 0x40
		return b
	}
	tests := []struct {
		name        string
		cookie      []byte
		good, fresh bool
	}{
		{"a young one", made(CookieSecret{1}, "192.0.2.1", now.Add(-29*time.Minute)), true, false},
		{"from the same second", made(CookieSecret{1}, "192.0.2.1", now), true, false},
		{"one older than half an hour", made(CookieSecret{1}, "192.0.2.1", now.Add(-31*time.Minute)), true, true},
		{"one older than an hour", made(CookieSecret{1}, "192.0.2.1", now.Add(-61*time.Minute)), false, true},
		{"one of a server whose clock is ahead", made(CookieSecret{1}, "192.0.2.1", now.Add(4*time.Minute)), true, false},
		{"one of the future", made(CookieSecret{1}, "192.0.2.1", now.Add(6*time.Minute)), false, true},
		{"one of the next secret", made(CookieSecret{2}, "192.0.2.1", now), true, true},
		{"one of the previous secret", made(CookieSecret{3}, "192.0.2.1", now), true, true},
		{"one of a secret long gone", made(CookieSecret{4}, "192.0.2.1", now), false, true},
		{"another client's", made(CookieSecret{1}, "192.0.2.2", now), false, true},
		{"the client's as an IPv6 socket writes it", made(CookieSecret{1}, "::ffff:192.0.2.1", now), true, false},
		{"another client cookie", edit(0, made(CookieSecret{1}, "192.0.2.1", now)), false, true},
		{"another version", edit(8, made(CookieSecret{1}, "192.0.2.1", now)), false, true},
		{"another time", edit(14, made(CookieSecret{1}, "192.0.2.1", now)), false, true},
		{"another hash", edit(23, made(CookieSecret{1}, "192.0.2.1", now)), false, true},
		{"none yet", []byte("12345678"), false, true},
		{"one of another maker, short", []byte("1234567812345678"), false, true},
		{"one of another maker, long", []byte("1234567812345678123456781234567812345678"), false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := readCookie(tt.cookie)
			require.True(t, ok)
			c.answer(&keys, client, now)
			require.Equal(t, tt.good, c.good)
			require.Len(t, c.reply, 24)
			require.Equal(t, tt.fresh, string(c.reply) != string(tt.cookie))
			again, _ := readCookie(c.reply)
			again.answer(&CookieSecrets{Current: keys.Current}, client, now)
			require.True(t, again.good, "what is given is good")
		})
	}
}

// Whatever is changed of a cookie makes it bad.
func TestACookieCannotBeForged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		keys := CookieSecrets{Current: CookieSecret(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "secret"))}
		now := time.Unix(rapid.Int64Range(0, 1<<33).Draw(rt, "now"), 0)
		client := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "client")))
		c, _ := readCookie(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(rt, "client cookie"))
		c.answer(&keys, client, now)
		forged := append([]byte(nil), c.reply...)
		forged[rapid.IntRange(0, 23).Draw(rt, "octet")] ^= byte(1 << rapid.IntRange(0, 7).Draw(rt, "bit"))
		for _, tt := range []struct {
			cookie []byte
			good   bool
		}{{c.reply, true}, {forged, false}} {
			b, ok := readCookie(tt.cookie)
			require.True(rt, ok)
			b.answer(&keys, client, now)
			require.Equal(rt, tt.good, b.good)
		}
	})
}

func TestParseCookieSecret(t *testing.T) {
	want := CookieSecret{0xe5, 0xe9, 0x73, 0xe5, 0xa6, 0xb2, 0xa4, 0x3f, 0x48, 0xe7, 0xdc, 0x84, 0x9e, 0x37, 0xbf, 0xcf}
	for _, good := range []string{"e5e973e5a6b2a43f48e7dc849e37bfcf", "E5E973E5A6B2A43F48E7DC849E37BFCF", string(want[:])} {
		require.Equal(t, want, secretOf(t, good))
	}
	for _, bad := range []string{"", "e5e973e5a6b2a43f", "e5e973e5a6b2a43f48e7dc849e37bfc", "e5e973e5a6b2a43f48e7dc849e37bfcg"} {
		_, err := ParseCookieSecret([]byte(bad))
		if len(bad) == 16 {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "a cookie secret must be 16 octets or 32 hexadecimal digits (openssl rand -hex 16)")
	}
}

func withCookie(q *dns.Msg, cookie string) *dns.Msg {
	withEDNS(q, 1232).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}}
	return q
}

func cookieOf(m *dns.Msg) string {
	for _, o := range m.IsEdns0().Option {
		if c, ok := o.(*dns.EDNS0_COOKIE); ok {
			return c.Cookie
		}
	}
	return ""
}

// A client learns a cookie on one node and is known by it on another that shares the
// secret, and not on one that does not.
func TestCookiesAreSharedByNodesWithOneSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(testTable(t))
		keys := &CookieSecrets{Current: CookieSecret{7}}
		cfg.Cookies = func() *CookieSecrets { return keys }
		eu, us := New(cfg), New(cfg)
		cfg.Cookies = nil
		other := New(cfg)
		m := ask(t, eu, withCookie(newQuery("web.gslb.test.", dns.TypeA), "0102030405060708"), UDP)
		require.Equal(t, "web.gslb.test. 20 IN A 192.0.2.1", lines(m.Answer))
		learned := cookieOf(m)
		require.Len(t, learned, 48)
		require.Equal(t, "0102030405060708", learned[:16])
		known := func(s *Server, cookie string) bool {
			q := withCookie(new(dns.Msg), cookie)
			q.Id = 4711
			m := ask(t, s, q, UDP)
			require.Empty(t, m.Answer)
			return m.Rcode == dns.RcodeSuccess
		}
		require.True(t, known(us, learned))
		require.False(t, known(other, learned))
		time.Sleep(2 * time.Hour)
		require.False(t, known(us, learned))
		require.True(t, known(us, "0102030405060708"), "who knows none yet only asks for one")
	})
}

// FAULTS section 5: a bad or absent cookie gets the normal answer and a good cookie;
// BADCOOKIE comes only above the rate; a good cookie is never limited.
func TestCookiesUnderAttack(t *testing.T) {
	cfg := testConfig(testTable(t))
	cfg.RateLimit = RateLimit{PerSecond: 5, Slip: 2}
	s := New(cfg)
	query := func() *dns.Msg { return newQuery("web.gslb.test.", dns.TypeA) }
	got := map[string]int{}
	good := ""
	for range 105 {
		m := ask(t, s, withCookie(query(), "0102030405060708aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), UDP)
		if m == nil {
			got["dropped"]++
			continue
		}
		got[rcodeLabel(m.Rcode)]++
		good = cookieOf(m)
		require.NotEmpty(t, good)
		require.Equal(t, m.Rcode == dns.RcodeSuccess, len(m.Answer) > 0)
		require.False(t, m.Truncated)
	}
	require.Equal(t, map[string]int{"NOERROR": 5, "BADCOOKIE": 50, "dropped": 50}, got)
	for range 50 {
		m := ask(t, s, withCookie(query(), good), UDP)
		require.NotNil(t, m)
		require.Len(t, m.Answer, 1)
		m = ask(t, s, query(), TCP)
		require.NotNil(t, m, "nor is TCP limited")
		require.Len(t, m.Answer, 1)
	}
	plain := map[bool]int{}
	for range 100 {
		m := ask(t, s, query(), UDP)
		plain[m != nil]++
		if m != nil {
			require.True(t, m.Truncated, "who knows no cookies is sent to TCP")
			require.Empty(t, m.Answer)
			require.Nil(t, m.IsEdns0())
		}
	}
	require.Equal(t, map[bool]int{true: 50, false: 50}, plain)
}
