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
	var left []string
	for _, b := range p.Blockers {
		if b.Rule != policy.RuleInUse && !(force && b.Waivable) {
			left = append(left, "blocked  "+blockerText(b))
		}
	}
	for _, x := range p.Guards.Exceeded {
		if !force {
			left = append(left, "guard    "+x+forceLifts)
		}
	}
	if len(left) > 0 {
		fmt.Fprintln(c.err, strings.Join(left, "\n"))
		return codeError{client.ExitRefused, errors.New("the plan would be refused whatever is drained; nothing was done")}
	}
	names := strings.Join(removed, ", ")
	env, err := send[apitype.Act](cmd.Context(), c, client.Request{
		Method: http.MethodPost, Path: "/drains",
		Body: apitype.DrainsRequest{Clusters: removed, Reason: firstOf(reason, "removed from the spec")},
	})
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
		return fmt.Errorf("interrupted: %s is drained and still in the spec; go on with: quorate apply --plan %s, or back with: quorate undrain", names, p.ID)
	case <-time.After(wait):
		return nil
	}
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
