package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every guarantee, and every loss that a page promises something for, names the
// tests that prove it, and they exist.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	tests := testNames(t)
	for _, page := range []string{"docs/guarantees.md", "docs/what-happens-when.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		named := regexp.MustCompile(`\b(Test|Fuzz)[A-Za-z0-9_]+`).FindAllString(string(text), -1)
		require.NotEmpty(t, named)
		for _, name := range named {
			if !tests[name] {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
}

// Who follows a move, a placement or a query through the code finds each file that the
// page names: in the folder named last in its cell, statestore in the third column.
func TestTheLayoutNamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/layout.md"))
	require.NoError(t, err)
	file := regexp.MustCompile("`([a-z_/]+\\.go)`")
	named := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for i, dir := range []string{"", "", "", "statestore"}[:len(cells)-1] {
			for _, m := range file.FindAllStringSubmatch(cells[i], -1) {
				name := m[1]
				if strings.Contains(name, "/") {
					dir = filepath.Dir(name)
				}
				named++
				if _, err := os.Stat(filepath.Join(root, dir, filepath.Base(name))); err != nil {
					t.Errorf("docs/layout.md names %s/%s: %v", dir, filepath.Base(name), err)
				}
			}
		}
	}
	require.Greater(t, named, 40, "the tables were read")
}

// Each direct requirement has a reason, a licence and an alternative on record.
func TestEveryDirectDependencyHasALine(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	require.NoError(t, err)
	require.NotContains(t, string(mod), "\nreplace ", "go.mod has no replace")
	direct := 0
	for _, line := range strings.Split(string(mod), "\n") {
		m := regexp.MustCompile(`^\s+(\S+) v\S+$`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		direct++
		if !strings.Contains(string(doc), "`"+m[1]+"`") {
			t.Errorf("docs/dependencies.md has no line for %s", m[1])
		}
	}
	require.Greater(t, direct, 5)
}

// Each package says once what it is.
func TestEveryPackageHasOneDocComment(t *testing.T) {
	docs, dirs := map[string][]string{}, map[string]bool{}
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := filepath.Dir(name)
		dirs[dir] = true
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		if f.Doc != nil {
			docs[dir] = append(docs[dir], name)
			want := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" {
				want = "Command "
			}
			if !strings.HasPrefix(f.Doc.Text(), want) {
				t.Errorf("%s: the package comment must start with %q", name, want)
			}
		}
	}
	for dir := range dirs {
		if len(docs[dir]) != 1 {
			t.Errorf("package %s has %d doc comments, in %v; want one", dir, len(docs[dir]), docs[dir])
		}
	}
}

// From testify only require, so that a test stops at its first lie.
func TestTestsUseOnlyRequireFromTestify(t *testing.T) {
	for _, name := range goFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imp := range f.Imports {
			if strings.Contains(imp.Path.Value, "stretchr/testify/") && imp.Path.Value != `"github.com/stretchr/testify/require"` {
				t.Errorf("%s imports %s", name, imp.Path.Value)
			}
		}
	}
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, name := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && slices.ContainsFunc([]string{"Test", "Fuzz"}, func(p string) bool {
				return strings.HasPrefix(fn.Name.Name, p)
			}) {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
