package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Explain says in words why j is what the ballots support: a line for the
// outcome, and a line for each vote, by region and observer. It ends with a
// newline.
func Explain(t Target, prev Side, ballots []Ballot, j Judgement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", t, j.Side, outcome(prev, j))
	sorted := slices.SortedFunc(slices.Values(ballots), func(a, b Ballot) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Observer, b.Observer))
	})
	regions := regionVotes(ballots)
	for _, v := range sorted {
		fmt.Fprintf(&b, "  %s (%s) %s", v.Observer, v.Region, v.Side)
		if v.Reason != "" {
			fmt.Fprintf(&b, ", %s", v.Reason)
		}
		if v.Degraded != "" {
			fmt.Fprintf(&b, ", degraded: %s", v.Degraded)
		}
		if region := regions[v.Region]; region != v.Side {
			fmt.Fprintf(&b, "; its region counts as %s", region)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// outcome is Explain's first line after the side.
func outcome(prev Side, j Judgement) string {
	counts := fmt.Sprintf("%d up, %d down, %d unknown of %d regions", j.Up, j.Down, j.Eligible-j.Up-j.Down, j.Eligible)
	need := fmt.Sprintf("up needs %d, down needs %d", j.Need.Up, j.Need.Down)
	switch {
	case j.Mark != Settled:
		return fmt.Sprintf("%s; %s: kept, %s", counts, need, j.Mark)
	case j.Side != prev:
		return fmt.Sprintf("%s; %s: was %s", counts, need, prev)
	}
	return fmt.Sprintf("%s; %s", counts, need)
}
