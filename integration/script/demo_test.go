package script

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// demo is what `quorate dev -o json` prints for scripts.
type demo struct {
	Zone    string
	Console string
	Nodes   []struct{ Name, Region, DNS, API string }
	Users   []struct{ Name, Token string }

	config string // its XDG_CONFIG_HOME: the client finds it there
}

// TestDemo runs the demo's scripts in order against one demo. Each leaves it as it
// was: healed, all up, nothing drained or frozen.
func TestDemo(t *testing.T) {
	d := startDemo(t)
	require.True(t, t.Run("the README is true", d.tryIt))
	for _, file := range scripts(t, "testdata/demo") {
		passed := t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Files: []string{file}, UpdateScripts: *update, RequireExplicitExec: true,
				Cmds: commands, Setup: d.setup,
			})
		})
		require.True(t, passed, "what the script left behind would fail the next")
	}
	t.Run("metrics are those of the reference", d.checkMetrics)
}

func (d *demo) setup(env *testscript.Env) error {
	env.Setenv("XDG_CONFIG_HOME", d.config)
	env.Setenv("WEB", "web."+strings.TrimSuffix(d.Zone, "."))
	token := filepath.Join(env.WorkDir, "alice.token")
	if err := os.WriteFile(token, []byte(d.Users[0].Token+"\n"), 0o600); err != nil {
		return err
	}
	env.Setenv("TOKEN", token)
	env.Setenv("Q", d.Nodes[1].API) // with T what the documentation's curl takes
	env.Setenv("T", d.Users[2].Token)
	place, err := filepath.Abs("testdata/place.yaml")
	if err != nil {
		return err
	}
	env.Setenv("PLACE", place)
	env.Setenv("ESCAPES", "one\ntwo\x1b[2Jthree")
	for i, n := range d.Nodes {
		env.Setenv(fmt.Sprintf("API%d", i+1), n.API)
		env.Setenv(fmt.Sprintf("DNS%d", i+1), n.DNS)
	}
	return setup(env)
}

func startDemo(t *testing.T) *demo {
	t.Helper()
	d := &demo{config: t.TempDir()}
	cmd := exec.Command(filepath.Join(binDir, "quorate"), "dev", "-o", "json")
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+d.config)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		defer late.Stop()
		require.NoError(t, cmd.Wait(), "the demo ends in peace when interrupted")
		contexts, err := os.ReadFile(filepath.Join(d.config, "quorate", "contexts.yaml"))
		require.NoError(t, err)
		require.NotContains(t, string(contexts), "demo:", "the demo takes its context away")
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err, "the demo prints one line when everything answers")
	require.NoError(t, json.Unmarshal(line, d))
	require.Len(t, d.Nodes, 3)
	return d
}

// metricsDeadline is how long a metric may take to appear: some come with the
// leader's first heartbeats.
const metricsDeadline = 10 * time.Second

// checkMetrics compares the metrics that the nodes export with
// docs/reference/metrics.md; -update rewrites the file.
func (d *demo) checkMetrics(t *testing.T) {
	const file = "../../docs/reference/metrics.md"
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	got := ""
	deadline := time.After(metricsDeadline)
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for late := false; !late && (got != string(want) || *update); {
		metrics := map[string]string{} // anew: what an open cutover has goes with it
		for _, n := range d.Nodes {
			resp, err := http.Get(n.API + "/metrics")
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			readMetrics(metrics, string(text))
		}
		got = metricsReference(metrics)
		select {
		case <-again.C:
		case <-deadline:
			late = true
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	require.Equal(t, string(want), got, "rewrite it with: go test ./integration/script -run TestDemo -update")
}

var (
	helpLine = regexp.MustCompile(`^# HELP (quorate_\S+) (.*)$`)
	typeLine = regexp.MustCompile(`^# TYPE (quorate_\S+) (\S+)$`)
)

// readMetrics adds the rows of the metrics in an exposition, by name.
func readMetrics(rows map[string]string, exposition string) {
	var name, help string
	for line := range strings.Lines(exposition) {
		line = strings.TrimSuffix(line, "\n")
		if m := helpLine.FindStringSubmatch(line); m != nil {
			name, help = m[1], m[2]
		}
		if m := typeLine.FindStringSubmatch(line); m != nil && m[1] == name {
			rows[name] = fmt.Sprintf("| `%s` | %s | %s |\n", name, m[2], strings.ReplaceAll(help, "|", `\|`))
		}
	}
}

func metricsReference(rows map[string]string) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n")
	b.WriteString("Generated by `go test ./integration/script -run TestDemo -update` from the nodes of the demo; do not edit.\n")
	b.WriteString("Beside these, each node exports `go_*` and `process_*`. A gauge without a value yet is absent.\n")
	b.WriteString("The demo has no receivers and no signed zone: the metrics of those are in [notifications](../notifications.md) and [DNSSEC](../dnssec.md#what-breaks-and-how-to-see-it).\n")
	b.WriteString("Nor has it a check over TLS, a GeoIP file, a reload or a missing secret, which these are of:\n\n")
	b.WriteString("- `quorate_probe_cert_expiry_timestamp_seconds`: when the first certificate that checks saw expires.\n")
	b.WriteString("- `quorate_geoip_build_timestamp_seconds`: when the GeoIP file in use was built.\n")
	b.WriteString("- `quorate_config_last_reload_successful`: 1 when all that the node reads again was taken, 0 while something is refused; `quorate_config_last_reload_success_timestamp_seconds`: when all last was.\n")
	b.WriteString("- `quorate_secrets_unresolved`: 1 for a secret that the spec names and this node cannot read.\n\n")
	b.WriteString("Counters of a zone, service or cluster are no longer shown once the spec has it no more, and go on from their last value if it comes back. DNS counts in cells of its workers, which no scrape holds up; of durations a sample is taken, weighted to stand for all queries.\n\n")
	b.WriteString("| Metric | Type | Meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	return b.String()
}
