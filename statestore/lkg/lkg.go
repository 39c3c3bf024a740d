// Package lkg keeps the last known good state on a node's disk, so that the node
// answers DNS before Raft opens, without quorum, and after a crash.
//
// A base file is a snapshot; a journal holds the log entries applied since. The
// floor file holds what this node must never go below again. Appending never
// blocks the one who applies: a failing disk is reported and costs freshness
// after the next crash, nothing else.
package lkg

import (
	"context"
	"log/slog"

	"github.com/quorate/quorate/statestore"
)

// File is the last known good state in one directory.
type File struct{}

// Open opens or creates the files in dir. One process at a time may use it.
func Open(dir string, log *slog.Logger) (*File, error) { return &File{}, nil }

// Load returns the newest state that can be put together, or nil when there is
// none. Call it before the first Append.
func (f *File) Load() (*statestore.State, error) { return nil, nil }

// Append adds an applied log entry. It copies data, and never blocks or fails.
func (f *File) Append(index, term uint64, data []byte) {}

// Rebase makes st the base. Call it after Store.Restore, before the next Append:
// the journal holds only what came entry by entry. It does not block.
func (f *File) Rebase(st *statestore.State) {}

// Floor returns the floor record.
func (f *File) Floor() Floor { return Floor{} }

// SetFloor raises the floor; it is on disk when SetFloor returns nil.
func (f *File) SetFloor(fl Floor) error { return nil }

// Floor is what this node must never go below, restarts included (G2).
type Floor struct{ Generation uint64 }

// Run writes what was appended, until ctx ends; then it flushes once more. The
// journal is folded into a new base, made from current, when it has grown long.
func (f *File) Run(ctx context.Context, current func() *statestore.State) { <-ctx.Done() }

// Err returns the last write's error; nil when it succeeded.
func (f *File) Err() error { return nil }

// Close closes the files. Call it after Run has returned.
func (f *File) Close() error { return nil }
