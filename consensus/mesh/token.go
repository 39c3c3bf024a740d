package mesh

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"strings"
)

const (
	tokenPrefix     = "qjt1."
	tokenIDBytes    = 8
	tokenSecret     = 24 // 192 bits: guessing is out of reach without any rate limit
	tokenBytes      = tokenIDBytes + tokenSecret + sha256.Size + crc32.Size
	defaultPeerPort = "7654"
)

// ErrBadToken is what every malformed join token is.
var ErrBadToken = errors.New("not a valid join token")

// JoinToken lets one node join once. It names itself, carries a secret, and pins
// the CA the server must show, so that the joining node needs nothing else.
type JoinToken struct {
	ID     string // hex
	Secret string // base64url
	CA     string // fingerprint of the CA, as of Authority.Fingerprint
}

// NewJoinToken returns a fresh token that pins the CA with that fingerprint.
func NewJoinToken(caFingerprint string) (JoinToken, error) {
	pin, err := hex.DecodeString(caFingerprint)
	if err != nil || len(pin) != sha256.Size {
		return JoinToken{}, fmt.Errorf("make join token: CA fingerprint must be %d hex digits, is %q", 2*sha256.Size, caFingerprint)
	}
	b := make([]byte, tokenIDBytes+tokenSecret)
	_, _ = rand.Read(b) // never fails
	return JoinToken{
		ID:     hex.EncodeToString(b[:tokenIDBytes]),
		Secret: base64.RawURLEncoding.EncodeToString(b[tokenIDBytes:]),
		CA:     hex.EncodeToString(pin),
	}, nil
}

// Text returns the whole token, secret included: to be printed once. It is empty
// for a token that neither NewJoinToken nor ParseJoinToken made.
func (t JoinToken) Text() string {
	id, err1 := hex.DecodeString(t.ID)
	secret, err2 := base64.RawURLEncoding.DecodeString(t.Secret)
	pin, err3 := hex.DecodeString(t.CA)
	if errors.Join(err1, err2, err3) != nil {
		return ""
	}
	b := make([]byte, 0, tokenBytes)
	b = append(append(append(b, id...), secret...), pin...)
	// The checksum only tells a slip of copying from a token that was used up.
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// Hash returns the hash of the secret: what the state keeps, to be compared in
// constant time.
func (t JoinToken) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(t.Secret)) }

// String returns the token without its secret.
func (t JoinToken) String() string { return tokenPrefix + t.ID + ".***" }

// LogValue keeps the secret out of logs.
func (t JoinToken) LogValue() slog.Value { return slog.StringValue(t.String()) }

// ParseJoinToken parses what Text printed. The error says what is wrong without
// repeating the secret.
func ParseJoinToken(s string) (JoinToken, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix)
	if !ok {
		return JoinToken{}, fmt.Errorf("%w: it must start with %q", ErrBadToken, tokenPrefix)
	}
	want := base64.RawURLEncoding.EncodedLen(tokenBytes)
	if len(body) != want {
		return JoinToken{}, fmt.Errorf("%w: it must have %d characters after %q, has %d; copy it again, whole", ErrBadToken, want, tokenPrefix, len(body))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return JoinToken{}, fmt.Errorf("%w: it has a character that no token has; copy it again", ErrBadToken)
	}
	sum := len(b) - crc32.Size
	if crc32.ChecksumIEEE(b[:sum]) != binary.BigEndian.Uint32(b[sum:]) {
		return JoinToken{}, fmt.Errorf("%w: its checksum is wrong, some character was changed; copy it again", ErrBadToken)
	}
	return JoinToken{
		ID:     hex.EncodeToString(b[:tokenIDBytes]),
		Secret: base64.RawURLEncoding.EncodeToString(b[tokenIDBytes : tokenIDBytes+tokenSecret]),
		CA:     hex.EncodeToString(b[tokenIDBytes+tokenSecret : sum]),
	}, nil
}

// SplitJoinTarget splits what people type, TOKEN@HOST or TOKEN@HOST:PORT, into the
// token's text and an address to dial. The port is 7654 unless given.
func SplitJoinTarget(s string) (token, addr string, err error) {
	token, addr, ok := strings.Cut(strings.TrimSpace(s), "@")
	if !ok || token == "" || addr == "" {
		return "", "", errors.New("join target must be TOKEN@HOST or TOKEN@HOST:PORT")
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), defaultPeerPort)
	}
	return token, addr, nil
}
