package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// exporter is a running blackbox_exporter.
type exporter struct {
	cmd  *exec.Cmd
	dir  string
	addr string
}

// exporterConfig asks for what the prober does: a new connection for each probe,
// HTTP/1.1, no TLS.
const exporterConfig = `modules:
  http:
    prober: http
    timeout: 3s
    http:
      preferred_ip_protocol: ip4
      follow_redirects: false
      enable_http2: false
      headers: { Host: web.example.com }
`

// startExporter starts one, or returns nil when it is not installed.
func startExporter(ctx context.Context, path string) (*exporter, error) {
	bin, err := exec.LookPath(path)
	if err != nil {
		return nil, nil //nolint:nilerr // it is left out then, and the table says so
	}
	dir, err := os.MkdirTemp("", "bench-probes")
	if err != nil {
		return nil, err
	}
	e := &exporter{dir: dir}
	config := filepath.Join(dir, "blackbox.yml")
	if err := os.WriteFile(config, []byte(exporterConfig), 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e.addr = l.Addr().String()
	_ = l.Close() // only a free port was wanted
	e.cmd = exec.CommandContext(ctx, bin, "--config.file="+config, "--web.listen-address="+e.addr, "--log.level=error")
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	for range 100 {
		if c, err := net.Dial("tcp", e.addr); err == nil {
			_ = c.Close() // it listens
			return e, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			break
		}
	}
	e.stop()
	return nil, errors.New("the exporter does not listen")
}

func (e *exporter) stop() {
	_ = e.cmd.Process.Kill() // it keeps nothing
	_ = e.cmd.Wait()         // ended by the kill
	_ = os.RemoveAll(e.dir)  // a temporary directory
}

// exporter drives the exporter at the rate of s. Each check is asked for at its own
// time of the interval, over connections that are kept, so that asking costs the
// exporter as little as it can.
func (s steady) exporter(ctx context.Context, target *child, e *exporter) (cost, error) {
	var seen targetReport
	if err := target.order(targetOrder{Do: "start", Checks: s.Checks, Interval: s.Interval}, &seen); err != nil {
		return cost{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	const askers = 64
	due := make(chan int, s.Checks)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: askers}}
	var failed sync.Map
	for range askers {
		wg.Go(func() {
			for i := range due {
				url := fmt.Sprintf("http://%s/probe?module=http&target=http://%s:%d/c/%d", e.addr, hostAddr(i), seen.Port, i)
				if err := ask(ctx, client, url); err != nil && ctx.Err() == nil {
					failed.Store("err", err)
				}
			}
		})
	}
	wg.Go(func() {
		defer close(due)
		begin := time.Now()
		for n := 0; ; n++ {
			at := begin.Add(time.Duration(float64(n) / s.rate() * float64(time.Second)))
			if wait := time.Until(at); wait > 0 && pause(ctx, wait) != nil || ctx.Err() != nil {
				return
			}
			select {
			case due <- n % s.Checks:
			default: // it cannot keep up; the figure is a probe's, so that changes nothing
			}
		}
	})
	if err := pause(ctx, 2*time.Second); err != nil { // to warm up
		return cost{}, err
	}
	if err := target.order(targetOrder{Do: "start", Checks: s.Checks, Interval: s.Interval}, &seen); err != nil {
		return cost{}, err
	}
	c, err := measureCPU(ctx, e.cmd.Process.Pid, s.For)
	if err != nil {
		return cost{}, err
	}
	if err := target.order(targetOrder{Do: "report"}, &seen); err != nil {
		return cost{}, err
	}
	if err, bad := failed.Load("err"); bad {
		return cost{}, fmt.Errorf("ask the exporter: %v", err)
	}
	if seen.Requests == 0 {
		return cost{}, errors.New("the exporter made no probe")
	}
	c.probes = seen.Requests
	c.perProbe /= time.Duration(seen.Requests)
	return c, nil
}

// ask makes one probe and reads what it exports.
func ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
