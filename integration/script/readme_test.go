package script

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// notThere is the exit code for an object that does not exist.
const notThere = 5

// tryIt runs the steps of README's "Try it", one by one as they are written. Each
// must do what it says without an error; what is not there yet is waited for.
func (d *demo) tryIt(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(readme), "\n## Try it\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	steps := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			if !strings.HasPrefix(line, "quorate ") && !strings.HasPrefix(line, "sleep ") {
				continue
			}
			d.step(t, line)
			steps++
		}
	}
	require.Greater(t, steps, 25)
}

// step runs one line. The questions of an approval are answered as a person would.
func (d *demo) step(t *testing.T, line string) {
	t.Helper()
	deadline := time.After(untilDeadline)
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), "PATH="+binDir+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+d.config)
		screen, out, err := types(cmd, "orders-db")
		switch {
		case err == nil:
			return
		case errors.Is(err, errors.ErrUnsupported):
			t.Skip("there is no terminal here")
		}
		require.Equal(t, notThere, exitCode(err), "%s%s%s", line, screen, out)
		select {
		case <-deadline:
			t.Fatalf("%sis not there after %s:\n%s%s", line, untilDeadline, screen, out)
		case <-again.C:
		}
	}
}
