package config

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file, or rewrites it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run with -update")
	require.Equal(t, string(want), got)
}

// Each testdata/bad/CASE.yaml is refused with exactly what CASE.want says.
func TestBadFilesAreRefusedWithPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".yaml"), func(t *testing.T) {
			source, err := os.ReadFile(f)
			require.NoError(t, err)
			var errs []FieldError
			if strings.HasPrefix(filepath.Base(f), "node-") {
				var n *Node
				n, errs, _ = ParseNode(filepath.Base(f), source)
				require.Nil(t, n)
			} else {
				var r *Result
				r, errs = ParseSpec(filepath.Base(f), source)
				require.Nil(t, r)
				_, again := ParseSpec(filepath.Base(f), source)
				require.Equal(t, errs, again, "the same errors in the same order")
			}
			require.NotEmpty(t, errs)
			require.True(t, slices.IsSortedFunc(errs, func(a, b FieldError) int {
				if a.Line != b.Line {
					return a.Line - b.Line
				}
				return a.Col - b.Col
			}))
			golden(t, strings.TrimSuffix(f, ".yaml")+".want", Format(errs))
		})
	}
}
