package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) overrideCommand() *cobra.Command {
	var (
		a       act
		forTime string
	)
	cmd := &cobra.Command{
		Use:   "override SERVICE=CLUSTER",
		Short: "Pin a stateless service to one cluster",
		Long: `All clients that residency allows are answered with that cluster, until the pin
ends or is cleared. A pin yields to a verdict: while the cluster is down or
drained the policy answers. Stateful services are moved by a cutover.`,
		Example: `  quorate override web=us --for 30m --reason "eu answers 500 to half of the logins"
  quorate override clear web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, cluster, ok := strings.Cut(args[0], "=")
			if !ok || service == "" || cluster == "" {
				return usageError(fmt.Errorf("override needs SERVICE=CLUSTER, got %q (or: quorate override clear SERVICE)", args[0]))
			}
			if err := requireReason(a.reason, "override"); err != nil {
				return err
			}
			request := func(dryRun bool) client.Request {
				return client.Request{
					Method: http.MethodPut, Path: overridePath(service),
					Body: apitype.OverrideRequest{Cluster: cluster, For: forTime, Reason: a.reason, DryRun: dryRun},
				}
			}
			if err := c.preview(cmd, &a, service, "Type the service name to pin it:", request); err != nil {
				return err
			}
			return c.doAct(cmd, request(a.dryRun))
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&forTime, "for", "", "until it ends by itself; default until cleared")
	cmd.Flags().StringVar(&a.confirm, "confirm", "", "the service's name, instead of typing it")
	cmd.AddCommand(c.overrideClearCommand())
	return cmd
}

func (c *cli) overrideClearCommand() *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:   "clear SERVICE",
		Short: "Let the policy answer again",
		Example: `  quorate override clear web
  quorate override clear web --reason "logins work again" --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.doAct(cmd, client.Request{
				Method: http.MethodDelete, Path: overridePath(args[0]),
				Body: apitype.ClearOverrideRequest{Reason: a.reason, DryRun: a.dryRun},
			})
		},
	}
	a.flags(cmd)
	return cmd
}

func overridePath(service string) string {
	return "/services/" + url.PathEscape(service) + "/override"
}

// preview shows a person at a terminal what an act would do, and has them type name.
func (c *cli) preview(cmd *cobra.Command, a *act, name, question string, request func(dryRun bool) client.Request) error {
	if a.confirm != "" && a.confirm != name {
		return c.confirm(a.confirm, name, "")
	}
	if a.dryRun || a.confirm != "" || !c.tty() {
		return nil
	}
	impact, err := send[apitype.Act](cmd.Context(), c, request(true))
	if err != nil {
		return err
	}
	actTable(c.err, impact.Items)
	return c.askName(name, question)
}
