//go:build conformance

package conformance

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// class is a kind of difference that docs/conformance.md lists with its reason.
type class struct {
	name  string // as the table has it
	holds func(d difference) bool
}

// difference is one answer of ours that is not that of a peer.
type difference struct {
	q        question
	ours     said
	theirs   said
	peer     string
	seconded bool     // another peer says what ours does
	parts    []string // what differs
}

// classes are all that may differ. But for ANY, which has no right answer but many, one
// of the peers must give our answer: where both agree, ours is theirs or wrong.
var classes = []class{
	{"any", func(d difference) bool {
		return d.q.typ == dns.TypeANY && d.ours.rcode == d.theirs.rcode && d.ours.aa == d.theirs.aa && len(d.ours.answer) > 0 && len(d.theirs.answer) > 0
	}},
	{"long-chain", func(d difference) bool {
		return d.seconded && d.peer == "knot" && len(d.theirs.answer) == knotChain && len(d.ours.answer) > knotChain
	}},
	{"alias-into-another-zone", func(d difference) bool {
		return d.seconded && d.peer == "knot" && d.aliased() && len(d.theirs.soa) == 0 && d.theirs.rcode == dns.RcodeSuccess
	}},
	{"ds-of-an-aliased-apex", func(d difference) bool {
		return d.seconded && d.peer == "knot" && d.q.typ == dns.TypeDS && d.aliased()
	}},
}

// knotChain is after how many aliases Knot stops.
const knotChain = 5

// aliased reports whether both begin with an alias.
func (d difference) aliased() bool {
	isAlias := func(rr string) bool { return strings.Contains(rr, " CNAME ") }
	return slices.ContainsFunc(d.ours.answer, isAlias) && slices.ContainsFunc(d.theirs.answer, isAlias)
}

// The page lists exactly what the test accepts, and an RFC for each.
func TestTheDocumentedDifferencesAreThoseAccepted(t *testing.T) {
	text, err := os.ReadFile("../../docs/conformance.md")
	require.NoError(t, err)
	var listed, accepted []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|(.*)$").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
		require.Regexp(t, `RFC \d+`, row[2], "%s cites an RFC", row[1])
	}
	for _, c := range classes {
		accepted = append(accepted, c.name)
	}
	slices.Sort(listed)
	slices.Sort(accepted)
	require.Equal(t, accepted, listed)
}
