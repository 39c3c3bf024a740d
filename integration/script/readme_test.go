package script

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tryIt runs the steps of README's "Try it", one by one as they are written. Each
// must do what it says without an error.
func (d *demo) tryIt(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(readme), "\n## Try it\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	steps := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			if !strings.HasPrefix(line, "quorate ") {
				continue
			}
			cmd := exec.Command("sh", "-c", line)
			cmd.Env = append(os.Environ(), "PATH="+binDir+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+d.config)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s%s", line, out)
			steps++
		}
	}
	require.Greater(t, steps, 15)
}
