package health

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ill makes a ballot of a region's observer that is up and not well.
func ill(region, observer, why string) Ballot {
	return Ballot{Observer: ObserverID(region + "-" + observer), Region: region, Side: Up, Degraded: why}
}

func TestDegraded(t *testing.T) {
	tests := []struct {
		name    string
		ballots []Ballot
		want    string
	}{
		{"nobody says anything", nil, ""},
		{"nobody says so", []Ballot{b("eu", Up), b("us", Up), b("ap", Up)}, ""},
		{"one region of three is no majority", []Ballot{ill("eu", "1", "cert"), b("us", Up), b("ap", Up)}, ""},
		{"two regions of three are", []Ballot{ill("eu", "1", "cert"), ill("us", "1", "cert"), b("ap", Up)}, "cert"},
		{"a silent region stays in the denominator", []Ballot{ill("eu", "1", "cert"), b("us", Unknown), b("ap", Unknown)}, ""},
		{"two with one silent are a majority", []Ballot{ill("eu", "1", "cert"), ill("us", "1", "cert"), b("ap", Unknown)}, "cert"},
		{"who votes down says nothing", []Ballot{ill("eu", "1", "cert"), {"us-1", "us", Down, "", "cert"}, b("ap", Up)}, ""},
		{"a region counts once", []Ballot{ill("eu", "1", "cert"), ill("eu", "2", "cert"), b("us", Up), b("ap", Up)}, ""},
		{"a divided region says nothing", []Ballot{ill("eu", "1", "cert"), b2("eu", Up), ill("us", "1", "cert"), b("ap", Up)}, ""},
		{"half a region with none opposed speaks for it", []Ballot{ill("eu", "1", "cert"), b2("eu", Down), ill("us", "1", "cert"), b("ap", Up)}, "cert"},
		{"the reason most observers give", []Ballot{ill("eu", "1", "cert"), ill("us", "1", "latency"), ill("ap", "1", "latency")}, "latency"},
		{"of equal reasons the first by name", []Ballot{ill("eu", "1", "latency"), ill("us", "1", "cert"), b("ap", Up)}, "cert"},
		{"the only region says it alone", []Ballot{ill("eu", "1", "latency")}, "latency"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Degraded(tt.ballots); got != tt.want {
				t.Errorf("Degraded(%+v) = %q, want %q", tt.ballots, got, tt.want)
			}
		})
	}
}

func TestDegradedDoesNotDependOnOrderAndDecidesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var ballots []Ballot
		for range rapid.IntRange(0, 9).Draw(rt, "ballots") {
			v := b(rapid.SampledFrom([]string{"eu", "us", "ap", "sa"}).Draw(rt, "region"), rapid.SampledFrom([]Side{Up, Up, Down, Unknown}).Draw(rt, "side"))
			v.Degraded = rapid.SampledFrom([]string{"", "cert", "latency"}).Draw(rt, "degraded")
			ballots = append(ballots, v)
		}
		want := Degraded(ballots)
		shuffled, well := slices.Clone(ballots), slices.Clone(ballots)
		rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed"))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range well {
			well[i].Degraded = ""
		}
		require.Equal(rt, want, Degraded(shuffled))
		require.Equal(rt, Judge(Up, ballots, majority), Judge(Up, well, majority), "a verdict knows nothing of it")
		require.Empty(rt, Degraded(well))
	})
}

func TestExplainSaysWhatIsNotWell(t *testing.T) {
	ballots := []Ballot{ill("eu", "1", "cert"), b("us", Up)}
	require.Contains(t, Explain(Target{Service: "web", Cluster: "eu"}, Up, ballots, Judge(Up, ballots, majority)), "eu-1 (eu) up, degraded: cert\n")
}
