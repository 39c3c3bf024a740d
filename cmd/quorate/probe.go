package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) probeCommand() *cobra.Command {
	var from, endpoint, door string
	cmd := &cobra.Command{
		Use:   "probe SERVICE CLUSTER | --front-door CLUSTER",
		Short: "Run a service's checks once and show each phase",
		Long: `Changes no vote. The checks run on the node that is asked, or on --from NODE,
with the source addresses and secrets of that node. Exits 1 when a check is bad.
With --front-door only the cluster's own check runs.`,
		Example: `  quorate probe web eu --from us-1         as us-1 sees it
  quorate probe --front-door eu`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := apitype.ProbeRequest{Cluster: door, Endpoint: endpoint, From: from}
			switch {
			case door == "" && len(args) == 2:
				req.Service, req.Cluster = args[0], args[1]
			case door == "" || len(args) > 0:
				return usageError(fmt.Errorf("probe needs either SERVICE CLUSTER or --front-door CLUSTER, got %q (see: quorate probe --help)", args))
			}
			env, err := send[apitype.ProbeReport](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/probes", Body: req,
			})
			if err != nil {
				return err
			}
			if err := show(c, env, probeTable); err != nil {
				return err
			}
			for _, report := range env.Items {
				for _, run := range report.Runs {
					if !run.OK {
						return quietError(client.ExitFailure)
					}
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the node that probes; default the one asked")
	cmd.Flags().StringVar(&door, "front-door", "", "the cluster whose own check is to run")
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "one address of the cluster; default all")
	return cmd
}

func probeTable(w io.Writer, reports []apitype.ProbeReport) {
	for _, r := range reports {
		for _, run := range r.Runs {
			verdict := "ok"
			switch {
			case !run.OK:
				verdict = "BAD: " + run.Reason
			case run.Degraded != "":
				verdict = "ok, degraded: " + run.Degraded
			}
			fmt.Fprintf(w, "%s  %s %s  from %s  %s  %s\n", run.Endpoint, run.Kind, run.Check, r.Node, verdict, tookSeconds(run.TookSeconds))
			why := run.Detail
			for _, p := range run.Phases {
				mark := "ok"
				if !p.OK {
					mark = "BAD"
				}
				fmt.Fprintf(w, "  %-11s %-4s %9s  %s\n", p.Phase, mark, tookSeconds(p.TookSeconds), inWords(p.Text))
				if p.Text == why {
					why = "" // said
				}
			}
			if why != "" {
				fmt.Fprintf(w, "  why         %s\n", inWords(why))
			}
			if !run.CertExpires.IsZero() {
				fmt.Fprintf(w, "  certificate ends %s, in %s\n", stamp(run.CertExpires), days(time.Until(run.CertExpires)))
			}
		}
		for _, v := range r.Votes {
			text := v.Side
			if v.Reason != "" && v.Reason != "ok" {
				text += " (" + v.Reason + ")"
			}
			fmt.Fprintf(w, "%s votes %s on %s\n", r.Node, text, v.Endpoint)
		}
	}
}

// inWords says for people what Go says of a check that ran out of time.
func inWords(text string) string {
	return strings.ReplaceAll(text, "context deadline exceeded", "no answer within the timeout")
}

func tookSeconds(s float64) string { return seconds(s).Round(10 * time.Microsecond).String() }

// days shows a time far away.
func days(d time.Duration) string {
	if d < 0 {
		return "it has ended"
	}
	return count(int(d/(24*time.Hour)), "day")
}
