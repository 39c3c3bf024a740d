package health

import (
	"cmp"
	"slices"
)

// Ballot is what one configured observer contributes to a judgement. An observer
// that is silent, unconfirmed or has not voted takes part with Side Unknown: its
// region stays in the denominator (G1).
type Ballot struct {
	Observer ObserverID
	Region   string
	Side     Side
	Reason   string
	Degraded string // of a vote up that is not well; see Vote.Degraded
}

// Rule is how many eligible regions must hold a side before a verdict turns to it.
type Rule struct {
	Up   int
	Down int
}

// Majority returns the smallest number of regions that is more than half of eligible.
func Majority(eligible int) int { return eligible/2 + 1 }

// floored returns the rule that holds with so many eligible regions. A rule
// below a majority is refused by plan; it is raised here too, so that no path
// into the state can lower it. Two regions make a majority of two, and one alone
// decides only where no other is eligible (G1).
func (r Rule) floored(eligible int) Rule {
	floor := Majority(eligible)
	return Rule{Up: max(r.Up, floor), Down: max(r.Down, floor)}
}

// Judgement is the outcome of one judging.
type Judgement struct {
	Side     Side // what the verdict is now
	Mark     Mark
	Up       int  // eligible regions voting up
	Down     int  // eligible regions voting down
	Eligible int  // regions with at least one configured observer, silent or not
	Need     Rule // what was asked for: never below a majority of Eligible
	Deciding []Decider
}

// Judge returns what the ballots support, one vote a region.
//
// A region votes for the side held by more than half of its configured
// observers, or by exactly half with none opposed. The verdict turns to a side
// when that side has the rule's number of regions, never fewer than a majority
// of the eligible ones and never fewer than two where two are eligible.
// Otherwise it stays prev: nodes cut off from each other must go on serving the
// last good answer rather than declare the world down. Ballots may come in any
// order; the result does not depend on it.
func Judge(prev Side, ballots []Ballot, rule Rule) Judgement {
	regions := regionVotes(ballots)
	j := Judgement{Side: prev, Eligible: len(regions), Need: rule.floored(len(regions))}
	for _, v := range regions {
		switch v {
		case Up:
			j.Up++
		case Down:
			j.Down++
		}
	}
	switch {
	case j.Up >= j.Need.Up:
		j.Side = Up
	case j.Down >= j.Need.Down:
		j.Side = Down
	case j.Up > 0 && j.Down > 0:
		j.Mark = Contested
	default:
		// Regions that vote at all vote alike, and they are fewer than needed.
		j.Mark = Unobserved
	}
	j.Deciding = deciders(j.Side, ballots, regions)
	return j
}

// regionVotes returns each eligible region's vote.
func regionVotes(ballots []Ballot) map[string]Side {
	type tally struct{ configured, up, down int }
	tallies := map[string]tally{}
	for _, b := range ballots {
		t := tallies[b.Region]
		t.configured++
		switch b.Side {
		case Up:
			t.up++
		case Down:
			t.down++
		}
		tallies[b.Region] = t
	}
	votes := make(map[string]Side, len(tallies))
	for region, t := range tallies {
		switch {
		case 2*t.up > t.configured, 2*t.up == t.configured && t.down == 0:
			votes[region] = Up
		case 2*t.down > t.configured, 2*t.down == t.configured && t.up == 0:
			votes[region] = Down
		default:
			votes[region] = Unknown
		}
	}
	return votes
}

// deciders returns the ballots for side in regions that voted for it, by observer.
func deciders(side Side, ballots []Ballot, regions map[string]Side) []Decider {
	if side == Unknown {
		return nil
	}
	var ds []Decider
	for _, b := range ballots {
		if b.Side == side && regions[b.Region] == side {
			ds = append(ds, Decider{b.Observer, b.Region, b.Reason})
		}
	}
	slices.SortFunc(ds, func(a, b Decider) int {
		return cmp.Or(cmp.Compare(a.Observer, b.Observer), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Reason, b.Reason))
	})
	return ds
}
