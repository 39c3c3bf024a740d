package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

// actCommands change what is answered, by a person's decision.
func (c *cli) actCommands() []*cobra.Command {
	return []*cobra.Command{
		c.cutoverCommand(), c.approveCommand(""), c.rejectCommand(""), c.failbackCommand(),
		c.drainCommand(), c.undrainCommand(), c.overrideCommand(), c.freezeCommand(), c.thawCommand(),
	}
}

// act are the flags that every act has.
type act struct {
	reason  string
	dryRun  bool
	confirm string
}

func (a *act) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.reason, "reason", "", "why; stands in the history")
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "same checks and impact, nothing written")
}

func (c *cli) drainCommand() *cobra.Command {
	var (
		a        act
		forTime  string
		match    string
		services []string
	)
	cmd := &cobra.Command{
		Use:   "drain CLUSTER | --match LABELS",
		Short: "Take clusters out of answers",
		Long: `Shows who would move where, what that does to the capacity of those who take
them, and until when old answers may still be used. With --match all clusters
whose labels match go at once, and are judged together.`,
		Example: `  quorate drain eu --for 2h --reason "ingress upgrade"
  quorate drain --match rack=r7 --for 1h --reason "power work" --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (match != "") {
				got := "both"
				if match == "" {
					got = "nothing"
				}
				return usageError(fmt.Errorf("drain needs either CLUSTER or --match LABELS, got %s (see: quorate drain --help)", got))
			}
			if err := requireReason(a.reason, "drain"); err != nil {
				return err
			}
			name, question, request := match, "Type the labels to drain what they match:", func(dryRun bool) client.Request {
				return client.Request{
					Method: http.MethodPost, Path: "/drains",
					Body: apitype.DrainsRequest{Match: match, Services: services, For: forTime, Reason: a.reason, DryRun: dryRun},
				}
			}
			if match == "" {
				name, question, request = args[0], "Type the cluster name to drain it:", func(dryRun bool) client.Request {
					return client.Request{
						Method: http.MethodPost, Path: "/clusters/" + url.PathEscape(args[0]) + "/drain",
						Body: apitype.DrainRequest{Services: services, For: forTime, Reason: a.reason, DryRun: dryRun},
					}
				}
			}
			if err := c.preview(cmd, &a, name, question, request); err != nil {
				return err
			}
			return c.doAct(cmd, request(a.dryRun))
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&match, "match", "", "clusters whose labels match this selector")
	cmd.Flags().StringVar(&a.confirm, "confirm", "", "the cluster's name, or the labels, instead of typing them")
	cmd.Flags().StringVar(&forTime, "for", "", "until it comes back by itself; default until undrained")
	cmd.Flags().StringSliceVar(&services, "services", nil, "only these services; default all")
	return cmd
}

func (c *cli) undrainCommand() *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:   "undrain CLUSTER",
		Short: "Bring a drained cluster back",
		Example: `  quorate undrain eu
  quorate undrain eu --reason "upgrade done"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.doAct(cmd, client.Request{
				Method: http.MethodDelete, Path: "/clusters/" + url.PathEscape(args[0]) + "/drain",
				Body: apitype.UndrainRequest{Reason: a.reason, DryRun: a.dryRun},
			})
		},
	}
	a.flags(cmd)
	return cmd
}

func (c *cli) freezeCommand() *cobra.Command {
	var (
		a       act
		forTime string
	)
	cmd := &cobra.Command{
		Use:   "freeze [SERVICE]",
		Short: "Stop automation for a service, or for all",
		Example: `  quorate freeze web --for 1h --reason "load test"
  quorate freeze --reason "network maintenance"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireReason(a.reason, "freeze"); err != nil {
				return err
			}
			return c.doAct(cmd, client.Request{
				Method: http.MethodPost, Path: "/freeze",
				Body: apitype.FreezeRequest{Service: strings.Join(args, ""), For: forTime, Reason: a.reason, DryRun: a.dryRun},
			})
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&forTime, "for", "", "until it ends by itself; default until thawed")
	return cmd
}

func (c *cli) thawCommand() *cobra.Command {
	var (
		a      act
		active string
	)
	cmd := &cobra.Command{
		Use:   "thaw [SERVICE]",
		Short: "Let automation go on, or confirm an active side",
		Long: `After a restore or a recovery nobody knows whether the last move of a stateful
service was lost. thaw SERVICE --active CLUSTER says which side is active; look at
the databases first. It makes a new epoch.`,
		Example: `  quorate thaw web
  quorate thaw orders-db --active us --reason "us takes the writes" --confirm orders-db`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			service := strings.Join(args, "")
			if active != "" {
				if service == "" {
					return usageError(errors.New("thaw --active needs SERVICE: whose active side is it?"))
				}
				if err := requireReason(a.reason, "thaw --active"); err != nil {
					return err
				}
				if !a.dryRun {
					question := fmt.Sprintf("%s will answer with %s. If another side has taken writes since, they are lost. Type the service name:", service, active)
					if err := c.confirm(a.confirm, service, question); err != nil {
						return err
					}
				}
			}
			return c.doAct(cmd, client.Request{
				Method: http.MethodDelete, Path: "/freeze",
				Body: apitype.ThawRequest{Service: service, Active: active, Reason: a.reason, DryRun: a.dryRun},
			})
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&active, "active", "", "the side that is active, of a service that is not confirmed")
	cmd.Flags().StringVar(&a.confirm, "confirm", "", "with --active: the service's name, instead of typing it")
	return cmd
}

// doAct does an act and shows what came of it.
func (c *cli) doAct(cmd *cobra.Command, r client.Request) error {
	env, err := send[apitype.Act](cmd.Context(), c, r)
	if err != nil {
		return err
	}
	if err := show(c, env, actTable); err != nil {
		return err
	}
	for _, a := range env.Items {
		if a.DryRun && len(a.Blocked) > 0 {
			return quietError(client.ExitRefused)
		}
	}
	return nil
}

func actTable(w io.Writer, acts []apitype.Act) {
	for _, a := range acts {
		for _, i := range a.Impact {
			fmt.Fprintf(w, "%-10s %s\n", i.Service, impactText(i))
		}
		for _, b := range a.Blocked {
			fmt.Fprintf(w, "blocked    %s: %s\n", b.Rule, b.Reason)
		}
		text := a.Text
		if a.DryRun {
			text = "dry run, nothing written: " + text
		}
		if !a.Clears.IsZero() {
			text += "; old answers until " + clock(a.Clears)
		}
		fmt.Fprintln(w, text)
	}
}

// impactText says how a service's answers move, with what to mind.
func impactText(i apitype.Impact) string {
	text := "no answer changes"
	if i.Moves {
		text = percents(i.Before) + " -> " + percents(i.After)
		if i.ObservedSeconds > 0 {
			text += " (of the last " + apitype.Lately(i.ObservedSeconds) + "'s queries)"
		}
	}
	for _, warning := range i.Warnings {
		text += "   WARNING " + warning
	}
	return text
}

func percents(ps []apitype.Percent) string {
	parts := make([]string, 0, len(ps))
	for _, p := range ps {
		parts = append(parts, p.Cluster+" "+percent(p.Percent))
	}
	return orDash(strings.Join(parts, " "))
}
