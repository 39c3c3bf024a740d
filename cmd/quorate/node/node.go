// Package node wires one quorate node: it opens the parts in order, runs them,
// and stops them in reverse.
//
// DNS answers from the last known good state before Raft opens and after
// everything else has stopped. The package decides nothing: it hands parts to
// each other.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/dnsserver"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
	"github.com/quorate/quorate/statestore/lkg"
)

// Options are what a node needs beside its node.yaml. The zero value works.
type Options struct {
	Version string
	Source  string // text of node.yaml, for people to look at; it holds no secret's value
	Socket  string // unix socket of the API; empty: SocketPath of the data directory
	Workers int    // that answer DNS, an address; 0: one less than the runtime has processors

	// OwnProcess says that nothing else runs in this process, so that the node may
	// give back what it has needed for a while.
	OwnProcess bool

	// Reload reads node.yaml again. Nil: it stays as it is, and only the files that it
	// names are read again.
	Reload func() (cfg *config.Node, source string, err error)

	// WrapProbe and WrapPeer wrap how probes and peer links connect: the two
	// places where the demo breaks things. Nil: as they are.
	WrapProbe func(probe.DialFunc) probe.DialFunc
	WrapPeer  func(DialFunc) DialFunc
	Demo      *api.Demo // lets people in without login; the demo only

	// CheckStore checks the Raft store before it is opened; a damaged one may hang
	// or panic, so the server does it in a child process. Nil: in this one.
	CheckStore func(dir string) error

	Log   *slog.Logger // nil: none
	Level *slog.LevelVar
}

// DialFunc has the shape of net.Dialer.DialContext.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Node is one opened node. Run runs it, once.
type Node struct {
	cfg  *config.Node
	opts Options
	log  *slog.Logger

	dir      *dataDir
	id       identity
	registry *prometheus.Registry
	started  time.Time
	secrets  atomic.Pointer[config.Secrets] // where they are; a reload may say otherwise
	places   *places
	keys     *zoneKeys
	files    *files

	store  *statestore.Store // what Raft applies here
	lkg    *lkg.File
	view   *view // the newer of lkg's state and store's
	tables *publisher
	dns    *dnsserver.Server

	cookies cookies

	answers *plane                         // runs dns from Open on
	opened  atomic.Pointer[consensus.Node] // raft, once it is open: answers run before
	contact *contact

	mesh     *mesh.Mesh
	peers    net.Listener
	book     *addressBook
	profile  consensus.Profile
	raft     *consensus.Node
	control  *controller.Controller
	prober   *probe.Prober
	reporter *probe.Reporter // nil: this node does not observe

	admitted admissions

	// alone is why this node only answers DNS; nil: it does everything.
	alone error

	api *apiServer

	// closers undo what Open did, last first, when Open fails midway.
	closers []func()
}

// Open brings a node as far as it can go without its peers: DNS answering from the
// last known good state, certificates read, Raft's store open, API bound. An
// error says what is in the way and leaves nothing open. Damaged files leave a node
// that only answers DNS, if it has a table to answer from.
func Open(cfg *config.Node, opts Options) (_ *Node, err error) {
	n := &Node{cfg: cfg, opts: opts, log: opts.Log, started: time.Now(), registry: prometheus.NewRegistry()}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	n.log = n.log.With(keyNode, cfg.Name)
	n.secrets.Store(&cfg.Secrets)
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if cfg.MemoryLimit > 0 {
		debug.SetMemoryLimit(cfg.MemoryLimit)
	}
	if err := openAll(
		n.openDir,
		n.openFiles, // before DNS: residency needs the GeoIP file
		n.openLKG,   // before DNS: it answers from what this loads
		n.openDNS,   // before Raft: a node without quorum must answer
	); err != nil {
		return nil, err
	}
	answering := len(n.closers)
	if err := openAll(
		n.openIdentity,
		n.openMesh, // before consensus: it dials through it
		n.openConsensus,
		n.openObserver,
		n.openAPI,
	); err != nil {
		if !n.answersAlone(err) {
			return nil, err
		}
		n.alone = err
		n.closeDownTo(answering)
		return n, nil
	}
	n.registry.MustRegister(newMetrics(n))
	return n, nil
}

// openAll opens parts in order, up to the first that fails.
func openAll(parts ...func() error) error {
	for _, open := range parts {
		if err := open(); err != nil {
			return err
		}
	}
	return nil
}

// close undoes Open.
func (n *Node) close() { n.closeDownTo(0) }

// closeDownTo undoes all but the first parts that Open opened.
func (n *Node) closeDownTo(parts int) {
	for i := len(n.closers) - 1; i >= parts; i-- {
		n.closers[i]()
	}
	n.closers = n.closers[:parts]
}

func (n *Node) onClose(f func()) { n.closers = append(n.closers, f) }

func (n *Node) openDir() error {
	dir, err := openDataDir(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.dir = dir
	n.onClose(dir.close)
	return nil
}

func (n *Node) openIdentity() error {
	var err error
	n.id, err = n.dir.loadIdentity(n.cfg.Name)
	return err
}

func (n *Node) openLKG() error {
	file, err := lkg.Open(n.dir.join(lkgFolder), n.log)
	if err != nil {
		return fmt.Errorf("open the last known good state: %w", err)
	}
	n.lkg = file
	n.onClose(func() { _ = file.Close() }) // flushed by Run
	st, err := file.Load()
	if err != nil {
		// G13: a damaged file serves nothing, and nothing else stops because of it.
		n.log.Error("the last known good state cannot be read; DNS answers once the quorum is heard", keyErr, err)
	}
	n.contact = openContact(n.dir.join(contactFile), n.started)
	n.store = statestore.NewStore()
	n.view = newView(n.store, st)
	n.keys = newZoneKeys(n.secret, n.log)
	n.tables = &publisher{log: n.log, floor: file, places: n.places, keys: n.keys, swapped: make(chan struct{}, 1), caught: make(chan struct{}, 1)}
	if file.FloorLost() {
		n.log.Error("the epochs that this node has answered with are lost; stateful services are withheld until it has caught up with a quorum")
	}
	if st == nil || file.FloorLost() || n.dir.isBehind() {
		n.setBehind()
	}
	if st != nil {
		if err := n.tables.publish(st); err != nil {
			n.log.Error("the table of the last known good state leaves something out", keyErr, err)
		}
	}
	return nil
}

func (n *Node) openDNS() error {
	n.followCookies()
	n.dns = dnsserver.New(dnsserver.Config{
		Listen:     n.cfg.DNS.Listen,
		Table:      n.tables.table.Load,
		Age:        n.age,
		NSID:       n.cfg.DNS.NSID,
		UDPSize:    n.cfg.DNS.UDPSize,
		Readers:    n.opts.Workers,
		Cookies:    n.cookies.keys.Load,
		RateLimit:  rateLimit(n.cfg.DNS.RateLimit),
		Keys:       n.keys.of,
		Log:        n.log,
		Registerer: n.registry,
	})
	if t := n.tables.table.Load(); t != nil {
		n.dns.Publish(t)
	}
	n.tables.serve = n.dns.Publish
	if err := n.dns.Bind(); err != nil {
		return err
	}
	// It answers from here on: checking and opening a large or sick Raft store may
	// take long.
	n.answers = newPlane(context.Background(), n.log)
	n.answers.run("dns", n.dns.Run)
	n.onClose(func() { _ = n.answers.stop() }) // what failed was logged as it did
	return nil
}

// restored follows a snapshot that replaced the whole state: the journal starts
// anew from it, and the leader may have dropped votes that this node missed.
func (n *Node) restored(st *statestore.State) {
	n.lkg.Rebase(st)
	if n.reporter != nil {
		n.reporter.Resync()
	}
}

// age is how long this node has not heard a leader that holds its lease, in earlier
// runs included; never less than the true time.
func (n *Node) age() time.Duration {
	if raft := n.opened.Load(); raft != nil {
		return n.contact.age(raft.LastContact(), time.Now())
	}
	return n.contact.before + time.Since(n.started)
}

// Store returns the state as this node has it.
func (n *Node) Store() api.Store { return n.view }

// Raft returns the node's part in consensus.
func (n *Node) Raft() *consensus.Node { return n.raft }

// Answers reports whether the node has data to answer DNS from.
func (n *Node) Answers() bool { return n.tables.table.Load() != nil }

// Run runs the node until ctx ends, then stops its parts in reverse: the API
// first, so that nobody is promised anything more; DNS last.
func (n *Node) Run(ctx context.Context) error {
	defer n.close()
	if n.alone != nil {
		return n.runAlone(ctx)
	}
	background := context.WithoutCancel(ctx)
	data := newPlane(background, n.log)
	control := newPlane(background, n.log)

	data.run("last known good state", func(ctx context.Context) error {
		n.lkg.Run(ctx, n.store.State)
		return nil
	})
	data.run("tables", func(ctx context.Context) error {
		n.tables.run(ctx, n.view)
		return nil
	})
	if n.opts.OwnProcess {
		data.run("memory", n.giveBack)
	}
	control.run("peer port", func(ctx context.Context) error { return n.mesh.Serve(ctx, n.peers) })
	control.run("joins", func(ctx context.Context) error {
		return mesh.ServeJoin(ctx, n.mesh.Listener(mesh.ProtoJoin), n.admit)
	})
	control.run("acknowledgements", n.acknowledge)
	control.run("catching up", n.catchUp)
	control.run("addresses", n.book.run)
	control.run("bootstrap", n.bootstrap)
	control.run("identity", n.markStarted)
	control.run("contact", func(ctx context.Context) error {
		n.contact.run(ctx, n.raft.LastContact, n.log)
		return nil
	})
	control.run("leader duties", func(ctx context.Context) error {
		return n.raft.Lead(ctx, n.control.Run)
	})
	control.run("membership", n.keepMember)
	control.run("certificates", n.keepCertificates)
	n.watchCertificates()
	data.run("files", n.files.run)
	if n.reporter != nil {
		control.run("probes", n.prober.Run)
		control.run("probe plan", n.keepPlan)
		control.run("reports", n.reporter.Run)
		control.run("measurements", n.keepMeasuring)
	}
	control.run("api", n.api.run)

	n.log.Info("serving", keyDNS, n.dns.Addrs(), keyAPI, n.api.url(), keyPeer, n.peers.Addr().String(), keyVersion, n.opts.Version)
	<-ctx.Done()
	n.log.Info("stopping")

	// Nothing below may be promised once Raft is closing, so the control plane goes
	// first. The journal flushes what was applied until then; DNS answers throughout.
	errs := []error{control.stop(), n.raft.Close(), data.stop(), n.answers.stop()}
	return errors.Join(errs...)
}

// Serial returns the serial of the table the node answers from; 0 without one.
func (n *Node) Serial() uint32 {
	if t := n.tables.table.Load(); t != nil {
		return t.Serial
	}
	return 0
}
