package notify

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func signed(key, body string, at time.Time) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	h := http.Header{}
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, signature([]byte(key), timestamp, []byte(body)))
	return h
}

// Computed with: printf '1700000000.{"id":"7"}' | openssl dgst -sha256 -hmac secret
func TestTheSignatureIsAsDocumented(t *testing.T) {
	require.Equal(t, "v1=a0cdef99f77508f9e6ee54f2d55386aa21abb0b6c8084e1ec566b2b8dc697267", signature([]byte("secret"), "1700000000", []byte(`{"id":"7"}`)))
}

func TestVerify(t *testing.T) {
	const key, body = "secret", `{"id":"7"}`
	now := time.Unix(1_700_000_000, 0)
	with := func(name, value string) http.Header {
		h := signed(key, body, now)
		h.Set(name, value)
		return h
	}
	good := signed(key, body, now).Get(HeaderSignature)
	tests := []struct {
		name   string
		key    string
		header http.Header
		body   string
		at     time.Duration
		ok     bool
	}{
		{"as it was sent", key, signed(key, body, now), body, 0, true},
		{"a little late", key, signed(key, body, now), body, 5 * time.Minute, true},
		{"from a clock ahead of ours", key, signed(key, body, now), body, -5 * time.Minute, true},
		{"one of two signatures", key, with(HeaderSignature, "v1=00, "+good), body, 0, true},
		{"played again later", key, signed(key, body, now), body, 6 * time.Minute, false},
		{"from far ahead", key, signed(key, body, now), body, -6 * time.Minute, false},
		{"under another key", "Secret", signed(key, body, now), body, 0, false},
		{"of another time", key, with(HeaderTimestamp, "1700000001"), body, 0, false},
		{"without a time", key, with(HeaderTimestamp, ""), body, 0, false},
		{"without a signature", key, with(HeaderSignature, ""), body, 0, false},
		{"of another scheme", key, with(HeaderSignature, strings.Replace(good, "v1", "v0", 1)), body, 0, false},
		{"cut short", key, with(HeaderSignature, good[:len(good)-1]), body, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Verify([]byte(tt.key), tt.header, []byte(tt.body), now.Add(tt.at), 5*time.Minute)
			if tt.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrSignature)
			require.NotContains(t, err.Error(), good[3:], "an error is no oracle")
		})
	}
}

// Any flipped bit of the body or the signature is noticed.
func TestAFlippedBitDoesNotVerify(t *testing.T) {
	const key, body = "secret", `{"specversion":"1.0","id":"88112"}`
	now := time.Unix(1_700_000_000, 0)
	h := signed(key, body, now)
	for i := range len(body) * 8 {
		b := []byte(body)
		b[i/8] ^= 1 << (i % 8)
		require.ErrorIs(t, Verify([]byte(key), h, b, now, time.Minute), ErrSignature)
	}
	sig := h.Get(HeaderSignature)
	for i := range len(sig) * 8 {
		b := []byte(sig)
		b[i/8] ^= 1 << (i % 8)
		h.Set(HeaderSignature, string(b))
		require.ErrorIs(t, Verify([]byte(key), h, []byte(body), now, time.Minute), ErrSignature)
	}
}

// The script of docs/notifications.md does what Verify does.
func TestTheDocumentedScriptVerifies(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "openssl is missing: %v", err)
		t.Skip("openssl is not here")
	}
	page, err := os.ReadFile("../docs/notifications.md")
	require.NoError(t, err)
	_, script, found := strings.Cut(string(page), "```sh\n# verify.sh")
	require.True(t, found, "the page has the script")
	script, _, _ = strings.Cut(script, "```")
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const body = `{"id":"7","data":{"text":"50% of \"it\"\\n"}}` + "\n"
	file := put("verify.sh", script)
	h := signed("secret key", body, time.Now())
	run := func(timestamp, sig, body string) error {
		cmd := exec.Command("sh", file, put("key", "secret key"), timestamp, sig, put("body", body))
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		return cmd.Run()
	}
	require.NoError(t, run(h.Get(HeaderTimestamp), h.Get(HeaderSignature), body))
	require.Error(t, run(h.Get(HeaderTimestamp), h.Get(HeaderSignature), body+" "))
	require.Error(t, run("1700000000", signed("secret key", body, time.Unix(1_700_000_000, 0)).Get(HeaderSignature), body), "too old")
	require.Error(t, run(h.Get(HeaderTimestamp), "v1=", body))
}
