// Command probes measures the probe scheduler: whether it keeps the intervals of
// tens of thousands of checks and at what cost, beside prometheus-blackbox-exporter
// at the same rate, and whether the loss of a thousand targets starts a storm.
//
//	go run ./bench/probes          # minutes; the figures worth quoting
//	go run ./bench/probes -short   # a minute, to see that it works
//
// It prints a Markdown table and exits 1 when a gate is missed. Server, prober and
// exporter are processes of their own, so that each one's CPU time is its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	short    bool
	rounds   int
	blackbox string
	profile  string
	child    string
}

func main() {
	var o options
	flag.BoolVar(&o.short, "short", false, "a quick run at the same rate with fewer checks")
	flag.IntVar(&o.rounds, "rounds", 2, "rounds of each prober, in turn")
	flag.StringVar(&o.blackbox, "blackbox", "prometheus-blackbox-exporter", "the exporter to compare with, left out when it is not installed")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of the prober's first round to this file")
	flag.StringVar(&o.child, "child", "", "used by the command itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	switch {
	case errors.Is(err, errMissed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "probes:", err)
		os.Exit(1)
	}
}

// errMissed says that a gate was missed; the table says which.
var errMissed = errors.New("a gate is missed")

func run(ctx context.Context, o options) error {
	switch o.child {
	case "target":
		return targetMain(ctx, os.Stdin, os.Stdout)
	case "prober":
		return proberMain(ctx, os.Stdin, os.Stdout)
	}
	s := steady{Checks: 20_000, Interval: 10 * time.Second, For: 60 * time.Second}
	if o.short {
		s = steady{Checks: 4_000, Interval: 2 * time.Second, For: 12 * time.Second}
		o.rounds = 1
	}
	var t table
	if err := measureSteady(ctx, o, s, &t); err != nil {
		return err
	}
	for _, how := range []string{refuse, hang} {
		if err := measureStorm(ctx, o, how, &t); err != nil {
			return err
		}
	}
	fmt.Print(t.String())
	if t.missed {
		return errMissed
	}
	return nil
}

// table collects what was measured.
type table struct {
	rows   []string
	missed bool
}

// add adds a figure; gate is empty when it is for information.
func (t *table) add(what, value, gate string, kept bool) {
	verdict := ""
	if gate != "" {
		verdict = "yes"
		if !kept {
			verdict, t.missed = "**no**", true
		}
	}
	t.rows = append(t.rows, fmt.Sprintf("| %s | %s | %s | %s |", what, value, gate, verdict))
}

func (t *table) String() string {
	return "| What | Measured | Gate | Kept |\n|---|---|---|---|\n" + strings.Join(t.rows, "\n") + "\n"
}

// child is a process of ours that takes orders, one JSON line each, and answers
// each with one.
type child struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// startChild starts this command in another role.
func startChild(ctx context.Context, role string) (*child, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-child", role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	return &child{cmd, json.NewEncoder(in), json.NewDecoder(out)}, nil
}

// order sends an order and reads the answer into reply.
func (c *child) order(order, reply any) error {
	if err := c.in.Encode(order); err != nil {
		return err
	}
	return c.out.Decode(reply)
}

// stop ends the process.
func (c *child) stop() {
	_ = c.cmd.Process.Kill() // it keeps nothing
	_ = c.cmd.Wait()         // ended by the kill
}

// pause waits, or returns why it may not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
