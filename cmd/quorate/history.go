package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

func (c *cli) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history [SERVICE]",
		Short: "Show what moved answers, when and why",
		Long: `Of a stateful service: its epochs, who made them, and how long a move took.
Otherwise the events that moved answers.`,
		Example: `  quorate history
  quorate history orders-db`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				owner, err := c.ownership(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if owner != nil {
					return c.epochs(cmd.Context(), args[0], *owner)
				}
				query.Set("service", args[0])
			}
			env, err := get[apitype.Event](cmd.Context(), c, "/history", query)
			if err != nil {
				return err
			}
			return show(c, env, eventsTable)
		},
	}
}

// ownership returns who owns a service; nil when it is stateless.
func (c *cli) ownership(ctx context.Context, service string) (*apitype.Stateful, error) {
	cl, err := c.client()
	if err != nil {
		return nil, err
	}
	res, err := cl.Services(ctx, service)
	if err != nil {
		return nil, err
	}
	s, err := res.First()
	return s.Stateful, err
}

// epochs shows who was active under which epoch, the last one first.
func (c *cli) epochs(ctx context.Context, service string, owner apitype.Stateful) error {
	env, err := get[apitype.Cutover](ctx, c, "/cutovers", url.Values{"state": {string(statestore.Done)}, "service": {service}})
	if err != nil {
		return err
	}
	events, err := get[apitype.Event](ctx, c, "/events", url.Values{
		"types": {evBegun + "," + evAborted + "," + evConfirmed}, "service": {service}, "limit": {"1000"},
	})
	if err != nil {
		return err
	}
	return show(c, env, func(w io.Writer, cutovers []apitype.Cutover) {
		if rows := epochRows(cutovers, events.Items); len(rows) > 0 {
			columns(w, epochHead, rows)
		}
		fmt.Fprintf(w, "active %s, epoch %d, since %s; every event: quorate events --service %s\n", owner.Active, owner.Epoch, stamp(owner.Since), service)
	})
}

const (
	epochHead = "EPOCH WHEN MOVE KIND TOOK BY REASON"

	evBegun     = "cutover.begun"
	evAborted   = "cutover.aborted"
	evConfirmed = "service.confirmed"
)

// epochRows are the epochs that cutovers made, and those that an abort or a person's
// word after a recovery did: the cutovers alone do not have them.
func epochRows(cutovers []apitype.Cutover, events []apitype.Event) [][]string {
	type line struct {
		epoch uint64
		row   []string
	}
	var lines []line
	for _, co := range cutovers {
		lines = append(lines, line{co.NextEpoch, epochRow(co)})
	}
	begun := map[string]bool{} // an abort before that leaves the epoch as it is
	for _, e := range events {
		var d statestore.CutoverDetail
		if b, err := json.Marshal(e.Detail); err != nil || json.Unmarshal(b, &d) != nil {
			continue // it came as JSON; a detail of another shape is of another version
		}
		stayed, kind := d.Source+" stays", "abort of "+d.Cutover
		switch e.Type {
		case evBegun:
			begun[d.Cutover] = true
			continue
		case evAborted:
			if !begun[d.Cutover] {
				continue
			}
		case evConfirmed:
			kind = "confirmed"
			if d.Source != d.Destination {
				stayed = d.Source + " -> " + d.Destination
			}
		default:
			continue
		}
		row := []string{fmt.Sprint(d.Epoch), stamp(e.Wall), stayed, kind, "-", e.Actor, d.Reason}
		lines = append(lines, line{d.Epoch, row})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.epoch, a.epoch) })
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		rows = append(rows, l.row)
	}
	return rows
}

func epochRow(co apitype.Cutover) []string {
	return []string{fmt.Sprint(co.NextEpoch), stamp(co.DecidedAt), move(co), co.Kind, took(co.TookSeconds), signers(co), because(co)}
}

// signers names who signed, and which gates they waived.
func signers(co apitype.Cutover) string {
	var who, waived []string
	for _, s := range co.Approvals.Signatures {
		if !slices.Contains(who, s.User) { // who waived something later is there already
			who = append(who, s.User)
		}
	}
	for _, g := range co.Gates {
		if len(g.Waived) > 0 {
			waived = append(waived, g.Name)
		}
	}
	text := orDash(strings.Join(who, " + "))
	if len(waived) > 0 {
		text += " (waived: " + strings.Join(waived, ", ") + ")"
	}
	return text
}

// because is why a service moved: what the person who proposed it said, and where
// automation did, the first who signed.
func because(co apitype.Cutover) string {
	if co.Proposer == statestore.Automation && len(co.Approvals.Signatures) > 0 {
		return co.Approvals.Signatures[0].Reason
	}
	return co.Reason
}

func eventsTable(w io.Writer, events []apitype.Event) {
	rows := make([][]string, 0, len(events))
	for _, e := range events {
		rows = append(rows, eventRow(e))
	}
	columns(w, "INDEX WHEN BY TYPE WHAT", rows)
}

func eventRow(e apitype.Event) []string {
	text := e.Text
	// The end of a drain, a freeze or a pin is in the detail only.
	detail, _ := e.Detail.(map[string]any)
	until, _ := detail["until"].(string)
	if at, err := time.Parse(time.RFC3339, until); err == nil {
		text += " (until " + stamp(at) + ")"
	}
	return []string{fmt.Sprint(e.Index), stamp(e.Wall), e.Actor, e.Type, text}
}
