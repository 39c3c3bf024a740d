package health

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs testdata/*.txt. The commands are
//
//	judge rule=2of3 prev=up votes=(eu:down us:up ap:silent)
//	explain (same arguments)
//
// A rule NofM needs N regions of the M that must be there; "majority" any. A vote
// is REGION:SIDE or REGION/OBSERVER:SIDE, with =REASON after it if there is one;
// silent is unknown. A case is rewritten with -rewrite.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, runScript)
	})
}

func runScript(t *testing.T, d *datadriven.TestData) string {
	var rule Rule
	var regions int
	prev := Unknown
	var ballots []Ballot
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "rule":
			if arg.Vals[0] == "majority" {
				continue
			}
			n, m, ok := strings.Cut(arg.Vals[0], "of")
			need, err1 := strconv.Atoi(n)
			total, err2 := strconv.Atoi(m)
			if !ok || err1 != nil || err2 != nil {
				d.Fatalf(t, "rule %q is not NofM", arg.Vals[0])
			}
			rule, regions = Rule{Up: need, Down: need}, total
		case "prev":
			if err := prev.UnmarshalText([]byte(arg.Vals[0])); err != nil {
				d.Fatalf(t, "%v", err)
			}
		case "votes":
			for _, v := range strings.Fields(strings.Join(arg.Vals, " ")) {
				ballots = append(ballots, parseVote(t, d, v))
			}
		default:
			d.Fatalf(t, "unknown argument %q", arg.Key)
		}
	}
	j := Judge(prev, ballots, rule)
	if regions != 0 && regions != j.Eligible {
		d.Fatalf(t, "the rule is for %d regions, %d vote", regions, j.Eligible)
	}
	switch d.Cmd {
	case "judge":
		return judged(prev, ballots, rule, j)
	case "explain":
		web := Target{Service: "web", Cluster: "eu", Endpoint: netip.MustParseAddr("192.0.2.1")}
		return Explain(web, prev, ballots, j)
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func parseVote(t *testing.T, d *datadriven.TestData, v string) Ballot {
	v, reason, _ := strings.Cut(v, "=")
	who, side, ok := strings.Cut(v, ":")
	if !ok {
		d.Fatalf(t, "vote %q is not REGION:SIDE", v)
	}
	region, observer, ok := strings.Cut(who, "/")
	if !ok {
		observer = region + "-1"
	}
	bl := Ballot{Observer: ObserverID(observer), Region: region, Reason: reason}
	if side == "silent" {
		return bl
	}
	if err := bl.Side.UnmarshalText([]byte(side)); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return bl
}

// judged says the judgement in a line: the side, the regions, and what came of them.
func judged(prev Side, ballots []Ballot, rule Rule, j Judgement) string {
	var silent []string
	for _, v := range ballots {
		if v.Side == Unknown {
			silent = append(silent, v.Region)
		}
	}
	quiet := ""
	if len(silent) > 0 {
		quiet = fmt.Sprintf(", %d silent (%s)", len(silent), strings.Join(silent, " "))
	}
	rule = rule.floored(j.Eligible)
	why := fmt.Sprintf("turned from %s", prev)
	switch {
	case j.Mark != Settled:
		why = fmt.Sprintf("no side has %d, keep %s (%s)", min(rule.Up, rule.Down), prev, j.Mark)
	case j.Side == prev:
		why = "as before"
	}
	return fmt.Sprintf("%-4s  %d up, %d down%s: %s\n", j.Side, j.Up, j.Down, quiet, why)
}
