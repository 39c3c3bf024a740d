package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
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
		sampled := cmp.Or(s.Sampled, r.Sampled) // an older node says only the latter
		text := fmt.Sprintf("%d of %d sampled clients get another answer", s.Moved, sampled)
		if s.Lost > 0 {
			text += fmt.Sprintf(", %d GET NONE", s.Lost)
		}
		fmt.Fprintf(w, "%-*s %s: %s\n", width, "clients", s.Service, text)
		if s.Observed != nil {
			fmt.Fprintf(w, "%-*s %s\n", width, "", s.Observed.Text())
		}
		if first := s.Moves; len(first) > 1 && len(first) == sampled && alike(first) {
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

// clientText names a client of the sample, with its region where the name has none,
// and its part of the queries where it asked lately.
func clientText(m apitype.ClientMove) string {
	text := m.Client
	if m.Region != "" && !strings.HasSuffix(m.Client, m.Region) {
		text += " (" + m.Region + ")"
	}
	if m.Percent > 0 {
		text += fmt.Sprintf("  %.1f%%", m.Percent)
	}
	return text
}
