// Package repo holds tests of the repository itself: which package may import
// which, what the pure packages must not touch, and that what the documents
// promise exists.
package repo

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/quorate/quorate"

// arrows names, for each package, the packages of this module that its
// non-test code may import. A folder's own subfolders are listed too. A new arrow
// needs an ADR.
var arrows = map[string][]string{
	"health":                  {},
	"probe":                   {"health"},
	"statestore":              {"health"},
	"statestore/lkg":          {"statestore"},
	"consensus":               {"statestore"},
	"consensus/mesh":          {"statestore"},
	"consensus/consensustest": {"consensus", "statestore"},
	"policy":                  {"statestore", "health"},
	"controller":              {"policy", "statestore", "health"},
	"notify":                  {"statestore"},
	"routing":                 {"statestore", "health", "routing/records", "routing/geo"},
	"routing/geo":             {},
	"routing/routingtest":     {"statestore", "health", "routing", "routing/geo"},
	"routing/records":         {},
	"dnsserver":               {"routing", "dnsserver/dnssec", "dnsserver/wire"},
	"dnsserver/dnssec":        {},
	"dnsserver/wire":          {"routing"},
	"dnsserver/client":        {},
	"api":                     {"policy", "routing", "statestore", "health", "api/apitype", "api/console"},
	"api/apitype":             {"health", "statestore"},
	"api/client":              {"api/apitype"},
	"api/console":             {"api/apitype"},
	"config":                  {"statestore", "health"},
	"bench/dns":               {"dnsserver/client"},
	"bench/demo":              {"api/apitype", "api/client", "cmd/quorate/dev", "config", "dnsserver/client"},
	"bench/probes":            {"health", "probe"},
}

// owners names the only packages that may import an outside module.
var owners = map[string][]string{
	"github.com/hashicorp/raft":            {"consensus", "consensus/consensustest"},
	"github.com/hashicorp/raft-boltdb":     {"consensus"},
	"go.etcd.io/bbolt":                     {"consensus"},
	"github.com/miekg/dns":                 {"dnsserver", "dnsserver/client", "dnsserver/dnssec", "dnsserver/wire", "routing/records", "probe"},
	"github.com/oschwald/maxminddb-golang": {"routing/geo"},
	"gopkg.in/yaml.v3":                     {"config"},
	"github.com/danielgtaylor/huma/v2":     {"api"},
	"github.com/spf13/cobra":               {"cmd/quorate"},
}

// pure packages decide: they may not reach a clock, chance, the network or a file.
var pure = []string{"health", "statestore", "policy", "routing"}

func TestImportsFollowTheArrows(t *testing.T) {
	seen := map[string]bool{}
	for file, imports := range sources(t) {
		pkg := path.Dir(file)
		seen[pkg] = true
		for _, imp := range imports {
			rel, ours := strings.CutPrefix(imp, module+"/")
			if ours && !strings.HasPrefix(pkg, "cmd/") && !strings.HasPrefix(pkg, "tools/") && !strings.HasPrefix(pkg, "integration/") {
				allowed, known := arrows[pkg]
				if !known {
					t.Errorf("%s: package %s has no row in arrows", file, pkg)
				} else if !slices.Contains(allowed, rel) {
					t.Errorf("%s: %s may not import %s (allowed: %v)", file, pkg, rel, allowed)
				}
			}
			for mod, pkgs := range owners {
				if (imp == mod || strings.HasPrefix(imp, mod+"/")) && !slices.Contains(pkgs, pkg) {
					t.Errorf("%s: %s is imported only in %v", file, mod, pkgs)
				}
			}
		}
	}
	for pkg := range arrows {
		if !seen[pkg] && dirHasGo(t, pkg) {
			t.Errorf("arrows has a row for %s, which holds no code", pkg)
		}
	}
}

// People read the arrows in docs/layout.md; they are the ones held here.
func TestTheLayoutDrawsTheSameArrows(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/layout.md"))
	require.NoError(t, err)
	_, drawn, found := strings.Cut(string(text), "## Arrows")
	require.True(t, found)
	drawn, _, _ = strings.Cut(drawn, "\n## ")
	seen := 0
	for line := range strings.Lines(drawn) {
		from, to, ok := strings.Cut(strings.TrimSpace(line), "->")
		if !ok || strings.TrimSpace(to) == "all" {
			continue
		}
		want := names(to)
		for _, pkg := range names(from) {
			seen++
			// Subfolders of a package, its own and others', are left out of the drawing.
			held := slices.DeleteFunc(slices.Clone(arrows[pkg]), func(imp string) bool { return strings.Contains(imp, "/") })
			slices.Sort(held)
			require.Equal(t, want, held, "docs/layout.md draws %s -> %v", pkg, want)
		}
	}
	require.Equal(t, 11, seen, "every package with an arrow is drawn")
}

// names reads a comma list, sorted.
func names(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		out = append(out, strings.TrimSpace(name))
	}
	slices.Sort(out)
	return out
}

func TestPurePackagesImportNothingThatDecidesForThem(t *testing.T) {
	forbidden := []string{"math/rand", "crypto/rand", "net/http", "os", "log", "log/slog", "sync", "unsafe", "reflect", "runtime"}
	allowed := map[string][]string{"statestore": {
		"sync", "sync/atomic", // the Store's lock and its published pointer
		"reflect", // Same, which compares what it is given
	}}
	for file, imports := range sources(t) {
		pkg := path.Dir(file)
		if !slices.Contains(pure, pkg) {
			continue
		}
		for _, imp := range imports {
			bad := slices.ContainsFunc(forbidden, func(f string) bool { return imp == f || strings.HasPrefix(imp, f+"/") })
			if (bad || imp == "net") && !slices.Contains(allowed[pkg], imp) {
				t.Errorf("%s: pure package %s may not import %s", file, pkg, imp)
			}
		}
	}
}

// sources maps every non-test Go file of the module to its imports.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	fset := token.NewFileSet()
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ImportsOnly)
		require.NoError(t, err)
		imports := []string{}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			imports = append(imports, imp)
		}
		files[name] = imports
	}
	require.Greater(t, len(files), 20, "the walk must see the module")
	return files
}

// root is the module's folder, seen from this package.
const root = "../.."

// goFiles lists the module's Go files, relative to root, tools/ apart.
func goFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || p != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(p, ".go"):
			names = append(names, p)
		}
		return nil
	})
	require.NoError(t, err)
	return names
}

func dirHasGo(t *testing.T, dir string) bool {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	return len(matches) > 0
}
