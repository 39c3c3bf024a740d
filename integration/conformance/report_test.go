//go:build conformance

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// report collects what each suite counted, one line a suite.
type report struct {
	mu    sync.Mutex
	lines []string
}

// summary is printed when all suites have run.
var summary = new(report)

func (r *report) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func TestMain(m *testing.M) {
	code := m.Run()
	fmt.Println("\nconformance")
	for _, line := range summary.lines {
		fmt.Println("  " + line)
	}
	os.Exit(code)
}

// requireTools skips where a tool is missing, and fails there in CI.
func requireTools(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		} else if os.Getenv("CI") != "" {
			t.Fatal(err)
		} else {
			t.Skip(err)
		}
	}
}

// thousands writes n as 64,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// run runs a command that must work.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}
