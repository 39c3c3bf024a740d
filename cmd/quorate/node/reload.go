package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/config"
)

// filesCheck is how often certificate files that somebody else makes are looked
// at: soon enough for a person who waits for it, and three system calls a file.
const filesCheck = 5 * time.Second

// watchedFiles are files that are read together.
type watchedFiles struct {
	what  string // for people
	paths []string
	read  func() error
	every time.Duration // between two looks; zero: filesCheck

	seen   string // what the files looked like when they were read last
	looked time.Time
	failed error // how that ended
}

// newWatchedFiles watches files that were read a moment ago.
func newWatchedFiles(what string, read func() error, paths ...string) *watchedFiles {
	w := &watchedFiles{what: what, read: read, paths: paths, looked: time.Now()}
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
	w.looked = time.Now()
	if w.look() == w.seen {
		return false, nil
	}
	return true, w.again()
}

// again reads the files whatever they look like.
func (w *watchedFiles) again() error {
	w.looked, w.seen = time.Now(), w.look() // before: what changes while it is read is another change
	w.failed = w.read()
	return w.failed
}

// files are what this node reads again while it runs: node.yaml when a person asks,
// what it names when that looks different too. What does not read is refused, and
// the last good one stays in use (G13).
type files struct {
	n *Node

	mu      sync.Mutex // guards what follows, and is held while files are read
	cfg     *config.Node
	watched []*watchedFiles
	failed  error // why node.yaml was refused, the last time
	status  reloaded

	told atomic.Pointer[reloaded] // a copy, so that nobody waits for a file
}

// reloaded is how reading files again went.
type reloaded struct {
	source  string    // text of node.yaml in force
	refused []string  // what does not read, and why
	tried   bool      // something was read again
	good    time.Time // when that last left nothing refused; zero: never
}

// openFiles reads the GeoIP file. A broken one keeps no node from answering all that
// it can.
func (n *Node) openFiles() error {
	n.places = newPlaces(n.log)
	n.files = newFiles(n)
	return nil
}

// newFiles reads the GeoIP file of node.yaml, and watches it.
func newFiles(n *Node) *files {
	f := &files{n: n, cfg: n.cfg, status: reloaded{source: n.opts.Source}}
	w := &watchedFiles{what: geoFile}
	f.watched = []*watchedFiles{w}
	f.followGeo(w, n.cfg.DNS.GeoIP)
	if err := w.again(); err != nil {
		n.log.Error("the GeoIP file does not read; this node answers without knowing where clients are", keyErr, err)
	}
	f.tell()
	return f
}

// geoFile names the GeoIP file to people, as node.yaml does.
const geoFile = "dns.geoip.database"

// followGeo makes w watch the file of that configuration.
func (f *files) followGeo(w *watchedFiles, cfg config.GeoIP) {
	w.paths, w.every = nil, cfg.Reload
	if cfg.Database != "" {
		w.paths = []string{cfg.Database}
	}
	w.read = func() error { return f.n.places.read(cfg.Database) }
}

// watch adds files that were read a moment ago.
func (f *files) watch(w *watchedFiles) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched = append(f.watched, w)
}

// run follows the files until ctx ends.
func (f *files) run(ctx context.Context) error {
	check := time.NewTicker(filesCheck)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
			f.follow()
		}
	}
}

// follow reads what looks different.
func (f *files) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n.followCookies()
	f.n.keys.follow(f.n.view.State().Spec)
	for _, w := range f.watched {
		if w.failed == nil && time.Since(w.looked) < w.every {
			continue // one that does not read is waited for
		}
		changed, err := w.follow()
		if !changed {
			continue
		}
		f.doneLocked()
		if err != nil {
			f.n.log.Warn("files refused, the last good ones stay in use", keyFiles, w.what, keyErr, err)
			continue
		}
		f.n.log.Info("files read again", keyFiles, w.what)
	}
}

// doneLocked notes that something was read again.
func (f *files) doneLocked() {
	f.status.tried = true
	if len(f.refusals()) == 0 {
		f.status.good = time.Now()
	}
	f.tell()
}

// tell shows how it went. Callers hold mu, or are alone.
func (f *files) tell() {
	now := f.status
	now.refused = f.refusals()
	f.told.Store(&now)
}

// refusals says what does not read, and why. Callers hold mu, or are alone.
func (f *files) refusals() []string {
	var why []string
	if f.failed != nil {
		why = append(why, f.failed.Error())
	}
	for _, w := range f.watched {
		if w.failed != nil {
			why = append(why, fmt.Sprintf("%s: %v", w.what, w.failed))
		}
	}
	return why
}

// reload reads node.yaml and all that it names again. A node.yaml that is refused
// changes nothing, not even which files are read.
func (f *files) reload() (read []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.doneLocked()
	if f.n.opts.Reload != nil {
		if f.failed = f.rereadLocked(); f.failed != nil {
			return nil, f.failed
		}
		read = append(read, "node.yaml")
	}
	var errs []error
	for _, w := range f.watched {
		switch err := w.again(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", w.what, err))
		case len(w.paths) > 0:
			read = append(read, w.what)
		}
	}
	return read, errors.Join(errs...)
}

// rereadLocked takes over what a running node can of node.yaml.
func (f *files) rereadLocked() error {
	cfg, source, err := f.n.opts.Reload()
	if err != nil {
		return err
	}
	if keys := needRestart(f.cfg, cfg); len(keys) > 0 {
		return fmt.Errorf("node.yaml: %s changed, which only a restart takes over; nothing was changed", strings.Join(keys, ", "))
	}
	if level := f.n.opts.Level; level != nil && cfg.Log.Level != f.cfg.Log.Level {
		_ = level.UnmarshalText([]byte(cfg.Log.Level)) // config has checked it
	}
	f.n.secrets.Store(&cfg.Secrets)
	f.cfg, f.status.source = cfg, source
	f.followGeo(f.watched[0], cfg.DNS.GeoIP)
	f.n.followCookies()
	f.n.keys.follow(f.n.view.State().Spec)
	f.n.dns.Limit(rateLimit(cfg.DNS.RateLimit))
	return nil
}

// Reload reads node.yaml and the files it names again, and returns what was read.
// The error says what was refused; the last good one of that stays in use.
func (n *Node) Reload() (read []string, err error) {
	read, err = n.files.reload()
	if err != nil {
		n.log.Error("reload refused, what was in use stays", keyFiles, read, keyErr, err)
		return read, err
	}
	n.log.Info("reloaded", keyFiles, read)
	return read, nil
}

// refused says what this node was told to read and cannot, for people.
func (n *Node) refused() []string { return n.files.told.Load().refused }

// nodeConfig is the text of node.yaml as it is in force.
func (n *Node) nodeConfig() string { return n.files.told.Load().source }

// secret reads a secret of this node.
func (n *Node) secret(name string) ([]byte, error) {
	value, err := n.secrets.Load().Resolve(name)
	return value.Bytes(), err
}

// missingSecrets says which secrets of the spec this node cannot resolve, and why: its
// checks that need one are unknown, and while it leads a receiver is not told.
func (n *Node) missingSecrets() []string {
	var missing []string
	spec := n.view.State().Spec
	for _, name := range config.SecretNames(spec) {
		_, err := n.secret(name)
		if k := spec.DNS.Cookies; err == nil && k != nil && (name == k.Secret || name == k.Next || name == k.Previous) {
			_, err = n.cookieKey(name)
		}
		if err == nil && namesZoneKey(spec, name) {
			_, err = n.keys.key(name)
		}
		if err != nil {
			missing = append(missing, err.Error())
		}
	}
	return missing
}

// needRestart names the keys of node.yaml that differ and that a running node cannot
// take over, in the order of the file.
func needRestart(old, now *config.Node) []string {
	was, is := fixed(old), fixed(now)
	var keys []string
	for i := range was {
		if was[i] != is[i] {
			keys = append(keys, was[i].key)
		}
	}
	return keys
}

// setting is a key of node.yaml and what it comes to, in words.
type setting struct{ key, value string }

// fixed are the keys that are read at the start only: all but log.level, secrets,
// dns.geoip and dns.rate_limit, and those without behaviour.
func fixed(cfg *config.Node) []setting {
	var out []setting
	set := func(key string, value any) { out = append(out, setting{key, fmt.Sprintf("%+v", value)}) }
	set("node.name", cfg.Name)
	set("node.region", cfg.Region)
	set("node.labels", cfg.Labels)
	set("node.role", cfg.Voter)
	set("data_dir", cfg.DataDir)
	set("dns.listen", cfg.DNS.Listen)
	set("dns.advertise", cfg.DNS.Advertise)
	set("dns.nsid", cfg.DNS.NSID)
	set("dns.udp_size", cfg.DNS.UDPSize)
	set("api.listen", cfg.API.Listen)
	set("api.tls", cfg.API.TLS)
	set("api.external_url", cfg.API.ExternalURL)
	set("api.metrics", cfg.API.MetricsListen)
	set("peer.listen", cfg.Peer.Listen)
	set("peer.advertise", cfg.Peer.Advertise)
	set("peer.tls", cfg.Peer.TLS)
	set("peer.join", cfg.Peer.Join)
	set("peer.join_token_file", cfg.Peer.JoinTokenFile)
	set("peer.bootstrap", cfg.Peer.Expect)
	set("peer.profile", cfg.Peer.Profile)
	set("observer", cfg.Observer)
	set("log.format", cfg.Log.Format)
	set("limits.memory", cfg.MemoryLimit)
	return out
}
