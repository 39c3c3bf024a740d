package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show revisions of the spec, and roll back",
		Example: `  quorate config show
  quorate config rollback 41 --reason "wrong weights"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.configShowCommand(), c.configHistoryCommand(), c.configRollbackCommand())
	return cmd
}

func (c *cli) configShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [REVISION]",
		Short: "Print the spec as it was handed in",
		Example: `  quorate config show
  quorate config show 41`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/spec"
			if len(args) == 1 {
				n, err := revisionArg(args[0])
				if err != nil {
					return err
				}
				path = fmt.Sprintf("/spec/revisions/%d", n)
			}
			env, err := get[apitype.Spec](cmd.Context(), c, path, nil)
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.Spec) {
				for _, s := range items {
					fmt.Fprint(w, s.Source)
				}
			})
		},
	}
}

func (c *cli) configHistoryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "List the revisions that are kept",
		Example: `  quorate config history
  quorate config history -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := get[apitype.Revision](cmd.Context(), c, "/spec/revisions", nil)
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.Revision) {
				rows := make([][]string, 0, len(items))
				for _, r := range items {
					current := ""
					if r.Current {
						current = "current"
					}
					rows = append(rows, []string{fmt.Sprint(r.Number), stamp(r.At), r.Author, orDash(r.Reason), current})
				}
				columns(w, "REVISION WHEN BY REASON STATE", rows)
			})
		},
	}
}

func (c *cli) configRollbackCommand() *cobra.Command {
	var (
		a     act
		force bool
	)
	cmd := &cobra.Command{
		Use:   "rollback REVISION",
		Short: "Make an older revision's spec the next one",
		Long:  `Rolls back intent only: it moves no stateful service and lifts no drain.`,
		Example: `  quorate config rollback 41 --reason "wrong weights"
  quorate config rollback 41 --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := revisionArg(args[0])
			if err != nil {
				return err
			}
			env, err := send[apitype.Plan](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/spec/rollback",
				Body: apitype.RollbackRequest{Revision: n, Reason: a.reason, Force: force, DryRun: a.dryRun},
			})
			if err != nil {
				return err
			}
			return show(c, env, planTable)
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "go on although a guard rail of the plan is exceeded")
	return cmd
}

func revisionArg(arg string) (uint64, error) {
	n, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return 0, usageError(fmt.Errorf("REVISION must be a number (see: quorate config history), is %q", arg))
	}
	return n, nil
}
