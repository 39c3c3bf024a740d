package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/config"
)

// RunDir is where the local socket is looked for when nobody says otherwise.
const RunDir = "/run/quorate"

// SocketPath returns where a node with that data directory puts its local
// socket: the runtime directory that systemd made, else RunDir where this process
// may write it, else the data directory.
func SocketPath(dataDir string) string {
	if dir := os.Getenv("RUNTIME_DIRECTORY"); dir != "" {
		return filepath.Join(dir, socketFile)
	}
	if err := os.MkdirAll(RunDir, 0o755); err == nil {
		if probe, err := os.CreateTemp(RunDir, ".probe-*"); err == nil {
			_ = probe.Close()           // only asked whether it can be written
			_ = os.Remove(probe.Name()) // likewise
			return filepath.Join(RunDir, socketFile)
		}
	}
	return filepath.Join(dataDir, socketFile)
}

// apiServer is the HTTP side of a node: the API on TCP and on the local socket,
// and metrics on a listener of their own where node.yaml asks for one.
type apiServer struct {
	server    *api.Server
	listeners []net.Listener
	metrics   *http.Server // nil: served beside the API
	metricsLn net.Listener
	external  string
	cert      atomic.Pointer[tls.Certificate]
}

// openAPI binds the API's listeners and makes the server that Run runs on them.
func (n *Node) openAPI() error {
	a := &apiServer{external: n.cfg.API.ExternalURL}
	cfg := n.apiConfig()
	cfg.Registerer = n.registry
	if n.cfg.API.MetricsListen == "" {
		cfg.Gatherer = n.registry
	}
	var err error
	if a.server, err = api.New(cfg); err != nil {
		return err
	}
	n.raft.Handle(api.PeerMethod, a.server.Peer)
	ln, err := n.listen("tcp", n.cfg.API.Listen)
	if err != nil {
		return err
	}
	if t := n.cfg.API.TLS; t != nil {
		if ln, err = a.withTLS(ln, t); err != nil {
			return err
		}
	}
	unix, err := n.listenSocket()
	if err != nil {
		return err
	}
	a.listeners = []net.Listener{ln, unix}
	if n.cfg.API.MetricsListen != "" {
		if a.metricsLn, err = n.listen("tcp", n.cfg.API.MetricsListen); err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{}))
		a.metrics = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	}
	n.api = a
	return nil
}

// listen binds an address that Open gives back when it fails.
func (n *Node) listen(network, addr string) (net.Listener, error) {
	ln, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	n.onClose(func() { _ = ln.Close() }) // closed already after Run
	return ln, nil
}

// listenSocket binds the local socket.
func (n *Node) listenSocket() (net.Listener, error) {
	socket := n.opts.Socket
	if socket == "" {
		socket = SocketPath(n.cfg.DataDir)
	}
	// The data directory's lock says that no other process of this node lives; a
	// socket that nobody answers on is one that a crash left.
	if c, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		_ = c.Close() // only asked whether somebody answers
		return nil, fmt.Errorf("listen unix %s: another node answers there; start this one with --socket PATH", socket)
	}
	if info, err := os.Lstat(socket); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("listen unix %s: that is a file and no socket; choose another with --socket PATH", socket)
	}
	_ = os.Remove(socket)
	unix, err := n.listen("unix", socket)
	if err != nil {
		return nil, err
	}
	// Who may do what is decided by peer credentials, so anybody may connect.
	return unix, os.Chmod(socket, 0o666)
}

// withTLS wraps ln in the API's own certificate. keepFiles follows its files.
func (a *apiServer) withTLS(ln net.Listener, t *config.APITLS) (net.Listener, error) {
	if err := a.readCertificate(t); err != nil {
		return nil, err
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.cert.Load(), nil },
	}), nil
}

// readCertificate reads the API's certificate. The present one stays if it fails.
func (a *apiServer) readCertificate(t *config.APITLS) error {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return fmt.Errorf("read api.tls: %w", err)
	}
	a.cert.Store(&cert)
	return nil
}

// url is where people reach the API of this node.
func (a *apiServer) url() string {
	if a.external != "" {
		return a.external
	}
	return "http://" + a.listeners[0].Addr().String()
}

func (a *apiServer) run(ctx context.Context) error {
	if a.metrics != nil {
		stop := context.AfterFunc(ctx, func() { _ = a.metrics.Close() })
		defer stop()
		served := make(chan error, 1)
		go func() { served <- a.metrics.Serve(a.metricsLn) }()
		defer func() {
			_ = a.metrics.Close()
			<-served
		}()
	}
	err := a.server.Run(ctx, a.listeners...)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
