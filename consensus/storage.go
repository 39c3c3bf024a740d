package consensus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/quorate/quorate/statestore"
)

// Storage is what raft keeps. Close may be nil.
type Storage struct {
	Log       raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
	Close     func() error
}

const (
	storeFile = "raft.db"

	// lockTimeout is how long to wait for another process to let go of the file.
	lockTimeout = time.Second
)

// openStorage opens the store under dir, making it if there is none.
func openStorage(dir string, log hclog.Logger) (*Storage, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make raft directory: %w", err)
	}
	path := storePath(dir)
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout: lockTimeout,
			// The freelist is rebuilt at open instead of written with each commit, and
			// kept in a map: with it on disk each commit slows down as the log turns
			// over (consul #12141).
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open raft store %s: %w", path, err)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open snapshots under %s: %w", dir, err), bolt.Close())
	}
	return &Storage{Log: bolt, Stable: bolt, Snapshots: snapshots, Close: bolt.Close}, nil
}

func storePath(dir string) string { return filepath.Join(dir, storeFile) }

// StoreExists reports whether there is a store under dir, sound or not.
func StoreExists(dir string) bool {
	_, err := os.Stat(storePath(dir))
	return !errors.Is(err, fs.ErrNotExist)
}

// CheckStore opens the store under dir read-only and verifies it: the pages of
// the file, that each entry of the log reads, and that the newest snapshot does. A
// directory without a store is fine. A damaged file may panic or hang this: run it
// in a process of its own, with a deadline.
func CheckStore(dir string) error {
	path := storePath(dir)
	if !StoreExists(dir) {
		return nil
	}
	if err := checkPages(path); err != nil {
		return err
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path:        path,
		BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: lockTimeout},
	})
	if err != nil {
		return openError(path, err)
	}
	if err := errors.Join(checkLog(bolt), bolt.Close()); err != nil {
		return fmt.Errorf("raft store %s: %w", path, err)
	}
	return checkSnapshot(dir)
}

// openError says of a lock that is not let go what it means.
func openError(path string, err error) error {
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("open raft store %s: another process uses it; stop that one first", path)
	}
	return fmt.Errorf("open raft store %s: %w", path, err)
}

func checkPages(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, PreLoadFreelist: true})
	if err != nil {
		return openError(path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() { // must be drained
			if first == nil {
				first = err
			}
		}
		return first
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("check raft store %s: %w", path, err)
	}
	return nil
}

func checkLog(log raft.LogStore) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	for i := first; i != 0 && i <= last; i++ {
		var e raft.Log
		if err := log.GetLog(i, &e); err != nil {
			return fmt.Errorf("entry %d of %d to %d: %w", i, first, last, err)
		}
		if e.Index != i {
			return fmt.Errorf("entry %d says it is %d", i, e.Index)
		}
	}
	return nil
}

func checkSnapshot(dir string) error {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return fmt.Errorf("open snapshots under %s: %w", dir, err)
	}
	list, err := snapshots.List()
	if err != nil || len(list) == 0 {
		return err
	}
	_, r, err := snapshots.Open(list[0].ID)
	if err != nil {
		return fmt.Errorf("open snapshot %s: %w", list[0].ID, err)
	}
	_, err = statestore.ReadSnapshot(io.Reader(r))
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read snapshot %s: %w", list[0].ID, err)
	}
	return nil
}

// Quarantine moves the store under dir aside and returns where to. Nothing is
// deleted. The node must then join under a new nonce: under its old id it would
// have forgotten its votes.
func Quarantine(dir string, now time.Time) (string, error) {
	to := filepath.Clean(dir) + ".quarantine-" + now.UTC().Format("20060102T150405.000Z")
	if err := os.Rename(dir, to); err != nil {
		return "", fmt.Errorf("quarantine raft store: %w", err)
	}
	return to, nil
}
