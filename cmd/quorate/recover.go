package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/consensus/mesh"
)

// recovery is what recover and backup restore share.
type recovery struct {
	config  string
	above   uint64
	reason  string
	confirm string
	dryRun  bool
}

func (r *recovery) flags(cmd *cobra.Command, confirm string) {
	f := cmd.Flags()
	f.StringVarP(&r.config, "config", "c", "/etc/quorate/node.yaml", "node.yaml of this node")
	f.Uint64Var(&r.above, "above", 0, "a generation that may have been reached elsewhere; the next one is above it")
	f.StringVar(&r.reason, "reason", "", "why; stands in the history")
	f.StringVar(&r.confirm, "confirm", "", confirm)
	f.BoolVar(&r.dryRun, "dry-run", false, "say what would happen, write nothing")
}

func (r *recovery) options() node.RecoverOptions {
	actor := "root"
	if u, err := user.Current(); err == nil {
		actor = u.Username
	}
	return node.RecoverOptions{Above: r.above, Actor: actor, Reason: r.reason, Version: version, CheckStore: checkStoreApart}
}

func (c *cli) recoverCommand() *cobra.Command {
	var r recovery
	cmd := &cobra.Command{
		Use:   "recover -c FILE",
		Short: "Go on with this node alone, the quorum being lost",
		Long: `For when so many voters are lost for good that no quorum will ever come back.
Begins the next generation of the installation with this node as its only member,
from the newest state in its data directory. Do it on one node only, the one that
knows most, or two installations would go on. Stop the server first, here and on
every other node that is left: those join again afterwards.

What only lost nodes knew is lost. Pending cutovers are void. Nobody knows for sure
which side of a stateful service was active last: each node answers with what it
last knew itself until a person names the active side.`,
		Example: `  quorate recover -c /etc/quorate/node.yaml --reason "eu and ap burnt down"
  quorate recover --above 3 --reason "two sites lost" --confirm eu-1`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := requireReason(r.reason, "recover"); err != nil {
				return err
			}
			cfg, err := c.loadNode(r.config)
			if err != nil {
				return err
			}
			rec, err := node.OpenRecovery(cfg, r.options())
			if err != nil {
				return recoverError(err)
			}
			defer rec.Close()
			return c.begin(&r, rec, beginning{node: cfg.Name, confirm: cfg.Name, ask: "Type the node's name:", peer: cfg.Peer.Advertise})
		},
	}
	r.flags(cmd, "name of this node; a terminal is asked")
	return cmd
}

func (c *cli) restoreCommand() *cobra.Command {
	var (
		r     recovery
		fresh bool
	)
	cmd := &cobra.Command{
		Use:   "restore FILE --new-installation",
		Short: "Begin anew from a snapshot, on an empty host",
		Long: `Makes the first node of an installation out of a snapshot: a new certificate
authority, since the old one's key is in no snapshot, and the next generation.
Other nodes join as they did at first, with empty data directories. Nodes of the
old installation must not be running.

Pending cutovers are void, and a person names the active side of each stateful
service: a snapshot may be older than the last move.`,
		Example: `  quorate backup restore quorate.snap --new-installation --reason "all sites lost"
  quorate backup restore quorate.snap --new-installation --above 3 --reason "drill" --confirm quorate.snap`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !fresh {
				return usageError(errors.New("backup restore makes an installation anew; say so with --new-installation"))
			}
			if err := requireReason(r.reason, "backup restore"); err != nil {
				return err
			}
			st, err := readSnapshot(args[0])
			if err != nil {
				return usageError(fmt.Errorf("backup restore: %s", oneLine(err)))
			}
			cfg, err := c.loadNode(r.config)
			if err != nil {
				return err
			}
			rec, err := node.OpenRestore(cfg, st, args[0], r.options())
			if err != nil {
				return recoverError(err)
			}
			defer rec.Close()
			return c.begin(&r, rec, beginning{
				node: cfg.Name, confirm: filepath.Base(args[0]), ask: "Type the file name:", peer: cfg.Peer.Advertise, fresh: true,
			})
		},
	}
	r.flags(cmd, "name of the file; a terminal is asked")
	cmd.Flags().BoolVar(&fresh, "new-installation", false, "make an installation anew; required")
	return cmd
}

// recoverError gives what is in the way of a recovery its exit code.
func recoverError(err error) error {
	switch {
	case errors.Is(err, node.ErrInUse):
		return codeError{client.ExitRefused, err}
	case errors.Is(err, node.ErrNotEmpty):
		return codeError{client.ExitConflict, err}
	case errors.Is(err, node.ErrNothingToRecover), errors.Is(err, mesh.ErrNoIdentity):
		return codeError{client.ExitNotFound, err}
	}
	return err
}

// beginning is what differs between the two ways to a new generation.
type beginning struct {
	node    string
	confirm string // what a person types
	ask     string
	peer    string
	fresh   bool
}

// begun is what came of a recovery, for -o json.
type begun struct {
	Installation string   `json:"installation"`
	Generation   uint64   `json:"generation"`
	From         string   `json:"from"`
	Index        uint64   `json:"index"`
	Revision     uint64   `json:"revision"`
	Void         []string `json:"void_cutovers"`
	Unconfirmed  []string `json:"unconfirmed_services"`
	Kept         string   `json:"old_store,omitempty"`
	DryRun       bool     `json:"dry_run"`
}

// begin says what will happen, asks, and does it.
func (c *cli) begin(r *recovery, rec *node.Recovery, b beginning) error {
	for _, w := range rec.Warnings {
		fmt.Fprintf(c.err, "warning: %s\n", oneLine(errors.New(w)))
	}
	fmt.Fprintln(c.err, willStart(rec))
	out := begun{
		Installation: rec.From.Installation, Generation: rec.Generation, From: rec.Source, Index: rec.From.Index,
		Revision: rec.From.Revision, Void: append([]string{}, rec.Void()...), Unconfirmed: append([]string{}, rec.Unconfirmed()...), DryRun: r.dryRun,
	}
	if !r.dryRun {
		if err := c.confirm(r.confirm, b.confirm, b.ask); err != nil {
			return err
		}
		kept, err := rec.Begin(time.Now())
		if err != nil {
			return recoverError(err)
		}
		out.Kept = kept
	}
	if c.format() != "table" {
		return json.NewEncoder(c.out).Encode(out)
	}
	if r.dryRun {
		_, err := fmt.Fprintln(c.out, "dry run, nothing written")
		return err
	}
	fmt.Fprintf(c.out, "generation %d of installation %s begun with %s alone\n", out.Generation, out.Installation, b.node)
	if out.Kept != "" {
		fmt.Fprintf(c.out, "the old Raft store is kept in %s\n", out.Kept)
	}
	again := "in an empty data_dir"
	if !b.fresh {
		again = "also on hosts that were members"
	}
	fmt.Fprintf(c.out, "Next:\n  quorate server -c %s\n", r.config)
	for _, service := range out.Unconfirmed {
		fmt.Fprintf(c.out, "  quorate thaw %s --active CLUSTER --reason \"...\"     once you know which side takes writes\n", service)
	}
	_, err := fmt.Fprintf(c.out, "  quorate members token     then on each other host, %s: quorate join TOKEN@%s\n", again, b.peer)
	return err
}

// willStart says what a recovery begins with, and what does not survive it.
func willStart(rec *node.Recovery) string {
	parts := []string{fmt.Sprintf("will start generation %d from revision %d, index %d (%s)", rec.Generation, rec.From.Revision, rec.From.Index, rec.Source)}
	if void := rec.Void(); len(void) > 0 {
		parts = append(parts, "pending cutovers are void: "+strings.Join(void, ", "))
	}
	if services := rec.Unconfirmed(); len(services) > 0 {
		var thaws []string
		for _, s := range services {
			thaws = append(thaws, fmt.Sprintf("%s: quorate thaw %s --active CLUSTER", s, s))
		}
		parts = append(parts, "stateful services start unconfirmed ("+strings.Join(thaws, "; ")+")")
	}
	return strings.Join(parts, "; ")
}
