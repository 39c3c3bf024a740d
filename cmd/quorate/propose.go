package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/statestore"
)

// proposal is what propose was told.
type proposal struct {
	act
	to        string
	planned   bool
	emergency bool
}

func (c *cli) proposeCommand() *cobra.Command {
	var p proposal
	cmd := &cobra.Command{
		Use:   "propose SERVICE",
		Short: "Propose to move a stateful service; people then sign it",
		Long: `--planned moves away from a side that is well, --emergency away from one that
is down. The way back to the preferred side is: quorate failback SERVICE.`,
		Example: `  quorate cutover propose orders-db --to us --planned --reason "maintenance in eu"
  quorate cutover propose orders-db --emergency --reason "eu is gone" --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.planned == p.emergency {
				return usageError(fmt.Errorf("%s needs one of --planned and --emergency: may the source be serving?", verbOf(cmd)))
			}
			kind := statestore.Planned
			if p.emergency {
				kind = statestore.Emergency
			}
			return c.propose(cmd, apitype.CutoverRequest{Service: args[0], To: p.to, Kind: string(kind), Reason: p.reason, DryRun: p.dryRun})
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&p.to, "to", "", "destination; default the first healthy one in order")
	cmd.Flags().BoolVar(&p.planned, "planned", false, "the source is well: a person wants to move")
	cmd.Flags().BoolVar(&p.emergency, "emergency", false, "the source is down")
	return cmd
}

func (c *cli) failbackCommand() *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:   "failback SERVICE",
		Short: "Propose to move a stateful service back home",
		Example: `  quorate failback orders-db --reason "eu is rebuilt and follows"
  quorate failback orders-db --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.propose(cmd, apitype.CutoverRequest{Service: args[0], Kind: string(statestore.Back), Reason: firstOf(a.reason, "back to preferred"), DryRun: a.dryRun})
		},
	}
	a.flags(cmd)
	return cmd
}

// propose opens a cutover and shows what it waits for.
func (c *cli) propose(cmd *cobra.Command, r apitype.CutoverRequest) error {
	if strings.TrimSpace(r.Reason) == "" {
		return requireReason("", verbOf(cmd))
	}
	env, err := send[apitype.Cutover](cmd.Context(), c, client.Request{Method: http.MethodPost, Path: "/cutovers", Body: r})
	if err != nil {
		return err
	}
	if open, err := one(env); err == nil && !r.DryRun {
		if now, err := c.settled(cmd.Context(), open.ID); err == nil { // else what was answered is shown
			env = now
		}
	}
	blocked := false
	if err := show(c, env, func(w io.Writer, items []apitype.Cutover) {
		for _, co := range items {
			if r.DryRun {
				fmt.Fprintf(w, "dry run, nothing written: %s\n", co.Text)
				lines(w, "gates", gateLines(co))
				continue
			}
			card(w, co)
		}
	}); err != nil {
		return err
	}
	for _, co := range env.Items {
		blocked = blocked || r.DryRun && len(unwaivable(co)) > 0
	}
	if blocked {
		return quietError(client.ExitRefused)
	}
	return nil
}
