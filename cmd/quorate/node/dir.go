package node

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The files and folders of a data directory.
const (
	lockFile     = "lock"
	identityFile = "node.json"
	seedFile     = "seed.json"
	peersFile    = "peers.json"
	contactFile  = "contact"
	behindFile   = "behind"
	meshFolder   = "mesh"
	raftFolder   = "raft"
	lkgFolder    = "lkg"
	socketFile   = "quorate.sock"
)

// dataDir is a node's data directory, locked by this process.
type dataDir struct {
	path string
	lock *os.File
}

// ErrInUse says that a data directory is another process's.
var ErrInUse = errors.New("another quorate process uses it")

// openDataDir makes the directory if needed, readable by its owner only, and
// locks it: two processes on one Raft log would both lose it.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close() // nothing was written to it
		return nil, fmt.Errorf("open data directory %s: %w; stop that one first", path, ErrInUse)
	}
	return &dataDir{path: path, lock: lock}, nil
}

func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

// close gives the directory back. The lock goes with the file.
func (d *dataDir) close() { _ = d.lock.Close() }

// identity is what a data directory remembers of the node it belongs to.
type identity struct {
	Name  string `json:"name"`
	Nonce string `json:"nonce"` // Raft's ServerID is NAME/NONCE: an empty log never comes back under an old id

	// Started says that this id had a log: if there is none, it was lost.
	Started bool `json:"started,omitempty"`
}

// loadIdentity reads the directory's identity, or gives it one on first use. A
// directory that belongs to another name is refused.
func (d *dataDir) loadIdentity(name string) (identity, error) {
	var id identity
	found, err := readJSON(d.join(identityFile), &id)
	if err != nil {
		return id, damaged(err)
	}
	if found {
		if id.Name != name {
			return id, fmt.Errorf("data directory %s belongs to node %q, node.yaml says %q; use another data_dir or the old name", d.path, id.Name, name)
		}
		return id, nil
	}
	id = identity{Name: name, Nonce: newNonce()}
	return id, writeJSON(d.join(identityFile), id)
}

func newNonce() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// readJSON reads a small file of ours into v; found is false if there is none.
func readJSON(path string, v any) (found bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// writeJSON replaces a small file of ours in one step, durably.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when the rename worked
	_, werr := tmp.Write(append(b, '\n'))
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// MeshDir is where a node with that data directory keeps its certificates.
func MeshDir(dataDir string) string { return filepath.Join(dataDir, meshFolder) }
