package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) eventsCommand() *cobra.Command {
	var (
		follow bool
		q      client.EventQuery
	)
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened, and follow it",
		Example: `  quorate events --since 1h
  quorate events -f --type 'verdict.*'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 0 {
				return usageError(fmt.Errorf("--limit must be above 0, is %d", q.Limit))
			}
			if follow && c.format() == "json" {
				return usageError(errors.New("events -f gives one event a line: use -o jsonl"))
			}
			cl, err := c.client()
			if err != nil {
				return err
			}
			res, err := cl.Events(cmd.Context(), q)
			if err != nil {
				return err
			}
			c.noteStale(res.Meta)
			if !follow {
				return show(c, res.Envelope, eventsTable)
			}
			for _, e := range res.Items {
				if err := c.eventLine(e); err != nil {
					return err
				}
				q.After = e.Index
			}
			q.Since = ""
			return cl.Follow(cmd.Context(), q, func(e apitype.Event, err error) error {
				if errors.Is(err, client.ErrReset) {
					fmt.Fprintln(c.err, err)
					return nil
				}
				return c.eventLine(e)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each event as it is committed")
	cmd.Flags().StringVar(&q.Types, "type", "", "types, comma list; a final * matches any ending")
	cmd.Flags().StringVar(&q.Since, "since", "", "a time, or a duration before now")
	cmd.Flags().StringVar(&q.Service, "service", "", "only events of this service")
	cmd.Flags().IntVar(&q.Limit, "limit", 0, "at most this many; default 100")
	return cmd
}

func (c *cli) eventLine(e apitype.Event) error {
	if c.format() == "jsonl" {
		return json.NewEncoder(c.out).Encode(e)
	}
	_, err := fmt.Fprintln(c.out, strings.Map(visible, strings.Join(eventRow(e), "  ")))
	return err
}

func (c *cli) membersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members",
		Short: "List nodes; make join tokens; remove nodes",
		Example: `  quorate members
  quorate members token --role voter --for 1h`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := get[apitype.Member](cmd.Context(), c, "/members", nil)
			if err != nil {
				return err
			}
			return show(c, env, membersTable)
		},
	}
	cmd.AddCommand(c.memberTokenCommand(), c.memberRemoveCommand())
	return cmd
}

func membersTable(w io.Writer, members []apitype.Member) {
	rows := make([][]string, 0, len(members))
	for _, m := range members {
		seen := "-"
		if m.LastSeenSeconds >= 0 {
			seen = ago(seconds(m.LastSeenSeconds))
		}
		reach := "ok"
		switch {
		case m.Reachable:
		case m.Awaited:
			reach = "not heard yet"
		default:
			reach = "UNREACHABLE"
		}
		var dns []string
		for _, a := range m.DNS {
			dns = append(dns, a.String())
		}
		rows = append(rows, []string{
			m.Name, m.Region, m.Role, m.Raft, fmt.Sprint(m.Trails), seen, reach, m.Observer,
			orDash(strings.Join(dns, ",")), m.Peer, orDash(m.Version), clockOffset(m),
		})
	}
	columns(w, "NODE REGION ROLE RAFT TRAILS LAST_SEEN REACH OBSERVER DNS PEER VERSION CLOCK", rows)
}

// clockOffset is how far a member's clock is ahead of the answering node's.
func clockOffset(m apitype.Member) string {
	return fmt.Sprintf("%+dms", seconds(m.ClockOffset).Milliseconds())
}
