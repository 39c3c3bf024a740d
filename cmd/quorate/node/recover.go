package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
	"github.com/quorate/quorate/statestore/lkg"
)

// RecoverOptions say how an installation begins its next generation.
type RecoverOptions struct {
	Above   uint64 // generations that may have been reached elsewhere
	Actor   string // who does it, for the history
	Reason  string
	Version string

	// CheckStore checks the Raft store before it is read; see Options. Nil: in this
	// process.
	CheckStore func(dir string) error
}

// Recovery is an installation that is about to go on with this node alone, under a
// higher generation: what was left of it after its quorum was lost, or a backup.
// Nothing is written until Begin. It holds the data directory until Close.
type Recovery struct {
	From       *statestore.State // what it goes on from
	Source     string            // where that was found
	Generation uint64            // that it begins
	Warnings   []string          // what could not be read

	cfg   *config.Node
	opts  RecoverOptions
	dir   *dataDir
	lkg   *lkg.File
	term  uint64
	fresh bool // the directory is empty: a backup is restored into it
}

// ErrNothingToRecover says that a data directory holds no state.
var ErrNothingToRecover = errors.New("nothing to recover")

// OpenRecovery reads what this node's data directory knows: the newest of the Raft
// store and the last known good state. It refuses while a server runs on it.
func OpenRecovery(cfg *config.Node, o RecoverOptions) (_ *Recovery, err error) {
	r := &Recovery{cfg: cfg, opts: o}
	if _, err := os.Stat(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNothingToRecover, err)
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	var id identity
	if _, err := readJSON(r.dir.join(identityFile), &id); err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	} else if id.Name != "" && id.Name != cfg.Name {
		return nil, fmt.Errorf("data directory %s belongs to node %q, node.yaml says %q; use another data_dir or the old name", cfg.DataDir, id.Name, cfg.Name)
	}
	if r.lkg.FloorLost() {
		r.Warnings = append(r.Warnings, "which generations and epochs this node has answered with is lost; be sure of --above")
	}
	kept, err := r.lkg.Load()
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	}
	logged := r.readStore()
	r.From, r.Source = newest(logged, kept)
	if r.From == nil {
		return nil, fmt.Errorf("%w in %s; restore a backup instead: quorate backup restore FILE --new-installation", ErrNothingToRecover, cfg.DataDir)
	}
	m, err := r.openMesh()
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }() // no link was opened
	switch who := m.Identity(); {
	case who.Installation != r.From.Installation:
		return nil, fmt.Errorf("the certificate is of installation %q, the state in %s of %q", who.Installation, cfg.DataDir, r.From.Installation)
	case who.Role != mesh.RoleVoter:
		return nil, fmt.Errorf("%s is a %s by its certificate and cannot lead an installation; recover on a node that was a voter", cfg.Name, who.Role)
	}
	r.Generation = r.above(r.From, logged, kept)
	return r, nil
}

// OpenRestore prepares to go on from a backup in an empty data directory.
func OpenRestore(cfg *config.Node, backup *statestore.State, source string, o RecoverOptions) (*Recovery, error) {
	switch entries, err := os.ReadDir(cfg.DataDir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("restore: %w", err)
	case slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != lockFile }):
		return nil, fmt.Errorf("restore: %w", dirError{cfg.DataDir})
	}
	if !cfg.Voter {
		return nil, errors.New("restore makes the first voter, but node.yaml says role: nonvoter")
	}
	if backup.Installation == "" {
		return nil, errors.New("restore: the backup is of no installation")
	}
	return &Recovery{
		cfg: cfg, opts: o, From: backup, Source: source, fresh: true, term: backup.Term,
		Generation: max(o.Above, backup.Generation) + 1,
	}, nil
}

// ErrNotEmpty is returned where an empty data directory is needed.
var ErrNotEmpty = errors.New("data_dir must be empty")

// dirError names the directory that is not empty.
type dirError struct{ dir string }

func (e dirError) Error() string {
	return fmt.Sprintf("%v, and %s is not; name another one, or move it away", ErrNotEmpty, e.dir)
}
func (e dirError) Unwrap() error { return ErrNotEmpty }

func (r *Recovery) open() error {
	dir, err := openDataDir(r.cfg.DataDir)
	if err != nil {
		return err
	}
	file, err := lkg.Open(dir.join(lkgFolder), slog.New(slog.DiscardHandler))
	if err != nil {
		dir.close()
		return err
	}
	r.dir, r.lkg = dir, file
	return nil
}

// Close lets go of the data directory.
func (r *Recovery) Close() {
	if r.dir == nil {
		return
	}
	_ = r.lkg.Close() // what matters was synced, or Begin has failed
	r.dir.close()
}

// readStore returns what the Raft store holds, or nil; what is in the way is a
// warning, since the last known good state may do.
func (r *Recovery) readStore() *statestore.State {
	dir := r.dir.join(raftFolder)
	check := r.opts.CheckStore
	if check == nil {
		check = consensus.CheckStore
	}
	if err := check(dir); err != nil {
		r.Warnings = append(r.Warnings, err.Error())
		return nil
	}
	st, term, err := consensus.ReadStore(dir)
	r.term = term
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
		return nil
	}
	return st
}

// newest returns the newer of the two states, either of which may be nil.
func newest(logged, kept *statestore.State) (*statestore.State, string) {
	switch {
	case logged == nil && kept == nil:
		return nil, ""
	case kept == nil:
		return logged, "the Raft store"
	case logged == nil, cmp.Or(cmp.Compare(logged.Generation, kept.Generation), cmp.Compare(logged.Index, kept.Index)) < 0:
		return kept, "the last known good state"
	}
	return logged, "the Raft store"
}

// above returns a generation above all that is known of here, and above the one
// the operator named.
func (r *Recovery) above(states ...*statestore.State) uint64 {
	floor := r.lkg.Floor()
	top := max(r.opts.Above, floor.Generation)
	for _, m := range floor.Services {
		top = max(top, m.Generation)
	}
	for _, st := range states {
		if st != nil {
			top = max(top, st.Generation)
		}
	}
	return top + 1
}

// Void returns the cutovers that end without having been done, oldest first.
func (r *Recovery) Void() []string {
	var ids []string
	for _, co := range r.From.OpenCutovers() {
		ids = append(ids, co.ID)
	}
	return ids
}

// Unconfirmed returns the stateful services whose active side a person must name,
// sorted.
func (r *Recovery) Unconfirmed() []string {
	var names []string
	for name, run := range r.From.Services {
		if run.Ownership != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *Recovery) openMesh() (*mesh.Mesh, error) {
	cfg := mesh.Config{Dir: r.dir.join(meshFolder), Version: r.opts.Version}
	if t := r.cfg.Peer.TLS; t != nil {
		cfg.CAFile, cfg.CertFile, cfg.KeyFile = t.CA, t.Cert, t.Key
	}
	return mesh.Open(cfg)
}

// Begin writes the next generation and returns where the old Raft store was moved,
// if there was one. The last known good state comes first: a crash leaves a
// directory that can be recovered again, under yet another generation.
func (r *Recovery) Begin(now time.Time) (kept string, err error) {
	if r.fresh {
		if err := r.open(); err != nil {
			return "", err
		}
		// The backup holds no CA's key, so that this installation gets a CA of its own.
		if r.cfg.Peer.TLS == nil {
			if _, err := mesh.InitDir(r.dir.join(meshFolder), r.From.Installation, r.cfg.Name, mesh.RoleVoter, now); err != nil {
				return "", err
			}
		}
	}
	id := identity{Name: r.cfg.Name, Nonce: newNonce(), Started: true}
	st, err := r.next(id, now)
	if err != nil {
		return "", err
	}
	if err := r.keep(st); err != nil {
		return "", err
	}
	return r.replaceStore(st, id, now)
}

// next applies the recovery to the state, as the leader of a term of its own.
func (r *Recovery) next(id identity, now time.Time) (*statestore.State, error) {
	m, err := r.openMesh()
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }() // no link was opened
	var ca statestore.TrustedCA
	if trust := m.Trust(); r.fresh && len(trust) > 0 {
		if ca, err = trustedCA(trust[0]); err != nil {
			return nil, err
		}
	}
	if got := m.Identity().Installation; got != r.From.Installation {
		return nil, fmt.Errorf("the certificate is of installation %q, the state of %q", got, r.From.Installation)
	}
	member := memberOf(r.cfg, id.Nonce, statestore.Voter, r.opts.Version, m.Issuer())
	meta := statestore.Meta{Actor: r.opts.Actor, Wall: now, Elapsed: max(0, now.Sub(r.From.Now)), Rebased: true}
	entry, err := statestore.Encode(statestore.BeginGeneration{Generation: r.Generation, Member: member, CA: ca, Reason: r.opts.Reason}, meta)
	if err != nil {
		return nil, err
	}
	store := statestore.NewStoreAt(r.From)
	if res := store.Apply(r.From.Index+1, max(r.term, r.From.Term)+1, entry); res.Err != nil {
		return nil, fmt.Errorf("begin generation %d: %w", r.Generation, res.Err)
	}
	return store.State(), nil
}

// keep makes st the last known good state, durably.
func (r *Recovery) keep(st *statestore.State) error {
	r.lkg.Rebase(st)
	ended, end := context.WithCancel(context.Background())
	end() // it writes what waits, once
	r.lkg.Run(ended, func() *statestore.State { return st })
	return r.lkg.Err()
}

// replaceStore puts a Raft store with st alone where the old one was. The identity
// comes last: without its nonce nobody leads from the new store.
func (r *Recovery) replaceStore(st *statestore.State, id identity, now time.Time) (kept string, err error) {
	dir := r.dir.join(raftFolder)
	building := dir + ".recovering"
	if err := os.RemoveAll(building); err != nil { // of a try that was cut short
		return "", err
	}
	if err := consensus.Rebuild(building, st, consensus.Server{Name: id.Name, Nonce: id.Nonce}); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		if kept, err = consensus.Quarantine(dir, now); err != nil {
			return "", err
		}
	}
	if err := errors.Join(os.Rename(building, dir), syncDir(r.dir.path)); err != nil {
		return kept, fmt.Errorf("put the new Raft store in place: %w", err)
	}
	// Addresses of members that are none any more.
	if err := os.Remove(r.dir.join(peersFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	return kept, writeJSON(r.dir.join(identityFile), id)
}
