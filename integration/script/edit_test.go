package script

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// weights copies a spec of the demo with other weights of web: weights FROM TO EU US AP.
func weights(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 5 {
		ts.Fatalf("usage: weights FROM TO EU US AP")
	}
	const policy = "policy: { type: weighted }"
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, policy) {
		ts.Fatalf("%s holds no %q", args[0], policy)
	}
	with := "policy: { type: weighted, weights: { eu: " + args[2] + ", us: " + args[3] + ", ap: " + args[4] + " } }"
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Replace(text, policy, with, 1)), 0o600))
}

// edited copies a file with one text in place of another: edited FROM TO OLD NEW.
func edited(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: edited FROM TO OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[2]) {
		ts.Fatalf("%s holds no %q:\n%s", args[0], args[2], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Replace(text, args[2], args[3], 1)), 0o600))
}

var portOf = map[string]*regexp.Regexp{
	"8880": regexp.MustCompile(`port: (\d+), path: /healthz`),
	"8008": regexp.MustCompile(`port: (\d+), path: /readiness`),
}

// placed writes the spec of placement with the ports of the demo that runs: placed
// SPEC TO, the first being the demo's own.
func placed(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: placed SPEC TO")
	}
	own, text := ts.ReadFile(args[0]), ts.ReadFile(ts.Getenv("PLACE"))
	for written, pattern := range portOf {
		m := pattern.FindStringSubmatch(own)
		if m == nil {
			ts.Fatalf("%s is not in %s:\n%s", pattern, args[0], own)
		}
		text = strings.ReplaceAll(text, "port: "+written, "port: "+m[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// planID sets a variable to the id of the plan on stdout: planid VARIABLE.
func planID(ts *testscript.TestScript, _ bool, args []string) {
	setFound(ts, args[0], regexp.MustCompile(`"id": "([^"]+)"`), ts.ReadFile("stdout"))
}

// tokenID sets ID to the id of the token in a file: tokenid FILE.
func tokenID(ts *testscript.TestScript, _ bool, args []string) {
	setFound(ts, "ID", regexp.MustCompile(`^qt1\.([^.]+)\.`), ts.ReadFile(args[0]))
}

func setFound(ts *testscript.TestScript, variable string, pattern *regexp.Regexp, text string) {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		ts.Fatalf("%s is not in:\n%s", pattern, text)
	}
	ts.Setenv(variable, m[1])
}

// post sends a file to a node's API as alice and wants a status: post STATUS URL FILE.
func post(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: post STATUS URL FILE")
	}
	req, err := http.NewRequest(http.MethodPost, args[1], strings.NewReader(ts.ReadFile(args[2])))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(ts.Getenv("TOKEN"))))
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	_ = resp.Body.Close() // only the status counts
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("POST %s answers %s, want %s", args[1], resp.Status, args[0])
	}
}

// flip changes one bit in the middle of a file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(path, b, 0o600))
}
