package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// hosts is how many addresses serve.
const hosts = 64

// hostAddr returns the i-th of them: loopback, but not what anything else listens on.
func hostAddr(i int) string { return fmt.Sprintf("127.77.1.%d", 1+i%hosts) }

// How targets are lost, and that they are not.
const (
	serve  = "serve"
	refuse = "refuse" // connections are refused
	hang   = "hang"   // accepted, never answered
)

// targetOrder is what the target server is told.
type targetOrder struct {
	Do       string        // "start", "report", serve, refuse or hang
	Checks   int           // start: forget everything, expect so many checks
	Interval time.Duration // start: of each
}

// targetReport is what it saw since the start.
type targetReport struct {
	Port     int
	Requests int
	Silent   int           // checks that never came
	Missed   int           // starts that did not come at all
	LateP50  time.Duration // against the check's own grid
	LateP99  time.Duration
	LateMax  time.Duration
	Arrivals []int64 // connections, as nanoseconds of the wall clock
}

// targets is the server of all hosts. It answers with as little work as it can, so
// that the machine is the prober's.
type targets struct {
	port int

	mu        sync.Mutex // guards what follows
	listeners []net.Listener
	hanging   bool
	interval  time.Duration
	seen      [][]int64 // request times by check
	conns     []int64
}

// targetMain serves until its orders end.
func targetMain(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &targets{}
	if err := s.listen(); err != nil {
		return err
	}
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	for ctx.Err() == nil {
		var o targetOrder
		if err := orders.Decode(&o); err != nil {
			return nil // the other side is gone
		}
		report, err := s.obey(o)
		if err != nil {
			return err
		}
		if err := replies.Encode(report); err != nil {
			return err
		}
	}
	return nil
}

func (s *targets) obey(o targetOrder) (targetReport, error) {
	report := targetReport{Port: s.port}
	switch o.Do {
	case "start":
		s.mu.Lock()
		s.interval, s.seen, s.conns = o.Interval, make([][]int64, o.Checks), nil
		s.mu.Unlock()
	case "report":
		return s.report(), nil
	case serve:
		s.mu.Lock()
		s.hanging = false
		gone := s.listeners == nil
		s.mu.Unlock()
		if gone {
			return report, s.listen()
		}
	case refuse:
		s.mu.Lock()
		for _, l := range s.listeners {
			_ = l.Close() // refusing is the point
		}
		s.listeners = nil
		s.mu.Unlock()
	case hang:
		s.mu.Lock()
		s.hanging = true
		s.mu.Unlock()
	}
	return report, nil
}

// listen opens every host on one port.
func (s *targets) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(hostAddr(i), strconv.Itoa(s.port)))
		if err != nil {
			return err
		}
		if s.port == 0 {
			s.port = l.Addr().(*net.TCPAddr).Port
		}
		s.listeners = append(s.listeners, l)
		go s.accept(l) // ends with the listener
	}
	return nil
}

func (s *targets) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.answer(c) // ends with the connection
	}
}

const response = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"

// answer serves one connection.
func (s *targets) answer(c net.Conn) {
	defer c.Close()
	now := time.Now().UnixNano()
	s.mu.Lock()
	s.conns = append(s.conns, now)
	hanging := s.hanging
	s.mu.Unlock()
	buf := make([]byte, 4096)
	n := 0
	for {
		m, err := c.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		if hanging || !bytes.Contains(buf[:n], []byte("\r\n\r\n")) {
			continue
		}
		// GET /c/123 HTTP/1.1
		fields := bytes.Fields(buf[:min(n, 64)])
		if len(fields) > 1 {
			if i, err := strconv.Atoi(string(bytes.TrimPrefix(fields[1], []byte("/c/")))); err == nil {
				s.note(i, now)
			}
		}
		n = 0
		if _, err := io.WriteString(c, response); err != nil {
			return
		}
	}
}

func (s *targets) note(check int, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if check >= 0 && check < len(s.seen) {
		s.seen[check] = append(s.seen[check], at)
	}
}

// report compares the requests of every check with the grid they should lie on:
// the earliest that fits them all.
func (s *targets) report() targetReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := targetReport{Port: s.port, Arrivals: slices.Clone(s.conns)}
	var late []int64
	interval := int64(s.interval)
	for _, at := range s.seen {
		r.Requests += len(at)
		if len(at) == 0 {
			r.Silent++
			continue
		}
		base := at[0]
		turn := make([]int64, len(at))
		for j, t := range at {
			turn[j] = (t - at[0] + interval/2) / interval
			if j > 0 {
				r.Missed += int(max(turn[j]-turn[j-1]-1, 0))
			}
			base = min(base, t-turn[j]*interval)
		}
		for j, t := range at {
			late = append(late, t-turn[j]*interval-base)
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		r.LateP50, r.LateP99 = time.Duration(late[len(late)/2]), time.Duration(late[len(late)*99/100])
		r.LateMax = time.Duration(late[len(late)-1])
	}
	return r
}
