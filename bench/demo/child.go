package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/quorate/dev"
	"github.com/quorate/quorate/config"
)

// demo is the child process and what it said of itself.
type demo struct {
	cmd        *exec.Cmd
	dir        string // holds its configuration; removed in the end
	control    string // unix socket that takes orders
	readyAfter time.Duration
	ready      ready
}

// ready is the part of `quorate dev -o json` that is needed here.
type ready struct {
	Zone  string `json:"zone"`
	Nodes []struct {
		Name string `json:"name"`
		DNS  string `json:"dns"`
		API  string `json:"api"`
	} `json:"nodes"`
	Clusters []struct {
		Name      string       `json:"name"`
		Addresses []netip.Addr `json:"addresses"`
	} `json:"clusters"`
	Services []struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"services"`
	Users []struct {
		Name  string `json:"name"`
		Token string `json:"token"`
	} `json:"users"`
}

// startDemo runs the demo and waits for its line.
func startDemo(ctx context.Context, binary string) (_ *demo, err error) {
	d := &demo{}
	if d.dir, err = os.MkdirTemp("", "quorate-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	d.cmd = exec.CommandContext(ctx, binary, "dev", "-o", "json")
	d.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+d.dir)
	d.cmd.Stderr = os.Stderr
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(os.Interrupt) }
	d.cmd.WaitDelay = 10 * time.Second
	pipe, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s dev: %w", binary, err)
	}
	line, err := bufio.NewReader(pipe).ReadBytes('\n')
	d.readyAfter = time.Since(began)
	if err != nil {
		return nil, fmt.Errorf("wait for the line of %s dev: %w", binary, err)
	}
	if err := json.Unmarshal(line, &d.ready); err != nil {
		return nil, fmt.Errorf("read the line of %s dev: %w", binary, err)
	}
	if len(d.ready.Nodes) == 0 || len(d.ready.Clusters) == 0 || len(d.ready.Services) == 0 {
		return nil, fmt.Errorf("the demo names no node, cluster or service: %s", line)
	}
	contexts, err := config.LoadContexts(filepath.Join(d.dir, "quorate", "contexts.yaml"))
	if err != nil {
		return nil, err
	}
	current := contexts.Contexts[contexts.Current]
	if current.Demo == nil {
		return nil, fmt.Errorf("no demo in the contexts of %s", d.dir)
	}
	d.control = current.Demo.Control
	return d, nil
}

// stop ends the child as Ctrl-C would and removes what the bench made.
func (d *demo) stop() error {
	var err error
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(os.Interrupt) // it may have ended
		if err = d.cmd.Wait(); err != nil {
			err = fmt.Errorf("end of the demo: %w", err)
		}
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// order has the demo do something.
func (d *demo) order(ctx context.Context, verb string, args ...string) error {
	if _, err := dev.Send(ctx, d.control, dev.Order{Verb: verb, Args: args}); err != nil {
		return fmt.Errorf("dev %s %s: %w", verb, strings.Join(args, " "), err)
	}
	return nil
}

// cost is what the idle demo takes.
type cost struct {
	rss int64   // bytes, at the end
	cpu float64 // percent of a core
}

// settle lets the work of the start end before idling is measured.
const settle = 3 * time.Second

// windows is how many pieces the idle time is watched in. The median counts: on a
// shared machine one piece can cost twice as much as the next.
const windows = 3

// idle watches the child for a while.
func (d *demo) idle(ctx context.Context, watch time.Duration) (cost, error) {
	if err := pause(ctx, settle); err != nil {
		return cost{}, err
	}
	var cpu []float64
	for range windows {
		used, err := d.cpuOver(ctx, watch/windows)
		if err != nil {
			return cost{}, err
		}
		cpu = append(cpu, used)
	}
	slices.Sort(cpu)
	c := cost{cpu: cpu[windows/2]}
	var err error
	c.rss, err = d.rss()
	return c, err
}

// cpuOver is how much of a core the child uses over a time, in percent.
func (d *demo) cpuOver(ctx context.Context, watch time.Duration) (float64, error) {
	before, err := d.cpuTime()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := pause(ctx, watch); err != nil {
		return 0, err
	}
	after, err := d.cpuTime()
	return 100 * float64(after-before) / float64(time.Since(began)), err
}

// tick is the unit of times in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpuTime is the user and system time the child has used.
func (d *demo) cpuTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in brackets and may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0, fmt.Errorf("read processor time: %q is too short", text)
	}
	user, uerr := strconv.ParseInt(fields[utime], 10, 64)
	system, serr := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(uerr, serr)
}

// rss is the child's resident memory in bytes.
func (d *demo) rss() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("read memory: no VmRSS")
}

// pause waits for d, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
