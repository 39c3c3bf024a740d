package health

import (
	"cmp"
	"maps"
	"slices"
)

// Degraded returns why a target that is up is not well: what a majority of the
// eligible regions say, each as it says up or down. It is empty when they do not.
// Where regions give different reasons it is the one that most observers give, and
// of equal ones the first by name.
func Degraded(ballots []Ballot) string {
	// A region's word on being unwell is found as its vote is: those that are not
	// well stand for a side, those that are for the other.
	unwell := make([]Ballot, len(ballots))
	for i, b := range ballots {
		unwell[i] = Ballot{Observer: b.Observer, Region: b.Region}
		switch {
		case b.Side != Up:
		case b.Degraded != "":
			unwell[i].Side = Down
		default:
			unwell[i].Side = Up
		}
	}
	regions := regionVotes(unwell)
	agree := 0
	for _, side := range regions {
		if side == Down {
			agree++
		}
	}
	if agree < Majority(len(regions)) {
		return ""
	}
	said := map[string]int{}
	for _, b := range ballots {
		if b.Side == Up && b.Degraded != "" && regions[b.Region] == Down {
			said[b.Degraded]++
		}
	}
	return slices.MinFunc(slices.Collect(maps.Keys(said)), func(a, b string) int {
		return cmp.Or(cmp.Compare(said[b], said[a]), cmp.Compare(a, b))
	})
}
