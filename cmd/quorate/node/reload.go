package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// filesCheck is how often certificate files that somebody else makes are looked
// at: soon enough for a person who waits for it, and three system calls a file.
const filesCheck = 5 * time.Second

// watchedFiles are files that are read together.
type watchedFiles struct {
	what  string // for people
	paths []string
	read  func() error
	seen  string // what the files looked like when they were read last
}

// newWatchedFiles watches files that were read a moment ago.
func newWatchedFiles(what string, read func() error, paths ...string) *watchedFiles {
	w := &watchedFiles{what: what, read: read, paths: paths}
	w.seen = w.look()
	return w
}

// look describes the files from outside. A file that cannot be seen looks like none.
func (w *watchedFiles) look() string {
	var b strings.Builder
	for _, p := range w.paths {
		if fi, err := os.Stat(p); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", p, fi.ModTime().UnixNano(), fi.Size())
		}
	}
	return b.String()
}

// follow reads the files again if they look different. Files that are being
// replaced one by one may not fit together; the next change is another try.
func (w *watchedFiles) follow() (changed bool, err error) {
	now := w.look()
	if now == w.seen {
		return false, nil
	}
	w.seen = now
	return true, w.read()
}

// keepFiles follows the certificate files that node.yaml names, until ctx ends.
// What does not read is refused and the last good certificate stays (G13).
func (n *Node) keepFiles(ctx context.Context) error {
	var watched []*watchedFiles
	if t := n.cfg.Peer.TLS; t != nil {
		watched = append(watched, newWatchedFiles("peer.tls", n.mesh.Reload, t.CA, t.Cert, t.Key))
	}
	if t := n.cfg.API.TLS; t != nil {
		watched = append(watched, newWatchedFiles("api.tls", func() error { return n.api.readCertificate(t) }, t.Cert, t.Key))
	}
	if len(watched) == 0 {
		return nil
	}
	check := time.NewTicker(filesCheck)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
		}
		for _, w := range watched {
			switch changed, err := w.follow(); {
			case err != nil:
				n.log.Warn("certificate files refused, the last good ones stay in use", keyFiles, w.what, keyErr, err)
			case changed:
				n.log.Info("certificate files read again", keyFiles, w.what)
			}
		}
	}
}
