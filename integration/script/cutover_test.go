package script

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// asPerson runs a command at a terminal, with yes to each waiver and then a name:
// types CODE NAME COMMAND... The screen is stderr.
func asPerson(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: types CODE NAME COMMAND...")
	}
	cmd := exec.Command("sh", append([]string{"-c", `exec "$@"`, "sh"}, args[2:]...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	screen, stdout, err := types(cmd, args[1])
	if errors.Is(err, errors.ErrUnsupported) {
		ts.Fatalf("skip: there is no terminal here")
	}
	fmt.Fprint(ts.Stderr(), screen)
	fmt.Fprint(ts.Stdout(), stdout)
	if got := fmt.Sprint(exitCode(err)); got != args[0] {
		ts.Fatalf("%s exits %s, want %s", strings.Join(args[2:], " "), got, args[0])
	}
}

// pending sets CUT to the id of the open cutover, once there is one.
func pending(ts *testscript.TestScript, _ bool, _ []string) {
	until(ts, false, []string{"CUT-", "quorate", "cutover", "list", "--state", "open", "-o", "name"})
	setFound(ts, "CUT", regexp.MustCompile(`(?m)^(CUT-\d+)$`), ts.ReadFile("stdout"))
}

// follower sets FOLLOWER to the name of a node that does not lead, and is not the
// first that the client asks.
func follower(ts *testscript.TestScript, _ bool, _ []string) {
	until(ts, false, []string{`"raft": "leader"`, "quorate", "members", "-o", "json"})
	setFound(ts, "FOLLOWER", regexp.MustCompile(`"name": "((?:us|ap)-1)",\s+"region": "[^"]+",\s+"role": "voter",\s+"raft": "voter"`), ts.ReadFile("stdout"))
}

// evidence sets E to the digest of a cutover: evidence ID.
func evidence(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("quorate", "cutover", "show", args[0], "-o", "json"))
	setFound(ts, "E", regexp.MustCompile(`"evidence": "([^"]+)"`), ts.ReadFile("stdout"))
}

// curlLine is the curl command that approves in the document on cutovers.
var curlLine = regexp.MustCompile(`(?m)^curl .*/approve .*$`)

// documentedCurl does what the curl command in docs/cutovers.md does, with the
// script's variables in place of the shell's, and wants a status: curl STATUS. It
// knows the options that stand there and no others.
func documentedCurl(ts *testscript.TestScript, _ bool, args []string) {
	doc, err := os.ReadFile("../../docs/cutovers.md")
	ts.Check(err)
	line := string(curlLine.Find(doc))
	if line == "" || len(args) != 1 {
		ts.Fatalf("usage: curl STATUS; docs/cutovers.md holds a curl command that approves")
	}
	var method, url, body string
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}} // as curl sends -d
	words := words(line, ts.Getenv)
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "--fail-with-body":
		case "-X":
			i++
			method = words[i]
		case "-d":
			i++
			body = words[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		default:
			if strings.HasPrefix(words[i], "-") || url != "" {
				ts.Fatalf("curl: %q is not known here", words[i])
			}
			url = words[i]
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	ts.Check(err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	answer, err := io.ReadAll(resp.Body)
	ts.Check(errors.Join(err, resp.Body.Close()))
	fmt.Fprintf(ts.Stdout(), "%s\n", answer)
	if got := fmt.Sprint(resp.StatusCode); got != args[0] {
		ts.Fatalf("%s\nanswers %s, want %s: %s", line, resp.Status, args[0], answer)
	}
}

// words splits a line as sh does: quotes of both kinds, and $NAME outside single ones.
func words(line string, getenv func(string) string) []string {
	var all []string
	word, quote, open := "", rune(0), false
	variable := regexp.MustCompile(`^\$([A-Z]+)`)
	for i := 0; i < len(line); i++ {
		r := rune(line[i])
		m := variable.FindStringSubmatch(line[i:])
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote, open = r, true
		case quote == r && quote != 0:
			quote = 0
		case quote != '\'' && m != nil:
			word, open = word+getenv(m[1]), true
			i += len(m[0]) - 1
		case r == ' ' && quote == 0:
			if open {
				all = append(all, word)
			}
			word, open = "", false
		default:
			word, open = word+string(r), true
		}
	}
	if open {
		all = append(all, word)
	}
	return all
}
