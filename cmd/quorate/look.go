package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// lookCommands read and change nothing.
func (c *cli) lookCommands() []*cobra.Command {
	return []*cobra.Command{
		c.statusCommand(), c.votesCommand(), c.servicesCommand(), c.clustersCommand(),
		c.membersCommand(), c.explainCommand(), c.eventsCommand(), c.historyCommand(),
	}
}

func (c *cli) votesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "votes SERVICE [CLUSTER]",
		Short: "Show who sees a service's targets how",
		Example: `  quorate votes web
  quorate votes web eu`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := get[apitype.TargetVotes](cmd.Context(), c, "/services/"+url.PathEscape(args[0])+"/votes", nil)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				var kept []apitype.TargetVotes
				for _, t := range env.Items {
					if t.Cluster == args[1] {
						kept = append(kept, t)
					}
				}
				if kept == nil {
					return codeError{client.ExitNotFound, fmt.Errorf("service %s has no target in a cluster %q; see: quorate votes %s", args[0], args[1], args[0])}
				}
				env.Items = kept
			}
			return show(c, env, votesTable)
		},
	}
}

func votesTable(w io.Writer, targets []apitype.TargetVotes) {
	if len(targets) == 0 {
		fmt.Fprintln(w, "no targets")
		return
	}
	head := "TARGET VERDICT"
	for _, v := range targets[0].Votes {
		head += " " + v.Observer
	}
	rows := make([][]string, 0, len(targets))
	for _, t := range targets {
		row := []string{t.Target, verdictText(t.Verdict)}
		for _, v := range t.Votes {
			row = append(row, voteText(v))
		}
		rows = append(rows, row)
	}
	columns(w, head, rows)
	v := targets[0].Verdict
	fmt.Fprintf(w, "down needs %d, up needs %d of %d regions\n", v.NeedDown, v.NeedUp, v.Eligible)
	if by := deniedAt(targets); len(by) > 0 {
		fmt.Fprintf(w, "denied: %s may not probe that address; list it in observer.allow of node.yaml there, and restart\n", strings.Join(by, ", "))
	}
}

// deniedAt names the observers whose own policy keeps them from an address.
func deniedAt(targets []apitype.TargetVotes) []string {
	var by []string
	for _, t := range targets {
		for _, v := range t.Votes {
			if v.Reason == string(probe.ReasonDenied) && !slices.Contains(by, v.Observer) {
				by = append(by, v.Observer)
			}
		}
	}
	return by
}

func voteText(v apitype.Vote) string {
	text := v.Side.String()
	switch {
	case v.Degraded != "":
		text += " (degraded: " + v.Degraded + ")"
	case v.Reason != "" && v.Reason != "ok":
		text += " (" + v.Reason + ")"
	}
	if !v.Since.IsZero() {
		text += " " + ago(time.Since(v.Since))
	}
	if !v.Counts {
		text += " [" + orDash(v.Note) + "]"
	}
	return text
}

func (c *cli) servicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "services [SERVICE]",
		Short: "List services and what they answer now",
		Example: `  quorate services
  quorate services web -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				env, err := get[apitype.Service](cmd.Context(), c, "/services/"+url.PathEscape(args[0]), nil)
				if err != nil {
					return err
				}
				return show(c, env, func(w io.Writer, items []apitype.Service) {
					for _, s := range items {
						servicesTable(w, []apitype.ServiceSummary{s.ServiceSummary})
						trafficLines(w, s.Traffic)
						fmt.Fprintln(w)
						votesTable(w, s.Targets)
					}
				})
			}
			env, err := get[apitype.ServiceSummary](cmd.Context(), c, "/services", nil)
			if err != nil {
				return err
			}
			return show(c, env, servicesTable)
		},
	}
}

// trafficLines say who asked for a service lately, and what they get now.
func trafficLines(w io.Writer, t *apitype.ServiceTraffic) {
	if t == nil {
		return
	}
	fmt.Fprintf(w, "asked      %s\n", t.Text())
	for _, r := range t.Regions {
		fmt.Fprintf(w, "           %s %s -> %s\n", percent(r.Percent), cmp.Or(r.Region, "from unknown regions"), percents(r.Answers))
	}
}

func servicesTable(w io.Writer, services []apitype.ServiceSummary) {
	rows := make([][]string, 0, len(services))
	for _, s := range services {
		rows = append(rows, []string{
			s.Name, strings.Join(s.Names, ","), s.Policy, answersNow(s),
			fmt.Sprintf("%d/%d up", s.TargetsUp, s.TargetsTotal), fmt.Sprint(s.Rotation), clock(s.RotationAt), clock(s.ClearsAt),
		})
	}
	columns(w, "SERVICE NAMES POLICY ANSWERS_NOW TARGETS ROTATION SINCE OLD_ANSWERS_UNTIL", rows)
}

func (c *cli) clustersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clusters [CLUSTER]",
		Short: "List clusters, their front doors and drains",
		Example: `  quorate clusters
  quorate clusters eu -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				env, err := get[apitype.Cluster](cmd.Context(), c, "/clusters/"+url.PathEscape(args[0]), nil)
				if err != nil {
					return err
				}
				return show(c, env, func(w io.Writer, items []apitype.Cluster) {
					for _, cl := range items {
						clustersTable(w, []apitype.ClusterSummary{cl.ClusterSummary})
						fmt.Fprintf(w, "services   %s\n", orDash(strings.Join(cl.Services, ", ")))
						placeLines(w, cl)
						if len(cl.Targets) > 0 {
							votesTable(w, cl.Targets)
						}
					}
				})
			}
			env, err := get[apitype.ClusterSummary](cmd.Context(), c, "/clusters", nil)
			if err != nil {
				return err
			}
			return show(c, env, clustersTable)
		},
	}
}

// placeLines says what answers and selectors take of a cluster, where it has that.
func placeLines(w io.Writer, cl apitype.Cluster) {
	text, err := json.Marshal(cl.Definition)
	if err != nil {
		return // it came as JSON
	}
	var is statestore.Cluster
	if json.Unmarshal(text, &is) != nil {
		return // of another version; -o json has it
	}
	line := func(name string, all []string) {
		if len(all) > 0 {
			fmt.Fprintf(w, "%-10s %s\n", name, strings.Join(all, ", "))
		}
	}
	var addresses, networks, labels []string
	for _, a := range is.Endpoints() {
		addresses = append(addresses, a.String())
	}
	for _, p := range is.CIDRs {
		networks = append(networks, p.String())
	}
	for _, key := range slices.Sorted(maps.Keys(is.Labels)) {
		labels = append(labels, key+"="+is.Labels[key])
	}
	if is.Hostname != "" {
		fmt.Fprintf(w, "%-10s %s\n", "hostname", is.Hostname)
	}
	line("addresses", addresses)
	line("networks", networks)
	line("labels", labels)
}

func clustersTable(w io.Writer, clusters []apitype.ClusterSummary) {
	rows := make([][]string, 0, len(clusters))
	for _, cl := range clusters {
		door, drained := "no check", "no"
		if cl.FrontDoor != nil {
			door = verdictText(*cl.FrontDoor)
		}
		if d := cl.Drain; d != nil {
			drained = fmt.Sprintf("by %s: %s", d.By, d.Reason)
			if len(d.Services) > 0 {
				drained = "for " + strings.Join(d.Services, ", ") + " " + drained
			}
			if !d.Until.IsZero() {
				drained += ", until " + clock(d.Until)
			}
		}
		rows = append(rows, []string{cl.Name, cl.Region, door, drained, capacityText(cl), fmt.Sprintf("%d/%d up", cl.ServicesUp, cl.ServicesTotal)})
	}
	columns(w, "CLUSTER REGION FRONT_DOOR DRAINED CAPACITY SERVICES", rows)
}

func (c *cli) explainCommand() *cobra.Command {
	var (
		clientIP, ecs, node, expect string
		conditions                  []string
	)
	cmd := &cobra.Command{
		Use:   "explain NAME [TYPE]",
		Short: "Show step by step why a name is answered so",
		Example: `  quorate explain web.gslb.example.com --client 192.0.2.7
  quorate explain web.gslb.example.com --if eu=down --expect us   exit 1 when it differs`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"name": {args[0]}}
			if len(args) == 2 {
				query.Set("type", args[1])
			}
			for key, value := range map[string]string{"client": clientIP, "ecs": ecs, "node": node, "if": strings.Join(conditions, ",")} {
				if value != "" {
					query.Set(key, value)
				}
			}
			env, err := get[apitype.Explanation](cmd.Context(), c, "/explain", query)
			if err != nil {
				return err
			}
			if err := show(c, env, explainTable); err != nil {
				return err
			}
			if expect == "" {
				return nil
			}
			for _, e := range env.Items {
				if strings.Join(e.Clusters, ",") != expect {
					return fmt.Errorf("the answer is %s, expected %s", orDash(strings.Join(e.Clusters, ",")), expect)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&clientIP, "client", "", "address of the client or its resolver")
	cmd.Flags().StringVar(&ecs, "ecs", "", "client subnet, such as 192.0.2.0/24")
	cmd.Flags().StringVar(&node, "node", "", "node that answers; default the one asked")
	cmd.Flags().StringVar(&expect, "expect", "", "exit 1 unless this cluster is answered")
	cmd.Flags().StringSliceVar(&conditions, "if", nil, "what to suppose: eu=down, us=drained, CUT-17=approved")
	return cmd
}

func explainTable(w io.Writer, items []apitype.Explanation) {
	for _, e := range items {
		fmt.Fprintf(w, "node %s, revision %d, index %d\n", e.Node, e.Revision, e.Index)
		for i, s := range e.Steps {
			line := fmt.Sprintf("%2d %-10s %s", i+1, s.Step, s.Text)
			if s.Note != "" {
				line += "   " + s.Note
			}
			fmt.Fprintln(w, line)
		}
		supposed := "" // what is not so is marked where people look for the answer
		if len(e.Conditions) > 0 {
			supposed = "if " + strings.Join(e.Conditions, ", ") + ": "
		}
		fmt.Fprintf(w, "=> %s%s %s %s  TTL %d\n", supposed, e.Rcode, e.Type, orDash(strings.Join(e.Answers, " ")), e.TTL)
	}
}
