package health

import (
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// b makes a ballot of an observer named after its region.
func b(region string, side Side) Ballot {
	return Ballot{Observer: ObserverID(region + "-1"), Region: region, Side: side}
}

// b2 makes a ballot of a region's second observer.
func b2(region string, side Side) Ballot {
	return Ballot{Observer: ObserverID(region + "-2"), Region: region, Side: side}
}

var majority = Rule{}

func TestJudge(t *testing.T) {
	all := func(n int) Rule { return Rule{Up: n, Down: n} }
	tests := []struct {
		name    string
		prev    Side
		ballots []Ballot
		rule    Rule
		want    Side
		mark    Mark
	}{
		{"no observers keep the last verdict", Up, nil, majority, Up, Unobserved},
		{"no votes keep the last verdict", Down, []Ballot{b("eu", Unknown), b("us", Unknown), b("ap", Unknown)}, majority, Down, Unobserved},
		{"one region of three is no quorum", Up, []Ballot{b("eu", Down), b("us", Up), b("ap", Up)}, majority, Up, Settled},
		{"two regions of three turn it", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Up)}, majority, Down, Settled},
		{"two regions of three turn it back", Down, []Ballot{b("eu", Up), b("us", Down), b("ap", Up)}, majority, Up, Settled},
		{"a silent region stays in the denominator", Up, []Ballot{b("eu", Down), b("us", Up), b("ap", Unknown)}, majority, Up, Contested},
		{"two down with one silent turn it", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Unknown)}, majority, Down, Settled},
		{"one voting region of three is too few", Up, []Ballot{b("eu", Down), b("us", Unknown), b("ap", Unknown)}, majority, Up, Unobserved},
		{"one agreeing region of three is too few as well", Up, []Ballot{b("eu", Up), b("us", Unknown), b("ap", Unknown)}, majority, Up, Unobserved},
		{"two of four are no majority", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Up), b("sa", Up)}, majority, Up, Contested},
		{"three of four are", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Down), b("sa", Up)}, majority, Down, Settled},
		{"of two regions both must agree", Up, []Ballot{b("eu", Down), b("us", Unknown)}, majority, Up, Unobserved},
		{"two regions that disagree are contested", Up, []Ballot{b("eu", Down), b("us", Up)}, majority, Up, Contested},
		{"the only region decides alone", Up, []Ballot{b("eu", Down)}, majority, Down, Settled},
		{"a never judged target turns up", Unknown, []Ballot{b("eu", Up), b("us", Up), b("ap", Down)}, majority, Up, Settled},
		{"a never judged target stays unknown", Unknown, []Ballot{b("eu", Up), b("us", Down), b("ap", Unknown)}, majority, Unknown, Contested},
		{"all: one silent region blocks", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Unknown)}, all(3), Up, Unobserved},
		{"all: one opposed region contests", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Up)}, all(3), Up, Contested},
		{"all: three of three turn it", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Down)}, all(3), Down, Settled},
		{"a rule below the majority is raised to it", Up, []Ballot{b("eu", Down), b("us", Up), b("ap", Unknown)}, all(1), Up, Contested},
		{"a rule above the regions is never met", Up, []Ballot{b("eu", Down), b("us", Down), b("ap", Down)}, all(4), Up, Unobserved},
		{"down may ask for more than up", Down, []Ballot{b("eu", Up), b("us", Up), b("ap", Down)}, Rule{Up: 2, Down: 3}, Up, Settled},
		{"a region counts once however many observers it has", Up, []Ballot{b("eu", Down), b2("eu", Down), b("us", Up), b("ap", Up)}, majority, Up, Settled},
		{"a divided region has no vote", Up, []Ballot{b("eu", Down), b2("eu", Up), b("us", Down), b("ap", Up)}, majority, Up, Contested},
		{"half a region with none opposed speaks for it", Up, []Ballot{b("eu", Down), b2("eu", Unknown), b("us", Down), b("ap", Up)}, majority, Down, Settled},
		{"a third of a region does not", Up, []Ballot{b("eu", Down), b2("eu", Unknown), {"eu-3", "eu", Unknown, "", ""}, b("us", Down), b("ap", Up)}, majority, Up, Contested},
		{"half of four with one opposed does not", Up, []Ballot{b("eu", Down), b2("eu", Down), {"eu-3", "eu", Up, "", ""}, {"eu-4", "eu", Unknown, "", ""}, b("us", Down), b("ap", Up)}, majority, Up, Contested},
		{"more than half of a region speaks for it, opposed or not", Up, []Ballot{b("eu", Down), b2("eu", Down), {"eu-3", "eu", Up, "", ""}, b("us", Down), b("ap", Up)}, majority, Down, Settled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge(tt.prev, tt.ballots, tt.rule)
			if got.Side != tt.want || got.Mark != tt.mark {
				t.Errorf("Judge(%v, %+v, %+v) = %+v, want %v %q", tt.prev, tt.ballots, tt.rule, got, tt.want, tt.mark)
			}
		})
	}
}

func TestDecidingVotesAreThoseOfTheRegionsThatDecided(t *testing.T) {
	ballots := []Ballot{
		{"us-1", "us", Down, "timeout", ""},
		b("eu", Down), b2("eu", Up),
		{"eu-3", "eu", Down, "refused", ""},
		b("ap", Up),
		// A region that is divided, with one observer on the winning side.
		b("sa", Down), b2("sa", Up),
		b("af", Down),
	}
	got := Judge(Up, ballots, majority)
	require.Equal(t, Down, got.Side)
	require.Equal(t, []Decider{
		{"af-1", "af", ""}, {"eu-1", "eu", ""}, {"eu-3", "eu", "refused"}, {"us-1", "us", "timeout"},
	}, got.Deciding)
}

// model judges in the plainest way: it spells the votes of a region out, and
// counts what could be the majority by going through the sides.
func model(prev Side, ballots []Ballot, rule Rule) (Side, Mark) {
	byRegion := map[string][]Side{}
	for _, v := range ballots {
		byRegion[v.Region] = append(byRegion[v.Region], v.Side)
	}
	var regions []Side
	for _, sides := range byRegion {
		vote := Unknown
		for _, side := range []Side{Up, Down} {
			other := Up + Down - side
			held, opposed := 0, false
			for _, s := range sides {
				if s == side {
					held++
				}
				opposed = opposed || s == other
			}
			half := float64(len(sides)) / 2
			if float64(held) > half || float64(held) == half && !opposed {
				vote = side
			}
		}
		regions = append(regions, vote)
	}
	holds := func(side Side) (n int) {
		for _, r := range regions {
			if r == side {
				n++
			}
		}
		return n
	}
	enough := func(side Side, rule int) bool {
		n := holds(side)
		return n >= rule && 2*n > len(regions) && (len(regions) < 2 || n >= 2)
	}
	switch {
	case enough(Up, rule.Up):
		return Up, Settled
	case enough(Down, rule.Down):
		return Down, Settled
	case holds(Up) > 0 && holds(Down) > 0:
		return prev, Contested
	}
	return prev, Unobserved
}

func ballotsGen() *rapid.Generator[[]Ballot] {
	return rapid.Custom(func(t *rapid.T) []Ballot {
		n := rapid.IntRange(0, 9).Draw(t, "observers")
		var bs []Ballot
		for i := range n {
			bs = append(bs, Ballot{
				Observer: ObserverID(fmt.Sprintf("o%d", i)),
				Region:   rapid.SampledFrom([]string{"eu", "us", "ap", "sa", "af"}).Draw(t, "region"),
				Side:     sideGen.Draw(t, "side"),
			})
		}
		return bs
	})
}

var (
	sideGen = rapid.SampledFrom([]Side{Unknown, Up, Down})
	ruleGen = rapid.Custom(func(t *rapid.T) Rule {
		return Rule{Up: rapid.IntRange(0, 6).Draw(t, "up"), Down: rapid.IntRange(0, 6).Draw(t, "down")}
	})
)

func TestJudgeAgreesWithAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prev, ballots, rule := sideGen.Draw(t, "prev"), ballotsGen().Draw(t, "ballots"), ruleGen.Draw(t, "rule")
		got := Judge(prev, ballots, rule)
		side, mark := model(prev, ballots, rule)
		if got.Side != side || got.Mark != mark {
			t.Fatalf("Judge(%v, %+v, %+v) = %+v, the model says %v %q", prev, ballots, rule, got, side, mark)
		}
	})
}

func TestJudgeDoesNotDependOnTheOrderOfBallots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prev, ballots, rule := sideGen.Draw(t, "prev"), ballotsGen().Draw(t, "ballots"), ruleGen.Draw(t, "rule")
		shuffled := slices.Clone(ballots)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		require.Equal(t, Judge(prev, ballots, rule), Judge(prev, shuffled, rule))
	})
}

// Turning any one observer's vote to anything never turns a verdict to a side
// that only it holds, where two regions are eligible.
func TestG1NoLoneObserverTurnsAVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prev, ballots, rule := sideGen.Draw(t, "prev"), ballotsGen().Draw(t, "ballots"), ruleGen.Draw(t, "rule")
		got := Judge(prev, ballots, rule)
		if got.Side == prev || got.Eligible < 2 {
			return
		}
		regions := map[string]bool{}
		for _, d := range got.Deciding {
			regions[d.Region] = true
		}
		if len(regions) < 2 || 2*len(regions) <= got.Eligible {
			t.Fatalf("Judge(%v, %+v, %+v) = %+v: turned by %d regions of %d", prev, ballots, rule, got, len(regions), got.Eligible)
		}
	})
}

// Setting votes aside never turns a verdict to down in a region of its own.
func TestG1UnknownIsNeverDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ballots := ballotsGen().Draw(t, "ballots")
		for i := range ballots {
			if ballots[i].Side == Down {
				ballots[i].Side = Unknown
			}
		}
		require.NotEqual(t, Down, Judge(Up, ballots, ruleGen.Draw(t, "rule")).Side)
	})
}

func TestText(t *testing.T) {
	web := Target{Service: "web", Cluster: "eu", Endpoint: netip.MustParseAddr("192.0.2.1")}
	door := Target{Cluster: "eu", Endpoint: netip.MustParseAddr("2001:db8::1")}
	for _, target := range []Target{web, door} {
		text, err := target.MarshalText()
		require.NoError(t, err)
		var back Target
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, target, back)
	}
	require.False(t, web.FrontDoor())
	require.True(t, door.FrontDoor())
	require.Negative(t, CompareTargets(door, web), "front doors come first")
	for _, bad := range []string{"", "eu", "web/eu", "web//192.0.2.1", "a/b/c/192.0.2.1", "web/eu/nowhere"} {
		var back Target
		require.Error(t, back.UnmarshalText([]byte(bad)), "%q", bad)
	}
	for _, side := range []Side{Unknown, Up, Down} {
		text, err := side.MarshalText()
		require.NoError(t, err)
		var back Side
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, side, back)
	}
	_, err := Side(9).MarshalText()
	require.Error(t, err)
	require.Equal(t, "side(9)", Side(9).String())
	var s Side
	require.EqualError(t, s.UnmarshalText([]byte("UP")), `side "UP" is not one of unknown, up, down`)
}
