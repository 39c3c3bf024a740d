package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/policy"
)

// cascade makes way for a plan that removes clusters which still answer: it drains
// them together and waits until resolvers have dropped them. What a drain cannot
// cure, such as an active side, refuses it before anything is done.
func (c *cli) cascade(cmd *cobra.Command, p apitype.Plan, reason string, force bool) error {
	removed := removedClusters(p)
	if len(removed) == 0 {
		return nil
	}
	if left := refusals(p, force, true); len(left) > 0 {
		fmt.Fprintln(c.err, strings.Join(left, "\n"))
		return codeError{client.ExitRefused, errors.New("the plan would be refused whatever is drained; nothing was done")}
	}
	names := strings.Join(removed, ", ")
	env, err := send[apitype.Act](cmd.Context(), c, drainsOf(removed, reason, false))
	if err != nil {
		return err
	}
	act, err := one(env)
	if err != nil {
		return err
	}
	actTable(c.err, env.Items)
	wait := time.Until(act.Clears)
	if wait <= 0 {
		return nil
	}
	fmt.Fprintf(c.err, "waiting %s until resolvers have dropped %s\n", wait.Round(time.Second), names)
	select {
	case <-cmd.Context().Done():
		back := "quorate undrain " + strings.Join(removed, "; quorate undrain ")
		return fmt.Errorf("interrupted: %s drained and in the spec still; go on with: quorate apply --plan %s, or back with: %s", names, p.ID, back)
	case <-time.After(wait):
		return nil
	}
}

func drainsOf(clusters []string, reason string, dryRun bool) client.Request {
	return client.Request{
		Method: http.MethodPost, Path: "/drains",
		Body: apitype.DrainsRequest{Clusters: clusters, Reason: firstOf(reason, "removed from the spec"), DryRun: dryRun},
	}
}

// refusals are the lines of what would refuse the plan: with force only what nobody
// may pass over, with drained clusters not what drains cure.
func refusals(p apitype.Plan, force, drained bool) []string {
	var lines []string
	for _, b := range p.Blockers {
		if !(drained && b.Rule == policy.RuleInUse) && !(force && b.Waivable) {
			lines = append(lines, "blocked  "+blockerText(b))
		}
	}
	for _, x := range p.Guards.Exceeded {
		if !force {
			lines = append(lines, "guard    "+x+forceLifts)
		}
	}
	return lines
}

// dryApply shows what applying the plan would do; it exits as that would.
func (c *cli) dryApply(cmd *cobra.Command, plan apitype.Envelope[apitype.Plan], p apitype.Plan, force, drain bool) error {
	if err := show(c, plan, planTable); err != nil {
		return err
	}
	if removed := removedClusters(p); drain && len(removed) > 0 {
		env, err := send[apitype.Act](cmd.Context(), c, drainsOf(removed, "", true))
		if err != nil {
			return err
		}
		actTable(c.err, env.Items)
	}
	if len(refusals(p, force, drain)) > 0 {
		return codeError{client.ExitRefused, errors.New("apply would be refused")}
	}
	return nil
}

// removedClusters are the clusters that the plan takes out of the spec, sorted.
func removedClusters(p apitype.Plan) []string {
	var names []string
	for _, ch := range p.Changes {
		if name, ok := strings.CutPrefix(ch.Path, "clusters."); ok && ch.Op == "-" && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
