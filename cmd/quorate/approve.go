package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/statestore"
)

// approval is what approve was told.
type approval struct {
	act
	evidence string
	waive    []string
	wait     bool
}

// approveCommand makes the verb at the top and under cutover; under is "" or "cutover ".
func (c *cli) approveCommand(under string) *cobra.Command {
	var a approval
	cmd := &cobra.Command{
		Use:   "approve ID",
		Short: "Sign a cutover as you have seen it",
		Long: `You sign the evidence: what "quorate cutover show ID" shows. When it changes
before enough people have signed, the signatures are void. On a terminal approve
shows the card and asks; a script gives --evidence, --confirm and a --waive for
each gate that still needs one.`,
		Example: fmt.Sprintf(`  quorate %sapprove CUT-17 --reason "eu power lost, ticket 8812"
  quorate %sapprove CUT-17 --evidence 9f3c-77a1-0b2e-51d4 --waive source_fenced --confirm orders-db --reason "eu power lost"`, under, under),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireReason(a.reason, verbOf(cmd)); err != nil {
				return err
			}
			return c.approve(cmd, args[0], a)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&a.evidence, "evidence", "", "digest of what you have seen")
	cmd.Flags().StringArrayVar(&a.waive, "waive", nil, "go on without a gate: GATE, GATE=OUTCOME, nodes_acknowledged=NODE,NODE; repeat it")
	cmd.Flags().StringVar(&a.confirm, "confirm", "", "the service's name, instead of typing it")
	cmd.Flags().BoolVar(&a.wait, "wait", false, "until the answer has moved, or it failed; --timeout bounds it")
	return cmd
}

func (c *cli) approve(cmd *cobra.Command, id string, a approval) error {
	co, err := c.readCutover(cmd.Context(), id)
	if err != nil {
		return err
	}
	if err := c.ready(&a, co); err != nil {
		return err
	}
	env, err := send[apitype.Cutover](cmd.Context(), c, client.Request{
		Method: http.MethodPost, Path: cutoverPath(id) + "/approve",
		Body: apitype.ApproveRequest{Evidence: a.evidence, Waivers: a.waive, Reason: a.reason, DryRun: a.dryRun},
	})
	if err != nil {
		return c.approveNext(cmd.Context(), id, a, err)
	}
	if a.wait && !a.dryRun {
		signed, err := one(env)
		if err != nil {
			return err
		}
		fmt.Fprintln(c.err, signed.Text)
		return c.waitFor(cmd, signed)
	}
	return show(c, env, func(w io.Writer, items []apitype.Cutover) {
		for _, co := range items {
			if a.dryRun {
				fmt.Fprintf(w, "dry run, nothing written: would sign %s as %d of %d\n", co.ID, co.Approvals.Have, co.Approvals.Required)
				continue
			}
			fmt.Fprintln(w, co.Text)
		}
	})
}

// ready makes sure that a person has seen what is signed: by the flags that say so,
// or by showing the card and asking.
func (c *cli) ready(a *approval, co apitype.Cutover) error {
	if a.confirm != "" && a.confirm != co.Service {
		return c.confirm(a.confirm, co.Service, "")
	}
	if a.evidence != "" && (a.confirm != "" || a.dryRun) {
		return nil // the server judges it, and keeps on record what it refuses
	}
	if !c.tty() {
		return usageError(fmt.Errorf("approve %s: nobody can be asked here; read: quorate cutover show %s, then run:\n  %s",
			co.ID, co.ID, approveLine(co, a.waive, a.reason)))
	}
	w := plain{c.err}
	card(w, co)
	fmt.Fprintln(w)
	switch {
	case !openPhase(co.Phase):
		return codeError{client.ExitConflict, fmt.Errorf("approve %s: %s", co.ID, ending(co))}
	case a.evidence != "" && a.evidence != co.Evidence:
		return codeError{client.ExitConflict, fmt.Errorf("approve %s: the evidence is %s now, you have seen %s; read the card above and sign that", co.ID, co.Evidence, a.evidence)}
	}
	if never := unwaivable(co); len(never) > 0 {
		return codeError{client.ExitRefused, fmt.Errorf("approve %s: blocked, and no waiver helps:\n%s", co.ID, strings.Join(never, "\n"))}
	}
	a.evidence = co.Evidence
	lines := bufio.NewReader(c.in)
	if err := askWaivers(w, lines, a, co); err != nil {
		return err
	}
	if a.confirm == co.Service {
		return nil
	}
	fmt.Fprintf(w, "Type the service name to sign %s: ", co.ID)
	return typed(lines, co.Service)
}

// unwaivable lists the gates that stand in the way whatever people sign.
func unwaivable(co apitype.Cutover) []string {
	var all []string
	for _, g := range co.Gates {
		if !g.Passed && !g.Waivable {
			all = append(all, "  "+g.Name+": "+g.Why)
		}
	}
	return all
}

// askWaivers asks for each waiver that is needed and not given, one by one, with
// what is risked.
func askWaivers(w io.Writer, lines *bufio.Reader, a *approval, co apitype.Cutover) error {
	for _, waiver := range allWaivers(co, a.waive)[len(a.waive):] {
		gate := gateOf(waiver)
		state := "not acknowledged"
		if i := slices.IndexFunc(co.Gates, func(g apitype.Gate) bool { return g.Name == gate }); i >= 0 && phaseOf(co) != statestore.Fencing {
			state = classText(co.Gates[i].Class)
		}
		fmt.Fprintf(w, "%s is %s. Going on without it: %s.\nType yes to waive %s: ", gate, state, risk(gate, co), waiver)
		if err := typed(lines, "yes"); err != nil {
			return err
		}
		a.waive = append(a.waive, waiver)
	}
	return nil
}

// typed wants a person to type a word.
func typed(lines *bufio.Reader, want string) error {
	line, err := lines.ReadString('\n')
	if err != nil && line == "" || strings.TrimSpace(line) != want {
		return errNotConfirmed
	}
	return nil
}

// risk says what may happen without a gate.
func risk(gate string, co apitype.Cutover) string {
	switch statestore.Gate(gate) {
	case statestore.GateSourceDown:
		return fmt.Sprintf("the regions do not agree that %s is down, so it may be serving now; it takes two break-glass signatures", co.Source)
	case statestore.GateDestination:
		return fmt.Sprintf("%s may not be able to serve, and clients will be sent there", co.Destination)
	case statestore.GateLag:
		return fmt.Sprintf("nobody knows how far %s trails %s; writes it has not copied are lost", co.Destination, co.Source)
	case statestore.GateFenced:
		return fmt.Sprintf("if %s still takes writes, both sides do, and somebody must merge or drop them by hand", co.Source)
	case statestore.GateNodesAcknowledged:
		return fmt.Sprintf("nodes that are not heard may go on answering %s until they are", co.Source)
	case statestore.GateResync:
		return fmt.Sprintf("nobody has checked that %s holds what %s wrote since the last move; the rest is lost", co.Destination, co.Source)
	case statestore.GateNotFrozen:
		return "somebody froze it for a reason; ask them first"
	case statestore.GateCooldown:
		return "it has only just moved; moving again so soon may be flapping"
	}
	return "what it guards against may happen"
}

// approveNext adds to a refusal the whole command that would sign what is there now.
func (c *cli) approveNext(ctx context.Context, id string, a approval, err error) error {
	var problem *client.ProblemError
	if !errors.As(err, &problem) {
		return err
	}
	switch problem.Name() {
	case apitype.ProblemSelfApproval:
		if strings.Contains(problem.Detail, "counts as") {
			problem.Detail = "\n  " + problem.Detail
		} else {
			problem.Detail = ""
		}
		problem.Detail = fmt.Sprintf("approve %s: the proposer may not approve; another approver must sign%s", id, problem.Detail)
		return err
	case apitype.ProblemBlocked, apitype.ProblemEvidence:
	default:
		return err
	}
	co, readErr := c.readCutover(ctx, id)
	if readErr != nil || !openPhase(co.Phase) {
		return err // the refusal itself says enough
	}
	line := approveLine(co, a.waive, a.reason)
	if problem.Name() == apitype.ProblemEvidence {
		line = "quorate cutover show " + id + ", and then: " + approveLine(co, nil, a.reason)
	}
	problem.Next = line
	return err
}

// pollEvery is how often a waiting approve looks.
const pollEvery = 300 * time.Millisecond

// waitFor waits until a signed cutover is over. Without --timeout the proposal's own
// end bounds the wait for signatures.
func (c *cli) waitFor(cmd *cobra.Command, co apitype.Cutover) error {
	ctx := cmd.Context()
	if cmd.Flags().Changed("timeout") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	seen := co
	for openPhase(co.Phase) {
		select {
		case <-ctx.Done():
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return codeError{client.ExitUnknown, fmt.Errorf("approve %s: after %s it is still %s%s; go on with: quorate cutover show %s", co.ID, c.timeout, co.Phase, waitingText(co), co.ID)}
		case <-again.C:
		}
		env, err := get[apitype.Cutover](ctx, c, cutoverPath(co.ID), nil)
		if err != nil {
			if client.ExitCode(err) == client.ExitNoQuorum || ctx.Err() != nil {
				continue // another look tells
			}
			return err
		}
		if co, err = one(env); err != nil {
			return err
		}
		if phaseOf(co) == statestore.Proposed && co.Evidence != seen.Evidence {
			return codeError{client.ExitConflict, fmt.Errorf("approve %s: the evidence is %s now, your signature of %s is void; look again: quorate cutover show %s", co.ID, co.Evidence, seen.Evidence, co.ID)}
		}
		if co.Phase != seen.Phase && openPhase(co.Phase) {
			fmt.Fprintf(c.err, "%s%s\n", co.Phase, waitingText(co))
		}
		seen = co
	}
	env, err := get[apitype.Cutover](cmd.Context(), c, cutoverPath(co.ID), nil)
	if err != nil {
		return err
	}
	if err := show(c, env, func(w io.Writer, items []apitype.Cutover) {
		for _, co := range items {
			fmt.Fprintln(w, ending(co))
		}
	}); err != nil {
		return err
	}
	if phaseOf(co) != statestore.Done {
		return quietError(client.ExitConflict)
	}
	return nil
}

func waitingText(co apitype.Cutover) string {
	if len(co.Waiting) == 0 {
		return ""
	}
	return ", waiting for " + strings.Join(co.Waiting, ", ")
}
