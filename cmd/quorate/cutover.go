package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/statestore"
)

// cutoverCommand holds what is done about a stateful service's moves.
func (c *cli) cutoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cutover",
		Short: "Show and decide moves of stateful services",
		Example: `  quorate cutover list
  quorate cutover show CUT-17`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		c.cutoverListCommand(), c.cutoverShowCommand(), c.proposeCommand(),
		c.approveCommand("cutover "), c.rejectCommand("cutover "), c.abortCommand(),
	)
	return cmd
}

func (c *cli) cutoverListCommand() *cobra.Command {
	var state, service string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List cutovers, those that wait for somebody first",
		Example: `  quorate cutover list
  quorate cutover list --state open --service orders-db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			for key, value := range map[string]string{"state": state, "service": service} {
				if value != "" {
					query.Set(key, value)
				}
			}
			env, err := get[apitype.Cutover](cmd.Context(), c, "/cutovers", query)
			if err != nil {
				return err
			}
			return show(c, env, cutoversTable)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "open, or a phase such as done; default all")
	cmd.Flags().StringVar(&service, "service", "", "only cutovers of this service")
	return cmd
}

func cutoversTable(w io.Writer, cutovers []apitype.Cutover) {
	if len(cutovers) == 0 {
		fmt.Fprintln(w, "no cutovers")
		return
	}
	rows := make([][]string, 0, len(cutovers))
	for _, open := range []bool{true, false} {
		for _, co := range cutovers {
			if openPhase(co.Phase) == open {
				rows = append(rows, cutoverRow(co))
			}
		}
	}
	columns(w, "ID SERVICE MOVE KIND PHASE APPROVALS PROPOSED EXPIRES BY", rows)
}

func cutoverRow(co apitype.Cutover) []string {
	expires := "-"
	if openPhase(co.Phase) {
		expires = "in " + left(co.ExpiresIn)
	}
	return []string{
		co.ID, co.Service, move(co), co.Kind, co.Phase, fmt.Sprintf("%d/%d", co.Approvals.Have, co.Approvals.Required),
		stamp(co.ProposedAt), expires, co.Proposer,
	}
}

// openPhase reports whether something can still become of a cutover.
func openPhase(phase string) bool {
	return statestore.CutoverPhase(phase).Open()
}

// phaseOf is how far a cutover has come.
func phaseOf(co apitype.Cutover) statestore.CutoverPhase { return statestore.CutoverPhase(co.Phase) }

func move(co apitype.Cutover) string { return co.Source + " -> " + co.Destination }

// left shows how much time remains.
func left(s float64) string { return max(seconds(s), 0).Round(time.Second).String() }

func (c *cli) cutoverShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a cutover's evidence, gates and how to decide it",
		Example: `  quorate cutover show CUT-17
  quorate cutover show CUT-17 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := c.settled(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.Cutover) {
				for _, co := range items {
					card(w, co)
				}
			})
		},
	}
}

func cutoverPath(id string) string { return "/cutovers/" + url.PathEscape(id) }

// readCutover returns one cutover as the node asked knows it.
func (c *cli) readCutover(ctx context.Context, id string) (apitype.Cutover, error) {
	env, err := c.settled(ctx, id)
	if err != nil {
		return apitype.Cutover{}, err
	}
	return one(env)
}

// settleTimeout is above what a leader takes to write down that a gate has changed.
const settleTimeout = 2 * time.Second

// settled returns one cutover once its evidence says what its gates say: the entry
// that replaces the evidence follows a change of them, and who signs in between
// signs what is void.
func (c *cli) settled(ctx context.Context, id string) (apitype.Envelope[apitype.Cutover], error) {
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for late := time.Now().Add(settleTimeout); ; {
		env, err := get[apitype.Cutover](ctx, c, cutoverPath(id), nil)
		if err != nil || len(env.Items) != 1 || evident(env.Items[0]) || time.Now().After(late) {
			return env, err
		}
		select {
		case <-ctx.Done():
			return env, ctx.Err()
		case <-again.C:
		}
	}
}

// evident reports whether the evidence of a cutover says what its gates say.
func evident(co apitype.Cutover) bool {
	facts, err := json.Marshal(co.Facts)
	if err != nil {
		return true
	}
	var ev statestore.Evidence
	if err := json.Unmarshal(facts, &ev); err != nil || len(ev.Gates) == 0 || phaseOf(co) != statestore.Proposed {
		return true // nothing to compare
	}
	return slices.EqualFunc(ev.Gates, co.Gates, func(e statestore.GateResult, g apitype.Gate) bool { return string(e.Class) == g.Class })
}

// rejectCommand makes the verb at the top and under cutover; under is "" or "cutover ".
func (c *cli) rejectCommand(under string) *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:   "reject ID",
		Short: "Reject a proposed cutover; nothing moves",
		Example: fmt.Sprintf(`  quorate %sreject CUT-17 --reason "eu is coming back"
  quorate %sreject CUT-17 --reason "wrong side" --dry-run`, under, under),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireReason(a.reason, verbOf(cmd)); err != nil {
				return err
			}
			return c.decide(cmd, args[0], "reject", a)
		},
	}
	a.flags(cmd)
	return cmd
}

func (c *cli) abortCommand() *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:   "abort ID",
		Short: "Stop a cutover under way; the source answers again",
		Long: `A cutover that has begun, and is not published yet, has taken the source out of
answers. abort gives the source back, under a new epoch.`,
		Example: `  quorate cutover abort CUT-17 --reason "us does not come up" --confirm orders-db
  quorate cutover abort CUT-17 --reason "us does not come up" --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireReason(a.reason, verbOf(cmd)); err != nil {
				return err
			}
			if a.dryRun {
				return c.decide(cmd, args[0], "abort", a)
			}
			co, err := c.readCutover(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.confirm == "" && c.tty() {
				card(plain{c.err}, co)
			}
			if err := c.confirm(a.confirm, co.Service, "Type the service name to abort "+co.ID+":"); err != nil {
				return err
			}
			return c.decide(cmd, args[0], "abort", a)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&a.confirm, "confirm", "", "the service's name, instead of typing it")
	return cmd
}

// decide rejects or aborts a cutover and says what has become of it.
func (c *cli) decide(cmd *cobra.Command, id, verb string, a act) error {
	env, err := send[apitype.Cutover](cmd.Context(), c, client.Request{
		Method: http.MethodPost, Path: cutoverPath(id) + "/" + verb,
		Body: apitype.DecideRequest{Reason: a.reason, DryRun: a.dryRun},
	})
	if err != nil {
		return err
	}
	return show(c, env, func(w io.Writer, items []apitype.Cutover) {
		for _, co := range items {
			if a.dryRun {
				fmt.Fprint(w, "dry run, nothing written: ")
			}
			fmt.Fprintln(w, co.Text)
		}
	})
}

// ending says in a line what became of a cutover that is over.
func ending(co apitype.Cutover) string {
	what := co.ID + " " + co.Service + " " + move(co)
	by := ""
	if n := len(co.Steps); n > 0 && co.Steps[n-1].By != "" {
		by = " by " + co.Steps[n-1].By
	}
	switch phaseOf(co) {
	case statestore.Done:
		text := fmt.Sprintf("done: %s answers with %s, epoch %d", co.Service, co.Destination, co.NextEpoch)
		if co.TookSeconds > 0 {
			text += ", " + took(co.TookSeconds) + " after the last signature"
		}
		if !co.ClearsAt.IsZero() {
			text += "; old answers until " + clock(co.ClearsAt)
		}
		return text
	case statestore.Rejected:
		return fmt.Sprintf("rejected %s%s: %s stays the answer", what, by, co.Source)
	case statestore.Aborted:
		return fmt.Sprintf("aborted %s%s: %s answers again, under a new epoch", what, by, co.Source)
	case statestore.Expired:
		return fmt.Sprintf("expired %s: not signed by enough people in time; %s stays the answer", what, co.Source)
	case statestore.Withdrawn:
		return fmt.Sprintf("withdrawn %s: its cause is gone; %s stays the answer", what, co.Source)
	case statestore.Void:
		return fmt.Sprintf("void %s: a recovery began another generation", what)
	}
	return what + " is " + co.Phase
}

// shellQuoted makes a word of a command line, as sh reads it.
func shellQuoted(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.,=/:@", r))
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
