package database

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Path is where a database says that it could serve: it runs, as active side or as
// a replica. The demo's check asks it.
const Path = "/readiness"

// maxWrite bounds a write's body; it holds a token and nothing else that is kept.
const maxWrite = 1 << 16

// Handler serves cluster's database: GET Path, and POST /write, whose body is empty
// or {"token": {"installation": ..., "generation": ..., "epoch": ...}}.
func (s *Set) Handler(cluster string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("POST /write", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Token Token `json:"token"`
		}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWrite)).Decode(&body)
		if err != nil && !errors.Is(err, io.EOF) {
			http.Error(w, "read the write: "+err.Error(), http.StatusBadRequest)
			return
		}
		receipt, err := s.Write(cluster, body.Token)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if !receipt.Accepted {
			w.WriteHeader(http.StatusConflict)
		}
		_ = json.NewEncoder(w).Encode(receipt) // the writer has gone if this fails
	})
	return mux
}
