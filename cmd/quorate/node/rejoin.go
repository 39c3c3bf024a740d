package node

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/consensus/mesh"
)

// rejoinFolder holds the new certificates of a node that joins again, until it has
// them; meshFolder stays as it is until then.
const rejoinFolder = "mesh.joining"

// rejoin joins a node that was a member before: its log was lost, or it was removed.
// The installation decides whether it may. The old certificates and the old log
// are moved aside, what DNS answers from stays.
func rejoin(ctx context.Context, dir *dataDir, joiner mesh.Joiner, addr, token string, req mesh.JoinRequest) (mesh.JoinResponse, error) {
	var none mesh.JoinResponse
	tok, err := mesh.ParseJoinToken(token)
	if err != nil {
		return none, err
	}
	if !trusts(filepath.Join(joiner.Dir, "ca.crt"), tok.CA) {
		return none, fmt.Errorf("join: %w in %s, and not one of the token's installation; use another data_dir, or remove this one", mesh.ErrHasIdentity, joiner.Dir)
	}
	old := joiner.Dir
	joiner.Dir = dir.join(rejoinFolder)
	resp, err := joiner.Join(ctx, addr, token, req)
	if err != nil && !errors.Is(err, mesh.ErrHasIdentity) { // had: an earlier try ended right here
		return none, fmt.Errorf("%w (%w in %s)", err, mesh.ErrHasIdentity, old)
	}
	// What it answers of stateful services may be long over by now.
	if err := dir.markBehind(); err != nil {
		return none, fmt.Errorf("join: %w", err)
	}
	aside := ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	for _, path := range []string{dir.join(raftFolder), old} {
		if err := os.Rename(path, path+aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return none, fmt.Errorf("join: %w", err)
		}
	}
	if err := errors.Join(os.Rename(joiner.Dir, old), syncDir(dir.path)); err != nil {
		return none, fmt.Errorf("join: %w", err)
	}
	m, err := mesh.Open(mesh.Config{Dir: old})
	if err != nil {
		return none, fmt.Errorf("join: %w", err)
	}
	resp.Installation = m.Identity().Installation
	return resp, m.Close()
}

// trusts reports whether a file of certificates holds the CA with that fingerprint.
func trusts(path, ca string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if fp, err := mesh.CAFingerprintOf(string(pem.EncodeToMemory(block))); err == nil && fp == ca {
			return true
		}
	}
	return false
}
