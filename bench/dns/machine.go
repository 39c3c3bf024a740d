package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The cores: load and servers must not share one.
const (
	loadCore   = 0
	serverCore = 1
)

//go:embed dnsblast.c floor.c tcpblast.c
var sources embed.FS

// packages are what is needed from Debian, by the program that shows it is there.
var packages = map[string]string{
	"cc":          "gcc libc6-dev",
	"gdnsd":       "gdnsd",
	"knotd":       "knot",
	"nsd":         "nsd",
	"pdns_server": "pdns-server pdns-backend-bind",
	"named":       "bind9",
	"taskset":     "util-linux",
}

// coreDNSVersion is the release that is compared with.
const coreDNSVersion = "v1.15.0"

// bench is the machine made ready.
type bench struct {
	opts    options
	dir     string // everything of this run; removed in the end
	quorate string
	coreDNS string
	absent  map[string]string // server -> why it cannot be had
	ends    *endpoints
	port    int // the next to give out

	repeated int // bursts that were disturbed, and measured again
	kept     int // those that were kept (-lax)
}

// prepare installs and compiles what is missing, and takes the cores.
func prepare(ctx context.Context, o options) (_ *bench, err error) {
	if runtime.NumCPU() < 2 {
		return nil, errors.New("two processors are needed, one for the load and one for the server")
	}
	b := &bench{opts: o, absent: map[string]string{}, port: firstPort}
	if b.quorate, err = filepath.Abs(o.quorate); err != nil {
		return nil, err
	}
	if _, err := os.Stat(b.quorate); err != nil {
		return nil, fmt.Errorf("%w; make it with: make build", err)
	}
	if o.install {
		if err := install(ctx); err != nil {
			return nil, err
		}
	}
	for program := range packages {
		if _, err := lookPath(program); err != nil {
			b.absent[program] = "not installed: apt-get install " + packages[program]
		}
	}
	if b.coreDNS, err = coreDNS(ctx, o.cache); err != nil {
		b.absent["coredns"] = err.Error()
	}
	if b.dir, err = os.MkdirTemp("", "quorate-bench-dns-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := os.Chmod(b.dir, 0o755); err != nil { // some servers look at it as another user
		return nil, err
	}
	for _, tool := range []string{"dnsblast", "floor", "tcpblast"} {
		if err := b.compile(ctx, tool); err != nil {
			return nil, err
		}
	}
	if err := pin(os.Getpid(), loadCore); err != nil {
		return nil, err
	}
	b.ends, err = startEndpoints()
	return b, err
}

func (b *bench) close() error {
	if b.ends != nil {
		b.ends.close()
	}
	return os.RemoveAll(b.dir)
}

// compile builds one of the C programs.
func (b *bench) compile(ctx context.Context, tool string) error {
	text, err := sources.ReadFile(tool + ".c")
	if err != nil {
		return err
	}
	source := filepath.Join(b.dir, tool+".c")
	if err := os.WriteFile(source, text, 0o600); err != nil {
		return err
	}
	return command(ctx, "cc", "-O2", "-o", filepath.Join(b.dir, tool), source)
}

// install gets what is missing from Debian. With RUNLEVEL=1 no package starts its
// server by itself.
func install(ctx context.Context) error {
	var missing []string
	for program, pkgs := range packages {
		if _, err := lookPath(program); err != nil {
			missing = append(missing, strings.Fields(pkgs)...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	if _, err := lookPath("apt-get"); err != nil || os.Getuid() != 0 {
		say("not installed, and left out: %s", strings.Join(missing, " "))
		return nil
	}
	say("installing %s", strings.Join(missing, " "))
	env := []string{"RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive"}
	if err := commandWith(ctx, env, "apt-get", "-q", "update"); err != nil {
		return err
	}
	args := append([]string{"-q", "install", "-y", "--no-install-recommends"}, missing...)
	return commandWith(ctx, env, "apt-get", args...)
}

// coreDNS returns the program, which is built once and kept.
func coreDNS(ctx context.Context, cache string) (string, error) {
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "quorate-bench")
	}
	dir := filepath.Join(cache, "coredns-"+coreDNSVersion)
	program := filepath.Join(dir, "coredns")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	say("building CoreDNS %s, which takes minutes the first time", coreDNSVersion)
	err := commandWith(ctx, []string{"GOBIN=" + dir, "GOFLAGS="}, "go", "install", "github.com/coredns/coredns@"+coreDNSVersion)
	return program, err
}

// lookPath also looks where servers are and users' PATH may not.
func lookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	if path, sbinErr := exec.LookPath(filepath.Join("/usr/sbin", program)); sbinErr == nil {
		return path, nil
	}
	return "", err
}

func command(ctx context.Context, name string, args ...string) error {
	return commandWith(ctx, nil, name, args...)
}

// commandWith runs a program; the error ends with what it said last.
func commandWith(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	const kept = 600
	out = bytes.TrimSpace(out)
	return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out[max(0, len(out)-kept):])
}

// pin holds every thread of a process on one core. Servers may place their threads
// themselves (Knot does), so that starting them there is not enough.
func pin(pid, core int) error {
	var set unix.CPUSet
	set.Set(core)
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("hold thread %d of process %d on core %d: %w", tid, pid, core, err)
		}
	}
	return nil
}
