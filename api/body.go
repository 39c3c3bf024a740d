package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api/apitype"
)

type bodySumKey struct{}

// readBody reads a body whole, within its limit, and remembers its digest: the
// idempotency of a write is judged on what was sent.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) *apitype.Problem {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return nil
	}
	limit := int64(maxBody)
	for _, path := range []string{"/v1/spec", "/v1/plans", "/v1/replays"} {
		if strings.HasPrefix(r.URL.Path, path) {
			limit = maxSpecBody
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return problem(http.StatusRequestEntityTooLarge, apitype.ProblemTooLarge, "the body must be at most %d bytes", limit)
		}
		return problem(http.StatusBadRequest, apitype.ProblemValidation, "the body could not be read whole")
	}
	h := sha256.New()
	_, _ = io.WriteString(h, r.Method+" "+r.URL.RequestURI()+"\n") // a hash never fails to write
	_, _ = h.Write(data)
	sum := hex.EncodeToString(h.Sum(nil)[:12])
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	*r = *r.WithContext(context.WithValue(r.Context(), bodySumKey{}, sum))
	return nil
}

// bodySum returns the digest of what was sent.
func bodySum(r *http.Request) string {
	sum, _ := r.Context().Value(bodySumKey{}).(string)
	return sum
}
