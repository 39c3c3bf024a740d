package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/dnsserver/client"
)

const (
	// firstPort is the first of the ports that servers are given, away from those
	// of the demo and below those that clients get by themselves.
	firstPort = 15300
	// startTimeout is how long a server may take until it answers.
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// server is a process that answers, held on the servers' core.
type server struct {
	name    string // as the table shows it
	dir     string // its configuration; "" for none
	port    int
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	log     string        // file that it writes to
	echo    bool          // it says the same to everything (the floor)
	quorate bool
}

// freePort returns a port that is free for UDP and TCP.
func (b *bench) freePort() (int, error) {
	for ; b.port < 1<<15; b.port++ {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))
		udp, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		_ = udp.Close() // it only showed that the port is free
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = tcp.Close() // likewise
		b.port++
		return b.port - 1, nil
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 below %d", 1<<15)
}

// folder makes a new folder for a server's files.
func (b *bench) folder(name string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, strings.ReplaceAll(name, " ", "-")+"-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) // another user than ours may have to read it
}

// start runs a server. What it writes goes to a file beside its configuration.
func (b *bench) start(s *server, env []string, program string, args ...string) error {
	path, err := lookPath(program)
	if err != nil {
		return err
	}
	s.log = filepath.Join(b.dir, fmt.Sprintf("%s-%d.log", strings.ReplaceAll(s.name, " ", "-"), s.port))
	out, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the process has its own
	s.cmd = exec.Command("taskset", append([]string{"-c", strconv.Itoa(serverCore), path}, args...)...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // it is ended by a signal
	}()
	return nil
}

// ready waits until the server answers a name with an address, and then holds all
// its threads where they belong.
func (s *server) ready(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	for {
		reply, err := client.Query(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), name, "A", client.Options{Timeout: 200 * time.Millisecond})
		if err == nil && reply.Rcode == "NOERROR" && len(reply.Addresses) > 0 {
			break
		}
		if last = err; err == nil {
			last = fmt.Errorf("it says %s", reply.Rcode)
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s has ended: %s", s.name, s.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer %s: %w; %s", s.name, name, last, s.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return s.pin()
}

// pin holds the threads of all the server's processes.
func (s *server) pin() error {
	pids, err := s.pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := pin(pid, serverCore); err != nil {
			return err
		}
	}
	return nil
}

// tail is the end of what it wrote.
func (s *server) tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	const kept = 500
	return strings.TrimSpace(string(text[max(0, len(text)-kept):]))
}

// stop ends the server with all its processes.
func (s *server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // what is left of its group, if anything
	<-s.done
}

// pids are the server's process and those it has made, and theirs.
func (s *server) pids() ([]int, error) {
	pids := []int{s.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			text, err := os.ReadFile(t)
			if err != nil {
				continue // that thread has ended
			}
			for _, f := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(f)
				if err != nil {
					return nil, err
				}
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// rss is the resident memory of all the server's processes, in bytes. Pages that
// they share count once for each.
func (s *server) rss() (int64, error) {
	pids, err := s.pids()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, found := strings.Cut(string(text), "VmRSS:")
		if !found {
			return 0, errors.New("read memory: no VmRSS")
		}
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}

// busy is how much processor time the server's processes have used, in seconds.
func (s *server) busy() (float64, error) {
	pids, err := s.pids()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil {
			return 0, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // that thread has ended
			}
			ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
			if err != nil {
				return 0, err
			}
			sum += ns / 1e9
		}
	}
	return sum, nil
}

const (
	// A server that used less of its core than idleShare over idleTime has done what
	// its start gave it to do.
	idleShare   = 0.05
	idleTime    = 500 * time.Millisecond
	idleTimeout = 20 * time.Second
)

// settle waits until the server is idle. One that never is (it probes often) is
// taken as it is.
func (s *server) settle(ctx context.Context) error {
	before, err := s.busy()
	for until := time.Now().Add(idleTimeout); err == nil && time.Now().Before(until); {
		if err := pause(ctx, idleTime); err != nil {
			return err
		}
		var now float64
		if now, err = s.busy(); now-before < idleShare*idleTime.Seconds() {
			break
		}
		before = now
	}
	return err
}

// startFloor starts the floor: what answering costs without looking anything up.
func (b *bench) startFloor(context.Context) (*server, error) {
	port, err := b.freePort()
	if err != nil {
		return nil, err
	}
	s := &server{name: "floor", port: port, echo: true}
	return s, b.start(s, nil, filepath.Join(b.dir, "floor"), strconv.Itoa(port))
}
