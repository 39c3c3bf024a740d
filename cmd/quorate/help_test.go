package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// helpVerbs are the words a help line may start with.
var helpVerbs = []string{
	"Answer", "Ask", "Begin", "Bring", "Check", "Cut", "Drop", "End", "Explain", "Go", "Judge", "Let", "List", "Look", "Make", "Pin", "Print", "Query",
	"Propose", "Reject", "Remove", "Revoke", "Run", "Save", "Show", "Sign", "Start", "Stop", "Switch", "Take", "Undo", "Verify", "Write",
}

func newCLI() *cli { return &cli{in: strings.NewReader(""), out: io.Discard, err: io.Discard} }

func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

func TestHelpLinesStartWithAVerbAndAreShort(t *testing.T) {
	for _, cmd := range everyCommand(newCLI().root()) {
		first, _, _ := strings.Cut(cmd.Short, " ")
		if !slices.Contains(helpVerbs, first) {
			t.Errorf("%s: help line starts with %q, which is no verb of helpVerbs: %q", cmd.CommandPath(), first, cmd.Short)
		}
		if len(cmd.Short) > 60 || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: help line must be at most 60 columns without a period, is %d: %q", cmd.CommandPath(), len(cmd.Short), cmd.Short)
		}
	}
}

func TestHelpEndsWithTwoExamplesThatParse(t *testing.T) {
	for _, cmd := range everyCommand(newCLI().root()) {
		lines := strings.Split(cmd.Example, "\n")
		if len(lines) != 2 {
			t.Errorf("%s has %d examples, want 2", cmd.CommandPath(), len(lines))
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, "  quorate ") {
				t.Errorf("%s: an example must start with two spaces and quorate, is %q", cmd.CommandPath(), line)
			}
			requireParses(t, line)
		}
	}
}

// What the documents tell people to type, the command line knows.
func TestCommandsInDocumentsParse(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	fence := regexp.MustCompile("(?s)```(?:sh|console)\n(.*?)```")
	seen := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				line = strings.TrimPrefix(strings.TrimPrefix(line, "$ "), "./bin/")
				if strings.HasPrefix(line, "quorate ") {
					requireParses(t, line)
					seen++
				}
			}
		}
	}
	require.Greater(t, seen, 10)
}

// So do the pages of the console.
func TestCommandsOnPagesParse(t *testing.T) {
	files, err := filepath.Glob("../../api/console/templates/*.html")
	require.NoError(t, err)
	code := regexp.MustCompile("<code>(quorate [^<{]*)</code>")
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range code.FindAllStringSubmatch(string(text), -1) {
			requireParses(t, m[1])
			seen++
		}
	}
	require.Positive(t, seen)
}

// requireParses wants each command of a line to name a verb with its flags and
// arguments. Two or more spaces start a remark.
func requireParses(t *testing.T, line string) {
	t.Helper()
	line = strings.TrimSpace(line)
	if at := strings.Index(line, "  "); at > 0 {
		line = line[:at]
	}
	for command := range strings.SplitSeq(strings.ReplaceAll(line, "&&", ";"), ";") {
		words := shellWords(strings.TrimSpace(command))
		root := newCLI().root()
		require.Equal(t, "quorate", words[0], line)
		cmd, rest, err := root.Find(words[1:])
		require.NoError(t, err, line)
		require.NoError(t, cmd.ParseFlags(rest), line)
		require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line)
	}
}

// shellWords splits a line at spaces outside quotes.
func shellWords(line string) []string {
	var words []string
	word, quote := "", rune(0)
	for _, r := range line {
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case r == quote:
			quote = 0
		case r == ' ' && quote == 0:
			if word != "" {
				words = append(words, word)
			}
			word = ""
		default:
			word += string(r)
		}
	}
	return append(words, word)
}
