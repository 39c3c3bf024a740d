package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// maxLines is where a file holds more than one idea: 400 is the aim.
const maxLines = 500

func TestFilesAreShort(t *testing.T) {
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if n := fset.File(f.Pos()).LineCount(); n > maxLines {
			t.Errorf("%s has %d lines; split it by what it holds, at most %d", name, n, maxLines)
		}
	})
}

// A package that works when it is imported cannot be tested without its work.
func TestNothingHappensAtImport(t *testing.T) {
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: has an init function", fset.Position(fn.Pos()))
			}
		}
	})
}

// Two installations in one process, as every test of several nodes has, must not
// meet in a variable.
func TestPackageVariablesDoNotChange(t *testing.T) {
	for dir, files := range packages(t) {
		vars := map[string]bool{}
		for _, f := range files {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
					for _, spec := range g.Specs {
						for _, id := range spec.(*ast.ValueSpec).Names {
							vars[id.Name] = id.Name != "_"
						}
					}
				}
			}
		}
		for name, f := range files {
			for _, changed := range assigned(f, vars) {
				t.Errorf("%s: package variable %s of %s is changed", name, changed, dir)
			}
		}
	}
}

// An operator greps for what a line says, so the words stay the same and the
// values stand beside them under keys that are constants of the package.
func TestLogLinesAreLowerCaseSentencesWithConstantKeys(t *testing.T) {
	lines := 0
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, call := range logCalls(f) {
			lines++
			for _, fault := range logFaults(call) {
				t.Errorf("%s: %s", fset.Position(call.Pos()), fault)
			}
		}
	})
	require.Greater(t, lines, 20, "the walk must see the log lines")
}

// A sleep is a guess about the machine. Inside synctest it is exact.
func TestTestsSleepOnlyInVirtualTime(t *testing.T) {
	virtual := map[string]bool{} // folders that use synctest
	eachFile(t, func(name string, _ *token.FileSet, f *ast.File) {
		virtual[filepath.Dir(name)] = virtual[filepath.Dir(name)] || imports(f, "testing/synctest")
	})
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(name, "_test.go") || virtual[filepath.Dir(name)] {
			return
		}
		for _, pos := range sleeps(f) {
			t.Errorf("%s: sleeps in real time; poll a condition with a deadline", fset.Position(pos))
		}
	})
}

func TestTheStyleChecksCatchPlantedFaults(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "planted.go", `package p
import "time"
var seen, limit = map[string]int{}, 3
func f(log *slog.Logger) {
	log.Info("Member added", "name", 1)
	log.With("node", 1)
	log.Log(ctx, level, "member added.", keyName, 1)
	log.Warn("member added", keyName, 1)
	limit = 4
	seen["x"]++
	limit := 5
	limit++
	time.Sleep(1)
}`, 0)
	require.NoError(t, err)
	calls := logCalls(f)
	var faults []int
	for _, call := range calls {
		faults = append(faults, len(logFaults(call)))
	}
	require.Equal(t, []int{2, 1, 1, 0}, faults)
	require.Equal(t, []string{"limit", "seen"}, assigned(f, map[string]bool{"seen": true, "limit": true}))
	require.Len(t, sleeps(f), 1)
}

// logPairs tells at which argument the pairs of a log method begin.
var logPairs = map[string]int{"With": 0, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3}

// logCalls returns the calls of f that write a log record or prepare one: methods
// of such a name on something called log.
func logCalls(f *ast.File) []*ast.CallExpr {
	var calls []*ast.CallExpr
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if _, writes := logPairs[sel.Sel.Name]; !writes {
			return true
		}
		on := ""
		switch x := sel.X.(type) {
		case *ast.Ident:
			on = x.Name
		case *ast.SelectorExpr:
			on = x.Sel.Name
		}
		if strings.EqualFold(on, "log") {
			calls = append(calls, call)
		}
		return true
	})
	return calls
}

func logFaults(call *ast.CallExpr) []string {
	var faults []string
	pairs := logPairs[call.Fun.(*ast.SelectorExpr).Sel.Name]
	for i, arg := range call.Args {
		lit, ok := arg.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			continue
		}
		switch first, _ := utf8.DecodeRuneInString(text); {
		case i >= pairs && (i-pairs)%2 == 0:
			faults = append(faults, "the key "+lit.Value+" must be a constant")
		case i == pairs-1 && unicode.IsUpper(first) && !strings.HasPrefix(text, "DNS "):
			faults = append(faults, "the message must start in lower case: "+lit.Value)
		case i == pairs-1 && strings.HasSuffix(text, "."):
			faults = append(faults, "the message must not end with a period: "+lit.Value)
		}
	}
	return faults
}

// assigned returns the names in vars that f's functions assign to, change in
// place or count up, in order of the source. A local variable of the same name
// hides the package's.
func assigned(f *ast.File, vars map[string]bool) []string {
	var names []string
	changes := func(e ast.Expr) {
		if x, ok := e.(*ast.IndexExpr); ok {
			e = x.X
		}
		// The parser resolves what the file itself declares; what another file of the
		// package does, it leaves without an object.
		if id, ok := e.(*ast.Ident); ok && vars[id.Name] && (id.Obj == nil || f.Scope.Lookup(id.Name) == id.Obj) {
			names = append(names, id.Name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					changes(e)
				}
			}
		case *ast.IncDecStmt:
			changes(n.X)
		}
		return true
	})
	return names
}

func sleeps(f *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
				found = append(found, sel.Pos())
			}
		}
		return true
	})
	return found
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(path) })
}

// packages maps each folder to its parsed non-test files by name.
func packages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	byDir := map[string]map[string]*ast.File{}
	eachFile(t, func(name string, _ *token.FileSet, f *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := filepath.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = map[string]*ast.File{}
		}
		byDir[dir][name] = f
	})
	return byDir
}

// eachFile parses every Go file of the module.
func eachFile(t *testing.T, see func(name string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	for _, name := range goFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, 0)
		require.NoError(t, err)
		see(name, fset, f)
	}
}
