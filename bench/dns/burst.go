package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	warmUp = 150 * time.Millisecond
	// A burst in which the load had less of its core than this was slowed down by
	// something else, and one in which the server had less of its own was not at its
	// limit: neither says what the server can do.
	ownShare    = 0.95
	serverShare = 0.93
	// tcpShare is less: a server waits between connections even where it is the limit.
	tcpShare = 0.85
	// lostShare is the part of its answers that a server may drop when its queue is
	// full: named does so now and then on a machine that does nothing else.
	lostShare = 0.001
	// tries is how often a disturbed burst is repeated before the machine is called
	// too busy.
	tries = 25
	// calm is waited before a disturbed burst is repeated.
	calm = 300 * time.Millisecond
)

// load is how a target is asked.
type load struct {
	tool      string // dnsblast or tcpblast
	questions string // file
	args      []string
	paced     bool          // at a fixed rate: no core has to be busy
	measure   time.Duration // 0: as the flags say
}

// closedLoop keeps 200 queries outstanding over 4 sockets, cut from batches of 16.
func closedLoop(questions string, more ...string) load {
	return load{tool: "dnsblast", questions: questions, args: append(strings.Fields("-e -S 4 -w 200 -g 16 -m 16"), more...)}
}

// serverShare is the part of its core that a server must have had.
func (l load) serverShare() float64 {
	if l.tool == "tcpblast" {
		return tcpShare
	}
	return serverShare
}

// burst is what one burst showed.
type burst struct {
	QPS       float64 `json:"qps"`
	OK        float64 `json:"ok"`
	Lost      float64 `json:"lost"`
	OwnCPU    float64 `json:"own_cpu"`
	ServerCPU float64 `json:"server_cpu"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`

	// Of dnsblast: what was wrong, and the server's time by the kernel's ticks.
	BadMatch    float64 `json:"bad_match"`
	BadRcode    float64 `json:"bad_rcode"`
	BadAddress  float64 `json:"bad_address"`
	NoAnswer    float64 `json:"no_answer"`
	Unsigned    float64 `json:"unsigned"`
	Truncated   float64 `json:"truncated"`
	UserSeconds float64 `json:"server_user_s"`
	SysSeconds  float64 `json:"server_sys_s"`

	// Of tcpblast.
	Bad       float64 `json:"bad"`
	TCPRcode  float64 `json:"badrcode"`
	TCPMicros float64 `json:"server_us"`
	TCPUser   float64 `json:"server_user_us"`
}

// wrong says what of a burst's answers was not as it must be, or "".
func (b burst) wrong() string {
	var list []string
	for _, w := range []struct {
		what string
		n    float64
	}{
		{"of another question", b.BadMatch + b.Bad},
		{"with an error code", b.BadRcode + b.TCPRcode},
		{"with a wrong address", b.BadAddress},
		{"without an answer", b.NoAnswer},
		{"unsigned", b.Unsigned},
		{"truncated", b.Truncated},
	} {
		if w.n > 0 {
			list = append(list, fmt.Sprintf("%.0f %s", w.n, w.what))
		}
	}
	return strings.Join(list, ", ")
}

// disturbed says why a burst does not count, or "".
func (b burst) disturbed(l load) string {
	switch {
	case b.OK == 0:
		return "no answer came"
	case b.Lost > lostShare*b.OK && !l.paced:
		return fmt.Sprintf("%.0f answers were lost", b.Lost)
	case b.OwnCPU < ownShare && l.tool == "dnsblast":
		return fmt.Sprintf("the load had %.0f %% of its core", 100*b.OwnCPU)
	case b.ServerCPU < l.serverShare() && !l.paced:
		return fmt.Sprintf("the server had %.0f %% of its core", 100*b.ServerCPU)
	}
	return ""
}

// user and sys are microseconds of the server's time a query.
func (b burst) user() float64 { return b.timeOf(b.UserSeconds, b.TCPUser) }
func (b burst) sys() float64  { return b.timeOf(b.SysSeconds, b.TCPMicros-b.TCPUser) }

func (b burst) timeOf(ticks, tcp float64) float64 {
	if b.UserSeconds+b.SysSeconds == 0 {
		return tcp
	}
	// Ticks tell how the time is divided; how much of it there was is known better.
	total := b.ServerCPU / b.QPS * 1e6
	return total * ticks / (b.UserSeconds + b.SysSeconds)
}

// target is a server asked in one way.
type target struct {
	name   string
	srv    *server
	load   load
	before func(context.Context) error // nil: nothing
	after  func(context.Context) error // likewise
}

// burst measures a target until nothing disturbs it.
func (b *bench) burst(ctx context.Context, t *target) (burst, error) {
	why := ""
	for range tries {
		got, err := b.once(ctx, t)
		if err != nil {
			return burst{}, fmt.Errorf("%s: %w", t.name, err)
		}
		if wrong := got.wrong(); wrong != "" {
			return burst{}, fmt.Errorf("%s answers wrongly: %s", t.name, wrong)
		}
		if why = got.disturbed(t.load); why == "" {
			return got, nil
		}
		if b.opts.lax && got.OK > 0 && got.ServerCPU > 0 {
			// What the server did in its share of the core says roughly what it would
			// have done in all of it.
			if !t.load.paced {
				got.QPS /= got.ServerCPU
				got.ServerCPU = 1
			}
			b.kept++
			return got, nil
		}
		b.repeated++
		if err := pause(ctx, calm); err != nil {
			return burst{}, err
		}
	}
	return burst{}, fmt.Errorf("%s: %d bursts were disturbed, the last one as %s; is the machine busy? (-lax keeps such bursts)", t.name, tries, why)
}

func (b *bench) once(ctx context.Context, t *target) (got burst, err error) {
	if t.before != nil {
		if err := t.before(ctx); err != nil {
			return burst{}, err
		}
	}
	pids, err := t.srv.pids()
	if err != nil {
		return burst{}, err
	}
	measure := b.opts.burst
	if t.load.measure > 0 {
		measure = t.load.measure
	}
	args := []string{
		"-s", "127.0.0.1", "-p", strconv.Itoa(t.srv.port), "-f", t.load.questions,
		"-d", seconds(measure), "-W", seconds(warmUp), "-P", joinInts(pids),
	}
	args = append(args, t.load.args...)
	if t.srv.echo {
		args = append(args, "-E")
	}
	out, err := exec.CommandContext(ctx, filepath.Join(b.dir, t.load.tool), args...).Output()
	if t.after != nil {
		if afterErr := t.after(ctx); afterErr != nil {
			return burst{}, afterErr
		}
	}
	// tcpblast exits with 1 when answers were wrong, and says which in its line.
	if jsonErr := json.Unmarshal(out, &got); jsonErr != nil {
		return burst{}, fmt.Errorf("%s: %w (%v)", t.load.tool, jsonErr, err)
	}
	return got, nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

func joinInts(ns []int) string {
	texts := make([]string, len(ns))
	for i, n := range ns {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}
