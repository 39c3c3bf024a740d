package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExampleFilesPass(t *testing.T) {
	for _, f := range []string{"spec.min.yaml", "spec.full.yaml"} {
		t.Run(f, func(t *testing.T) {
			r, errs := LoadSpec([]string{filepath.Join("testdata", f)})
			require.Empty(t, Format(errs))
			require.NotNil(t, r)
			t.Log(FormatNotes(r.Unused))
			t.Log(FormatNotes(r.Warnings))
		})
	}
	for _, f := range []string{"node.min.yaml", "node.full.yaml"} {
		t.Run(f, func(t *testing.T) {
			n, errs, notes := LoadNode(filepath.Join("testdata", f))
			require.Empty(t, Format(errs))
			require.NotNil(t, n)
			t.Log(FormatNotes(n.Unused))
			t.Log(FormatNotes(notes))
			_, _ = os.Stdout, notes
		})
	}
}
