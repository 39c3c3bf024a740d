//go:build integration

package probe

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Real servers, each good and broken in the ways that the reasons name. They listen
// on loopback, need no root, and end by their pid.

// program returns the path of a server, or ends the test when it is missing: a skip
// on somebody's machine, a failure in CI.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	require.NotEqual(t, "true", os.Getenv("CI"), "%s is missing", name)
	t.Skipf("%s is missing", name)
	return ""
}

// output is what a server says, shown when the test fails.
type output struct {
	mu sync.Mutex // guards b: the server's streams are copied by goroutines
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs a server until the test ends and waits until it takes connections.
func start(t *testing.T, port int, path string, args ...string) {
	t.Helper()
	said := &output{}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = said, said
	// s_server ends with its input.
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = input.Close()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), said)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	}, 20*time.Second, 10*time.Millisecond, "%s does not listen on %d: %s", path, port, said)
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := portOf(t, ln.Addr())
		udp, err := net.ListenPacket("udp", ln.Addr().String())
		require.NoError(t, ln.Close())
		if err == nil {
			require.NoError(t, udp.Close())
			return port
		}
	}
}

// blackhole returns a port that takes connections and datagrams and never answers.
func blackhole(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	udp, err := net.ListenPacket("udp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	return portOf(t, ln.Addr())
}

// file writes a file of the test.
func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// pemFiles writes a leaf and its key.
func pemFiles(t *testing.T, leaf tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(leaf.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	return file(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]})),
		file(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// realCase is one check of a real server.
type realCase struct {
	name     string
	check    Check
	reason   Reason
	detail   string
	degraded string
}

// runReal runs the cases twice each, as the schedule and as a person would.
func runReal(t *testing.T, p *Prober, cases []realCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			check := tt.check
			check.Timeout = 10 * time.Second
			if tt.reason == ReasonTimeout {
				check.Timeout = 400 * time.Millisecond
			}
			c, err := p.newChecker(check, loopback)
			require.NoError(t, err)
			defer c.close()
			for range 2 { // the second time on a kept connection, if the check keeps one
				o := measure(t.Context(), c, &check, nil)
				require.Equal(t, tt.reason, o.Reason, o.Detail)
				require.Equal(t, tt.reason == ReasonOK, o.OK)
				require.Contains(t, o.Detail, tt.detail)
				require.Equal(t, tt.degraded, o.Degraded)
				require.False(t, o.unmeasured, "it is the endpoint's fault: %s", o.Detail)
			}
			a := p.Once(t.Context(), check, loopback)
			require.Equal(t, tt.reason, a.Reason, a.Detail)
			last := a.Phases[len(a.Phases)-1]
			require.Equal(t, a.OK, last.OK, "%+v", a.Phases)
		})
	}
}
