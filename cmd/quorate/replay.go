package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

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
