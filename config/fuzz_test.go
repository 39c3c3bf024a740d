package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/statestore"
)

// FuzzParseSpec holds that no input panics, that a spec or errors come back and
// never both, and that a spec that passes survives JSON and its own source (G13).
func FuzzParseSpec(f *testing.F) {
	seeds, _ := filepath.Glob("testdata/*.yaml")
	bad, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, s := range append(seeds, bad...) {
		b, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("--- # file: a\nversion: 1\n--- # file: b\nzones: {}\n"))
	f.Add([]byte(specBase))
	f.Add([]byte(around))
	f.Fuzz(func(t *testing.T, source []byte) {
		r, errs := ParseSpec("spec.yaml", source)
		if (r == nil) != (len(errs) > 0) {
			t.Fatalf("result %v with %d errors", r, len(errs))
		}
		Format(errs)
		if n, errs, _ := ParseNode("node.yaml", source); (n == nil) != (len(errs) > 0) {
			t.Fatalf("node %v with %d errors", n, len(errs))
		}
		if r == nil {
			return
		}
		for _, w := range r.Warnings {
			if w.Line < 1 || w.Col < 1 || w.Path == "" {
				t.Fatalf("a warning without a place: %s", w)
			}
		}
		SecretNames(r.Spec)
		b, err := json.Marshal(r.Spec)
		if err != nil {
			t.Fatal(err)
		}
		var back statestore.Spec
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if again, errs := ParseSpec("spec.yaml", []byte(r.Source)); again == nil {
			t.Fatalf("own source is refused: %s", Format(errs))
		}
	})
}
