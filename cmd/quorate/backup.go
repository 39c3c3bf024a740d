package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/statestore"
)

func (c *cli) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save and inspect snapshots, begin anew from one",
		Example: `  quorate backup save quorate.snap
  quorate backup restore quorate.snap --new-installation --reason "site lost"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	save := &cobra.Command{
		Use:   "save FILE",
		Short: "Write a snapshot to a new file",
		Example: `  quorate backup save quorate.snap
  quorate backup save /var/backups/quorate.snap`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.saveBackup(cmd, args[0]) },
	}
	inspect := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Verify a snapshot and say what it holds",
		Example: `  quorate backup inspect quorate.snap
  quorate backup inspect quorate.snap -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return c.inspectBackup(args[0]) },
	}
	cmd.AddCommand(save, inspect, c.restoreCommand())
	return cmd
}

// saveBackup writes next to the file and renames, so that a broken transfer never
// leaves a backup that is not one.
func (c *cli) saveBackup(cmd *cobra.Command, path string) error {
	if _, err := os.Stat(path); err == nil {
		return usageError(fmt.Errorf("backup save: %s exists and is not overwritten", path))
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return usageError(fmt.Errorf("backup save %s: its folder cannot be used: %w", path, err))
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".backup-*")
	if err != nil {
		return fmt.Errorf("backup save %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when the rename worked
	_, err = cl.Backup(cmd.Context(), tmp)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	st, err := readSnapshot(tmp.Name())
	if err != nil {
		return fmt.Errorf("backup save: what came is no whole snapshot, nothing was kept: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	if c.format() == "table" {
		fmt.Fprintln(c.out, "saved "+path)
	}
	return c.showBackup(path, st)
}

func (c *cli) inspectBackup(path string) error {
	st, err := readSnapshot(path)
	if err != nil {
		return usageError(fmt.Errorf("backup inspect: %s", oneLine(err)))
	}
	return c.showBackup(path, st)
}

func readSnapshot(path string) (*statestore.State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	st, err := statestore.ReadSnapshot(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := st.VerifyAudit(); err != nil {
		return nil, fmt.Errorf("%s: the audit chain does not hold: %w", path, err)
	}
	return st, nil
}

// backup is what a snapshot holds, for -o json.
type backup struct {
	File         string `json:"file"`
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Index        uint64 `json:"index"`
	Revision     uint64 `json:"revision"`
	Services     int    `json:"services"`
	Clusters     int    `json:"clusters"`
	Members      int    `json:"members"`
	Events       uint64 `json:"events"`
	StateHash    string `json:"state_hash"`

	// Epochs are those of the stateful services, by name.
	Epochs map[string]uint64 `json:"epochs"`
	Open   []string          `json:"open_cutovers"` // void in whatever is restored from here
}

func (c *cli) showBackup(path string, st *statestore.State) error {
	hash := st.Hash()
	b := backup{
		File: path, Installation: st.Installation, Generation: st.Generation, Index: st.Index, Revision: st.Revision,
		Services: len(st.Spec.Services), Clusters: len(st.Spec.Clusters), Members: len(st.Members),
		Events: st.Audit.Count, StateHash: hex.EncodeToString(hash[:]),
		Epochs: map[string]uint64{}, Open: []string{},
	}
	for _, co := range st.OpenCutovers() {
		b.Open = append(b.Open, co.ID)
	}
	for name, run := range st.Services {
		if run.Ownership != nil {
			b.Epochs[name] = run.Ownership.Epoch
		}
	}
	if c.format() != "table" {
		return json.NewEncoder(c.out).Encode(b)
	}
	_, err := fmt.Fprintf(c.out, "index %d  revision %d  generation %d  services %d  clusters %d  members %d%s  events %d  audit ok  sha256 ok\n",
		b.Index, b.Revision, b.Generation, b.Services, b.Clusters, b.Members, b.stateful(), b.Events)
	return err
}

// stateful says what of a backup people would have to confirm.
func (b backup) stateful() string {
	text := ""
	if len(b.Epochs) > 0 {
		var epochs []string
		for _, name := range sortedKeys(b.Epochs) {
			epochs = append(epochs, fmt.Sprintf("%s=%d", name, b.Epochs[name]))
		}
		text = "  epochs " + strings.Join(epochs, ",")
	}
	if len(b.Open) > 0 {
		text += "  open " + strings.Join(b.Open, ",")
	}
	return text
}
