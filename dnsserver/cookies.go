package dnsserver

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"time"
)

// CookieSecret is a key of server cookies.
type CookieSecret [16]byte

// CookieSecrets are the keys of server cookies (RFC 9018 5). All nodes, and other
// servers behind one address, need the same. They are not changed once handed out.
type CookieSecrets struct {
	Current  CookieSecret   // makes cookies
	Accepted []CookieSecret // whose cookies are good too: the next one and the previous one of a rollover
}

// ParseCookieSecret reads a key: 16 octets as they are, or as 32 hexadecimal digits.
// The error does not hold the value.
func ParseCookieSecret(b []byte) (CookieSecret, error) {
	var key CookieSecret
	switch {
	case len(b) == len(key):
		copy(key[:], b)
		return key, nil
	case len(b) == hex.EncodedLen(len(key)):
		if _, err := hex.Decode(key[:], b); err == nil {
			return key, nil
		}
	}
	return CookieSecret{}, errors.New("a cookie secret must be 16 octets or 32 hexadecimal digits (openssl rand -hex 16)")
}

// DrawCookieSecrets returns keys of a node that shares none.
func DrawCookieSecrets() *CookieSecrets {
	s := new(CookieSecrets)
	_, _ = rand.Read(s.Current[:]) // never fails
	return s
}

// cookieSecrets returns the keys in use.
func (s *Server) cookieSecrets() *CookieSecrets {
	if s.cfg.Cookies != nil {
		if shared := s.cfg.Cookies(); shared != nil {
			return shared
		}
	}
	return s.cookies
}

const (
	clientCookie = 8
	serverCookie = 16 // as RFC 9018 makes them; those of others have 8 to 32 octets
	minCookie    = clientCookie + 8
	maxCookie    = clientCookie + 32

	// How old a cookie may be, how far ahead another server's clock, and from what age
	// on the client gets a fresh one (RFC 9018 4.3).
	cookieLife  = time.Hour
	cookieAhead = 5 * time.Minute
	cookieFresh = 30 * time.Minute
)

// cookie is a COOKIE option of a query, and what is sent back. The zero value is a
// query without one.
type cookie struct {
	client []byte // as it came; nil: the query had no cookie
	server []byte // as it came; empty: the client knows none yet
	good   bool   // the client showed that it gets what is sent to its address
	reply  []byte // the option's data in the answer
}

// readCookie takes the data of a COOKIE option, and reports whether its length is one
// that the option can have (RFC 7873 5.2.2).
func readCookie(data []byte) (cookie, bool) {
	if len(data) != clientCookie && (len(data) < minCookie || len(data) > maxCookie) {
		return cookie{}, false
	}
	return cookie{client: data[:clientCookie], server: data[clientCookie:]}, true
}

// answer checks the server cookie and makes the reply: the same cookie while it is
// good and young, else a fresh one.
func (c *cookie) answer(secrets *CookieSecrets, client netip.Addr, now time.Time) {
	at := uint32(now.Unix()) // serial number arithmetic (RFC 1982) carries it beyond 2106
	renew := true
	if len(c.server) == serverCookie && c.server[0] == 1 {
		age := time.Duration(int32(at-binary.BigEndian.Uint32(c.server[4:8]))) * time.Second
		if age <= cookieLife && age >= -cookieAhead {
			current := c.madeBy(secrets.Current, client)
			c.good = current
			for _, s := range secrets.Accepted {
				if c.madeBy(s, client) {
					c.good = true
				}
			}
			renew = !current || age > cookieFresh
		}
	}
	c.reply = append(make([]byte, 0, clientCookie+serverCookie), c.client...)
	if !renew {
		c.reply = append(c.reply, c.server...)
		return
	}
	c.reply = append(c.reply, 1, 0, 0, 0) // version, reserved
	c.reply = binary.BigEndian.AppendUint32(c.reply, at)
	c.reply = binary.LittleEndian.AppendUint64(c.reply, cookieHash(secrets.Current, c.reply, client))
}

func (c *cookie) madeBy(secret CookieSecret, client netip.Addr) bool {
	var want [8]byte
	var head [16]byte
	copy(head[:], c.client)
	copy(head[clientCookie:], c.server[:8]) // the reserved octets as they came (RFC 9018 4.2)
	binary.LittleEndian.PutUint64(want[:], cookieHash(secret, head[:], client))
	return subtle.ConstantTimeCompare(want[:], c.server[8:]) == 1
}

// cookieHash is the hash of a cookie that begins with client cookie, version,
// reserved octets and time, for a client: its address in 4 or 16 octets, whatever
// socket it came in by.
func cookieHash(secret CookieSecret, head []byte, client netip.Addr) uint64 {
	var b [32]byte
	n := copy(b[:], head[:16])
	if client = client.Unmap(); client.Is4() {
		a := client.As4()
		n += copy(b[n:], a[:])
	} else {
		a := client.As16()
		n += copy(b[n:], a[:])
	}
	return sipHash(secret, b[:n])
}
