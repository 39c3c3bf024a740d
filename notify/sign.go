package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a request, beside Content-Type.
const (
	HeaderEvent      = "Quorate-Event-Id"   // the event's id; the same whenever it is sent
	HeaderGeneration = "Quorate-Generation" // of the installation; ids are unique within one
	HeaderTimestamp  = "Quorate-Timestamp"  // when it was sent, seconds since 1970
	HeaderSignature  = "Quorate-Signature"  // "v1=" and the HMAC in hexadecimal; absent: not signed
)

const scheme = "v1="

// signature returns what HeaderSignature holds: the HMAC-SHA256 under key of the
// timestamp, a full stop and the body. The time is in it so that an old request
// cannot be played again.
func signature(key []byte, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(timestamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return scheme + hex.EncodeToString(h.Sum(nil))
}

// ErrSignature says that a request does not come from who has the key, or is too old.
var ErrSignature = errors.New("signature does not hold")

// Verify is what a receiver does with a request before it believes it: it checks
// the signature under key, and that the request was sent within tolerance of now.
// A header may hold several signatures, separated by commas.
func Verify(key []byte, header http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	timestamp := header.Get(HeaderTimestamp)
	sent, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is no time", ErrSignature, HeaderTimestamp)
	}
	if age := now.Sub(time.Unix(sent, 0)).Abs(); age > tolerance {
		return fmt.Errorf("%w: sent %s from now", ErrSignature, age.Round(time.Second))
	}
	want := signature(key, timestamp, body)
	for given := range strings.SplitSeq(header.Get(HeaderSignature), ",") {
		if hmac.Equal([]byte(strings.TrimSpace(given)), []byte(want)) {
			return nil
		}
	}
	return ErrSignature
}
