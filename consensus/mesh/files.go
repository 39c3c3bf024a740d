package mesh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of a mesh directory.
const (
	fileCA    = "ca.crt"   // every trusted CA
	fileCAKey = "ca.key"   // voters only: CA keys, sealed with the node's key, the newest first
	fileCert  = "peer.crt" // written last: with it the identity exists
	fileKey   = "peer.key"
)

const (
	modeSecret = fs.FileMode(0o600)
	modePublic = fs.FileMode(0o644)
	modeDir    = fs.FileMode(0o700)
)

// paths names the files of one node.
type paths struct{ dir, ca, caKey, cert, key string }

func pathsIn(dir string) paths {
	return paths{
		dir:   dir,
		ca:    filepath.Join(dir, fileCA),
		caKey: filepath.Join(dir, fileCAKey),
		cert:  filepath.Join(dir, fileCert),
		key:   filepath.Join(dir, fileKey),
	}
}

// makeDir makes the directory, and refuses one that others may enter.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, modeDir); err != nil {
		return fmt.Errorf("make certificate directory: %w", err)
	}
	return checkMode(dir, modeDir)
}

// checkMode refuses a path that has a permission bit which allowed has not.
func checkMode(path string, allowed fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm&0o077&^allowed != 0 {
		return fmt.Errorf("%s must not be open to other users: mode is %04o; run: chmod %04o %s", path, perm, allowed, path)
	}
	return nil
}

// readSecret reads a file that only its owner may read.
func readSecret(path string) ([]byte, error) {
	if err := checkMode(path, modeSecret); err != nil {
		return nil, err
	}
	return readBounded(path)
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPEM {
		return nil, fmt.Errorf("%s must be at most %d bytes, is %d", path, maxPEM, info.Size())
	}
	return os.ReadFile(path)
}

// writeFile puts data in place of path: whole or not at all, and on disk when it
// returns nil.
func writeFile(path string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // best effort: the first error is the one to tell
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Chmod(mode); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// removeFile removes path for good; a file that is not there is fine.
func removeFile(path string) error {
	switch err := os.Remove(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func exists(path string) (bool, error) {
	switch _, err := os.Stat(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}
