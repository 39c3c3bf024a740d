package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clockCalls are the functions of package time that read a clock or wait on one.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// The same votes must give the same verdict on every node and in every replay
// (G15), so no pure package may read a clock or start a goroutine.
func TestPurePackagesReadNoClockAndStartNoGoroutine(t *testing.T) {
	checked := 0
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") || !slices.Contains(pure, path.Dir(name)) {
			continue
		}
		checked++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, 0)
		require.NoError(t, err)
		for _, finding := range impurities(fset, f) {
			t.Errorf("%s", finding)
		}
	}
	require.Greater(t, checked, 10)
}

func TestTheClockCheckCatchesAPlantedClock(t *testing.T) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "planted.go", "package p\nimport \"time\"\nfunc f() time.Time { go f(); return time.Now() }", 0)
	require.NoError(t, err)
	require.Len(t, impurities(fset, f), 2)
}

// impurities lists what in f reads a clock or starts a goroutine, with positions.
func impurities(fset *token.FileSet, f *ast.File) []string {
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, fset.Position(n.Pos()).String()+": starts a goroutine in a pure package")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
				found = append(found, fset.Position(n.Pos()).String()+": reads the clock in a pure package: time."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}
