package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/health"
)

func (c *cli) statusCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "status [SERVICE|CLUSTER]",
		Short: "Show quorum, services and clusters at a glance",
		Example: `  quorate status
  quorate status --check                   exit 11 when something is wrong`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := get[apitype.Status](cmd.Context(), c, "/status", nil)
			if err != nil {
				return err
			}
			st, err := one(env)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if st, err = narrow(st, args[0]); err != nil {
					return err
				}
				env.Items = []apitype.Status{st}
			}
			if err := show(c, env, func(w io.Writer, _ []apitype.Status) { statusTable(w, st, env.AsOf) }); err != nil {
				return err
			}
			if check && unwell(st) {
				return quietError(client.ExitUnwell)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "exit 11 when something is wrong")
	return cmd
}

// narrow keeps what concerns one service or cluster.
func narrow(st apitype.Status, name string) (apitype.Status, error) {
	var (
		services []apitype.ServiceSummary
		clusters []apitype.ClusterSummary
		known    []string
	)
	for _, s := range st.Services {
		known = append(known, s.Name)
		if s.Name == name {
			services = append(services, s)
		}
	}
	for _, cl := range st.Clusters {
		known = append(known, cl.Name)
		if cl.Name == name {
			clusters = append(clusters, cl)
		}
	}
	if services == nil && clusters == nil {
		return st, codeError{client.ExitNotFound, fmt.Errorf("no service or cluster %q; there are %s", name, strings.Join(known, ", "))}
	}
	var waiting []apitype.CutoverSummary
	for _, co := range st.Waiting {
		if co.Service == name || co.Source == name || co.Destination == name {
			waiting = append(waiting, co)
		}
	}
	st.Services, st.Clusters, st.Waiting = services, clusters, waiting
	return st, nil
}

// unwell reports whether an operator should look.
func unwell(st apitype.Status) bool {
	if !st.Quorum.Available || len(st.Banners) > 0 || len(st.Waiting) > 0 {
		return true
	}
	for _, s := range st.Services {
		if s.TargetsUp < s.TargetsTotal || s.Stateful != nil && s.Stateful.Unconfirmed {
			return true
		}
	}
	return false
}

func statusTable(w io.Writer, st apitype.Status, asOf time.Time) {
	fmt.Fprintf(w, "quorum   %s      revision %d      as of %s (%s)\n", quorumLine(st.Quorum), st.Revision, clock(asOf), st.Node)
	for i, line := range waitingLines(st.Waiting, asOf) {
		name := "waiting"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "%-8s %s\n", name, line)
	}
	for _, b := range st.Banners {
		if b.Code != apitype.BannerWaiting { // the line above says more
			fmt.Fprintf(w, "notice   %s\n", b.Text)
		}
	}
	if len(st.Services) > 0 {
		fmt.Fprintln(w)
		rows := make([][]string, 0, len(st.Services))
		for _, s := range st.Services {
			rows = append(rows, []string{
				s.Name, s.Kind, s.Policy, answersNow(s),
				fmt.Sprintf("%d/%d up", s.TargetsUp, s.TargetsTotal), orDash(serviceNote(s)),
			})
		}
		columns(w, "SERVICE KIND POLICY ANSWERS_NOW TARGETS NOTE", rows)
	}
	if len(st.Clusters) > 0 {
		fmt.Fprintln(w)
		rows := make([][]string, 0, len(st.Clusters))
		for _, cl := range st.Clusters {
			door := "no check"
			if cl.FrontDoor != nil {
				door = verdictText(*cl.FrontDoor)
			}
			drained := yesNo(cl.Drain != nil)
			if cl.Drain != nil && len(cl.Drain.Services) > 0 {
				drained = "for " + strings.Join(cl.Drain.Services, ", ")
			}
			rows = append(rows, []string{
				cl.Name, cl.Region, door, drained, capacityText(cl),
				fmt.Sprintf("%d/%d up", cl.ServicesUp, cl.ServicesTotal),
			})
		}
		columns(w, "CLUSTER REGION FRONT_DOOR DRAINED CAPACITY SERVICES", rows)
	}
}

// capacityText shows what a cluster reports that it can take, of what it was declared.
func capacityText(cl apitype.ClusterSummary) string {
	switch {
	case cl.Reported != nil && cl.Capacity > 0:
		return fmt.Sprintf("%d of %d", *cl.Reported, cl.Capacity)
	case cl.Reported != nil:
		return fmt.Sprint(*cl.Reported)
	case cl.Capacity > 0:
		return fmt.Sprint(cl.Capacity)
	}
	return "-"
}

func quorumLine(q apitype.Quorum) string {
	if !q.Available {
		return fmt.Sprintf("NO QUORUM since %s (%s ago): answers go on, nothing changes", clock(q.StaleSince), ago(seconds(q.StaleSeconds)))
	}
	if q.VotersUp == 0 { // a leader always reaches itself
		return fmt.Sprintf("%d voters, leader %s has not told yet how many it reaches", q.Voters, q.Leader)
	}
	loss := "1 loss"
	if q.Tolerates != 1 {
		loss = fmt.Sprintf("%d losses", q.Tolerates)
	}
	return fmt.Sprintf("%d/%d voters, leader %s, tolerates %s", q.VotersUp, q.Voters, q.Leader, loss)
}

// verdictText shows a verdict with how many regions hold it.
func verdictText(v apitype.Verdict) string {
	agree := v.Up
	if v.Side == health.Down {
		agree = v.Down
	}
	text := fmt.Sprintf("%s %d/%d regions", v.Side, agree, v.Eligible)
	if v.Mark != "" {
		text += ", " + string(v.Mark)
	}
	if !v.Since.IsZero() {
		text += ", since " + clock(v.Since)
	}
	return text
}
