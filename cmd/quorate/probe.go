package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) probeCommand() *cobra.Command {
	var from, endpoint string
	cmd := &cobra.Command{
		Use:   "probe SERVICE CLUSTER",
		Short: "Run a service's checks once and show each phase",
		Long: `Changes no vote. The checks run on the node that is asked, or on --from NODE,
under the addresses and secrets of that node. Exits 1 when a check is bad.`,
		Example: `  quorate probe web eu
  quorate probe web eu --from us-1         as us-1 sees it`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := send[apitype.ProbeReport](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/probes",
				Body: apitype.ProbeRequest{Service: args[0], Cluster: args[1], Endpoint: endpoint, From: from},
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
			for _, p := range run.Phases {
				mark := "ok"
				if !p.OK {
					mark = "BAD"
				}
				fmt.Fprintf(w, "  %-11s %-4s %9s  %s\n", p.Phase, mark, tookSeconds(p.TookSeconds), p.Text)
			}
			if run.Detail != "" {
				fmt.Fprintf(w, "  why         %s\n", run.Detail)
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

func tookSeconds(s float64) string { return seconds(s).Round(10 * time.Microsecond).String() }

// days shows a time far away.
func days(d time.Duration) string {
	if d < 0 {
		return "it has ended"
	}
	return count(int(d/(24*time.Hour)), "day")
}
