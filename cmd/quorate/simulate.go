package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) simulateCommand() *cobra.Command {
	var (
		region     string
		conditions []string
	)
	cmd := &cobra.Command{
		Use:   "simulate --lose-region R | --if CONDITION,...",
		Short: "Show who would answer what, if",
		Long: `Against the state as it is; nothing is written. Conditions are CLUSTER=down, up,
drained or undrained; SERVICE/CLUSTER=down or up; SERVICE=CLUSTER for an override;
REGION=lost; CUT-17=approved.`,
		Example: `  quorate simulate --lose-region eu-west
  quorate simulate --if eu=down,us=drained`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if region == "" && len(conditions) == 0 {
				return usageError(errors.New("simulate needs --lose-region REGION or --if CONDITION"))
			}
			query := url.Values{}
			if region != "" {
				query.Set("lose_region", region)
			}
			if len(conditions) > 0 {
				query.Set("if", strings.Join(conditions, ","))
			}
			env, err := get[apitype.Simulation](cmd.Context(), c, "/simulate", query)
			if err != nil {
				return err
			}
			return show(c, env, simulationTable)
		},
	}
	cmd.Flags().StringVar(&region, "lose-region", "", "everything in this region is gone, nodes too")
	cmd.Flags().StringSliceVar(&conditions, "if", nil, "what to suppose, such as eu=down")
	return cmd
}

func simulationTable(w io.Writer, items []apitype.Simulation) {
	for _, s := range items {
		fmt.Fprintf(w, "if         %s      (revision %d, index %d, %s; nothing is written)\n", strings.Join(s.Conditions, ", "), s.Revision, s.Index, s.Node)
		fmt.Fprintf(w, "quorum     %s\n", s.Quorum)
		for _, svc := range s.Services {
			fmt.Fprintf(w, "%-10s %s\n", svc.Service, svc.Text)
		}
		reachTable(w, s.Clients, 10)
		for _, note := range s.Notes {
			fmt.Fprintf(w, "note       %s\n", note)
		}
	}
}

// reachTable shows how the answers of a sample of clients change, below words of
// that width. What all of them share is said once.
func reachTable(w io.Writer, r apitype.ClientReach, width int) {
	for _, s := range r.Services {
		if s.Moved == 0 && s.Lost == 0 {
			continue
		}
		text := fmt.Sprintf("%d of %d sampled clients get another answer", s.Moved, r.Sampled)
		if s.Lost > 0 {
			text += fmt.Sprintf(", %d GET NONE", s.Lost)
		}
		fmt.Fprintf(w, "%-*s %s: %s\n", width, "clients", s.Service, text)
		if first := s.Moves; len(first) > 1 && len(first) == r.Sampled && alike(first) {
			fmt.Fprintf(w, "%-*s every one of them: %s -> %s\n", width, "", first[0].Before, first[0].After)
			continue
		}
		rows := 0
		for _, m := range s.Moves {
			rows = max(rows, len(clientText(m)))
		}
		for _, m := range s.Moves {
			fmt.Fprintf(w, "%-*s %-*s  %s -> %s\n", width, "", rows, clientText(m), m.Before, m.After)
		}
		if hidden := s.Moved + s.Lost - len(s.Moves); hidden > 0 {
			fmt.Fprintf(w, "%-*s and %d more\n", width, "", hidden)
		}
	}
}

// alike reports whether all of them move from the same answer to the same.
func alike(moves []apitype.ClientMove) bool {
	for _, m := range moves[1:] {
		if m.Before != moves[0].Before || m.After != moves[0].After {
			return false
		}
	}
	return true
}

// clientText names a client of the sample, with its region where the name has none.
func clientText(m apitype.ClientMove) string {
	if m.Region == "" || strings.HasSuffix(m.Client, m.Region) {
		return m.Client
	}
	return m.Client + " (" + m.Region + ")"
}

func (c *cli) replayCommand() *cobra.Command {
	var (
		files []string
		since string
	)
	cmd := &cobra.Command{
		Use:   "replay --spec FILE|DIR",
		Short: "Judge recorded votes by another spec",
		Long: `Tells which verdicts would have turned otherwise since then with the checks and
quorum rules of the spec: whether fall: 5 would have spared you last night's
failover. Nothing is written.`,
		Example: `  quorate replay --spec spec.yaml --since 24h
  quorate replay --spec spec/ --since 2026-11-30T02:00:00Z -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usageError(errors.New("replay needs --spec FILE or --spec DIR"))
			}
			from, err := sinceTime(since)
			if err != nil {
				return usageError(fmt.Errorf("--since must be a duration such as 24h or a time such as 2026-11-30T02:00:00Z, is %q", since))
			}
			result, err := readSpec(files, c.err)
			if err != nil {
				return err
			}
			env, err := send[apitype.Replay](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/replays",
				Body: apitype.ReplayRequest{Source: result.Source, Name: strings.Join(files, ","), Since: from},
			})
			if err != nil {
				return err
			}
			return show(c, env, replayTable)
		},
	}
	cmd.Flags().StringSliceVar(&files, "spec", nil, "spec file or directory to judge by; may be repeated")
	cmd.Flags().StringVar(&since, "since", "24h", "how far back, or from when")
	return cmd
}

// sinceTime reads a time, or how long ago it was.
func sinceTime(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return time.Time{}, errors.New("must be positive")
		}
		return time.Now().Add(-d), nil
	}
	return time.Parse(time.RFC3339, text)
}

func replayTable(w io.Writer, items []apitype.Replay) {
	for _, r := range items {
		fmt.Fprintf(w, "%s from %s to %s\n", count(r.Votes, "recorded vote"), stamp(r.Since), stamp(r.Until))
		if len(r.Targets) == 0 {
			fmt.Fprintln(w, "every verdict would have turned as it did")
		}
		for _, t := range r.Targets {
			fmt.Fprintf(w, "%s\n  was    %s\n  would  %s\n  %s\n", t.Target, turns(t.Was), turns(t.Would), t.Text)
		}
		for _, x := range r.Warnings {
			fmt.Fprintf(w, "warning  %s\n", x)
		}
	}
}

func turns(all []apitype.ReplayTurn) string {
	parts := make([]string, len(all))
	for i, t := range all {
		parts[i] = t.Side + " " + stamp(t.At)
	}
	if len(parts) == 0 {
		return "no turn"
	}
	return strings.Join(parts, ", ")
}
