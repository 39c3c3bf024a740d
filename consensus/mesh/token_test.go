package mesh

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newToken(t testing.TB, ca string) JoinToken {
	t.Helper()
	tok, err := NewJoinToken(ca)
	require.NoError(t, err)
	return tok
}

var pin = strings.Repeat("ab", 32)

func TestTokenSurvivesPrinting(t *testing.T) {
	tok := newToken(t, pin)
	got, err := ParseJoinToken(" " + tok.Text() + "\n")
	require.NoError(t, err)
	require.Equal(t, tok, got)
	require.Equal(t, pin, got.CA)
	require.Equal(t, tok.Hash(), got.Hash())
	require.NotEqual(t, tok.Hash(), newToken(t, pin).Hash())
}

func TestAnyChangedCharacterOfATokenIsNoticed(t *testing.T) {
	text := newToken(t, pin).Text()
	for i := range text {
		for _, c := range []byte{'A', 'z', '_', '!', text[i] ^ 1} {
			if c == text[i] {
				continue
			}
			bad := text[:i] + string(c) + text[i+1:]
			_, err := ParseJoinToken(bad)
			require.ErrorIs(t, err, ErrBadToken, "position %d, %q", i, c)
		}
	}
}

func TestBadTokensAreNamed(t *testing.T) {
	text := newToken(t, pin).Text()
	tests := []struct{ name, text, want string }{
		{"empty", "", `must start with "qjt1."`},
		{"another prefix", "qjt2." + text[5:], `must start with "qjt1."`},
		{"truncated", text[:len(text)-3], "characters after"},
		{"too long", text + "A", "characters after"},
		{"a space inside", text[:20] + " " + text[21:], "a character that no token has"},
		{"swapped letters", text[:20] + swap(text[20:]), "checksum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseJoinToken(tt.text)
			require.ErrorIs(t, err, ErrBadToken)
			require.ErrorContains(t, err, tt.want)
			if len(tt.text) > 30 {
				require.NotContains(t, err.Error(), tt.text[10:30], "the error repeats the secret")
			}
		})
	}
}

// swap swaps the first two characters of s that differ.
func swap(s string) string {
	i := 0
	for s[i] == s[i+1] {
		i++
	}
	return s[:i] + string(s[i+1]) + string(s[i]) + s[i+2:]
}

func TestTokenIsNotLogged(t *testing.T) {
	tok := newToken(t, pin)
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("token", "token", tok, "req", JoinRequest{Token: tok.ID, Secret: tok.Secret})
	fmt.Fprintf(&out, "%v %s", tok, tok)
	require.NotContains(t, out.String(), tok.Secret)
	require.Contains(t, out.String(), tok.ID)
}

func TestJoinTargetIsSplit(t *testing.T) {
	tests := []struct{ in, token, addr string }{
		{"qjt1.x@us-1.example.net", "qjt1.x", "us-1.example.net:7654"},
		{"qjt1.x@us-1.example.net:99", "qjt1.x", "us-1.example.net:99"},
		{"qjt1.x@192.0.2.1", "qjt1.x", "192.0.2.1:7654"},
		{"qjt1.x@[2001:db8::1]", "qjt1.x", "[2001:db8::1]:7654"},
		{"qjt1.x@[2001:db8::1]:99", "qjt1.x", "[2001:db8::1]:99"},
		{"qjt1.x@2001:db8::1", "qjt1.x", "[2001:db8::1]:7654"},
		{"qjt1.x", "", ""},
		{"@us-1", "", ""},
		{"qjt1.x@", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			token, addr, err := SplitJoinTarget(tt.in)
			require.Equal(t, tt.token, token)
			require.Equal(t, tt.addr, addr)
			require.Equal(t, tt.addr == "", err != nil)
		})
	}
}

func FuzzParseJoinToken(f *testing.F) {
	f.Add(newToken(f, pin).Text())
	f.Add("qjt1.")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseJoinToken(s)
		if err == nil && tok.Text() != strings.TrimSpace(s) {
			t.Errorf("ParseJoinToken(%q) = token that prints %q", s, tok.Text())
		}
	})
}
