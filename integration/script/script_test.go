package script

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the scripts' golden parts and docs/reference/metrics.md")

// binDir holds the built command; TestMain sets it before any test runs.
var binDir string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "quorate-script-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the system's temporary folder
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "quorate"), "../../cmd/quorate")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build quorate: %v\n%s", err, out)
		return 1
	}
	binDir = dir
	return m.Run()
}

// TestCommandLine runs the scripts that need no demo.
func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cli", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: commands, Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
			return setup(env)
		},
	})
}

// setup gives a script the command, the configuration examples, addresses that
// are free and one that is taken.
func setup(env *testscript.Env) error {
	examples, err := filepath.Abs("../../config/testdata")
	if err != nil {
		return err
	}
	env.Setenv("PATH", binDir+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("EXAMPLES", examples)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	env.Defer(func() { _ = taken.Close() })
	env.Setenv("TAKEN", taken.Addr().String())
	for i := range 8 {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		env.Setenv(fmt.Sprintf("ADDR%d", i+1), addr)
	}
	return nil
}

// Ports for servers are below those that systems give to outgoing connections:
// any of these may be taken between the choice and its use.
const firstPort, lastPort = 21000, 29999

// tried is the last port looked at; processes start at different ones.
var tried atomic.Int32

// freeAddr returns an address that nothing in this process was given before.
func freeAddr() (string, error) {
	tried.CompareAndSwap(0, int32(os.Getpid()*64%(lastPort-firstPort)))
	for range lastPort - firstPort {
		port := firstPort + int(tried.Add(1))%(lastPort-firstPort)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if ln, err := net.Listen("tcp", addr); err == nil {
			_ = ln.Close() // only asked whether it is free
			return addr, nil
		}
	}
	return "", fmt.Errorf("no port from %d to %d is free", firstPort, lastPort)
}

var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":  exits,
	"until":  until,
	"steady": steady,
	"joins":  joins,

	"types": asPerson, "pending": pending, "follower": follower, "evidence": evidence, "curl": documentedCurl,

	"weights": weights, "edited": edited, "placed": placed, "planid": planID, "tokenid": tokenID, "post": post, "flip": flip,
}

// exits runs a command and wants the documented exit code: exits CODE COMMAND...
// A failure is told in words, never as a stack trace.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := exitCode(ts.Exec(args[1], args[2:]...))
	talk := ts.ReadFile("stderr")
	if got != want {
		ts.Fatalf("%s exits %d, want %d", strings.Join(args[1:], " "), got, want)
	}
	for _, trace := range []string{"goroutine ", "panic:", ".go:"} {
		if strings.Contains(talk, trace) {
			ts.Fatalf("stderr holds a stack trace (%q)", trace)
		}
	}
}

// joins runs a join with the token in a file: joins FILE HOST:PORT quorate join...
func joins(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: [!] joins FILE HOST:PORT quorate join [FLAG]...")
	}
	token := strings.TrimSpace(ts.ReadFile(args[0]))
	if err := ts.Exec(args[2], append(args[3:], token+"@"+args[1])...); (err != nil) != neg {
		ts.Fatalf("join: %v", err)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// untilDeadline is far above what a change takes, for a loaded machine.
const untilDeadline = 30 * time.Second

// until runs a command again and again until its stdout holds a text: until TEXT
// COMMAND...; "! until" until it no longer does.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] until TEXT COMMAND...")
	}
	deadline := time.After(untilDeadline)
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if strings.Contains(out, args[0]) != neg && (err == nil || !neg) {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("after %s %s still prints:\n%s%s", untilDeadline, strings.Join(args[1:], " "), out, ts.ReadFile("stderr"))
		case <-again.C:
		}
	}
}

// steadyFor is longer than an election and the confirmations after it: what a node
// that just started kept from before looks settled until then.
const steadyFor = 4 * time.Second

// steady runs a command until its stdout has lacked a text for steadyFor without a
// break: steady TEXT COMMAND...
func steady(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: steady TEXT COMMAND...")
	}
	deadline := time.After(untilDeadline)
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	var since time.Time
	for {
		err := ts.Exec(args[1], args[2:]...)
		switch {
		case err != nil || strings.Contains(ts.ReadFile("stdout"), args[0]):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= steadyFor:
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("%s did not stay without %q", strings.Join(args[1:], " "), args[0])
		case <-again.C:
		}
	}
}

// scripts lists the scripts of a folder by name.
func scripts(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}
