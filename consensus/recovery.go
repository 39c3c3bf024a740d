package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/statestore"
)

// keyCurrentTerm is where raft keeps its term.
const keyCurrentTerm = "CurrentTerm"

// snapshotVersion is the only one that raft's protocol 3 writes.
const snapshotVersion = 1

// ReadStore returns the state that the store under dir amounts to, and raft's term
// there: the newest snapshot that reads, and every entry of the log after it. The
// end of the log may never have been committed: who goes on from it must void what
// depends on that. The state is nil when there is none. Check the store first, in
// a process of its own: a damaged file may panic or hang this.
func ReadStore(dir string) (st *statestore.State, term uint64, err error) {
	if !StoreExists(dir) {
		return nil, 0, nil
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path:        storePath(dir),
		BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: lockTimeout},
	})
	if err != nil {
		return nil, 0, openError(storePath(dir), err)
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	store, from, err := newestSnapshot(dir)
	if err != nil {
		return nil, 0, err
	}
	if err := replay(store, from, bolt); err != nil {
		return nil, 0, fmt.Errorf("replay raft log %s: %w", storePath(dir), err)
	}
	term, err = bolt.GetUint64([]byte(keyCurrentTerm))
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, 0, fmt.Errorf("read raft store %s: %w", storePath(dir), err)
	}
	if store.State().Index == 0 {
		return nil, term, nil
	}
	return store.State(), max(term, store.State().Term), nil
}

// newestSnapshot returns a store at the newest snapshot that reads whole, and up to
// which entry that goes; the empty state when there are none.
func newestSnapshot(dir string) (*statestore.Store, uint64, error) {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return nil, 0, fmt.Errorf("open snapshots under %s: %w", dir, err)
	}
	list, err := snapshots.List()
	if err != nil {
		return nil, 0, fmt.Errorf("list snapshots under %s: %w", dir, err)
	}
	var errs []error
	for _, meta := range list {
		_, r, err := snapshots.Open(meta.ID)
		if err == nil {
			var st *statestore.State
			st, err = statestore.ReadSnapshot(r)
			if err = errors.Join(err, r.Close()); err == nil {
				return statestore.NewStoreAt(st), meta.Index, nil
			}
		}
		errs = append(errs, fmt.Errorf("snapshot %s: %w", meta.ID, err))
	}
	if len(errs) > 0 {
		return nil, 0, fmt.Errorf("read snapshots under %s: %w", dir, errors.Join(errs...))
	}
	return statestore.NewStore(), 0, nil
}

// replay applies what the log has beyond entry from, as raft would.
func replay(store *statestore.Store, from uint64, log raft.LogStore) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if first > from+1 {
		return fmt.Errorf("it begins at %d, and the snapshot before it ends at %d", first, from)
	}
	for i := from + 1; i <= last; i++ {
		var e raft.Log
		if err := log.GetLog(i, &e); err != nil {
			return fmt.Errorf("entry %d of %d to %d: %w", i, first, last, err)
		}
		if e.Type != raft.LogCommand {
			continue
		}
		if res := store.Apply(e.Index, e.Term, e.Data); errors.Is(res.Err, statestore.ErrUndecodable) {
			return fmt.Errorf("entry %d was written by a newer quorate: %w", i, res.Err)
		}
	}
	return nil
}

// Rebuild makes a Raft directory that holds st and has self as its only server,
// a voter: what remains of an installation that has lost its quorum, or comes out
// of a backup. dir must not hold a store. self needs a nonce that was never used.
func Rebuild(dir string, st *statestore.State, self Server) (err error) {
	if StoreExists(dir) {
		return fmt.Errorf("rebuild raft store: %s holds one already", dir)
	}
	storage, err := openStorage(dir, hclog.NewNullLogger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, storage.Close()) }()
	if err := storage.Stable.SetUint64([]byte(keyCurrentTerm), st.Term); err != nil {
		return fmt.Errorf("rebuild raft store %s: write term: %w", dir, err)
	}
	id := self.ID()
	servers := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)}}}
	_, trans := raft.NewInmemTransport(raft.ServerAddress(id)) // only writes addresses down
	// The configuration counts as committed by the first entry, as in raft's own
	// RecoverCluster: any change that comes is after that.
	sink, err := storage.Snapshots.Create(snapshotVersion, st.Index, st.Term, servers, 1, trans)
	if err != nil {
		return fmt.Errorf("rebuild raft store %s: %w", dir, err)
	}
	if err := (snapshot{st}).Persist(sink); err != nil {
		return fmt.Errorf("rebuild raft store %s: %w", dir, err)
	}
	return nil
}
