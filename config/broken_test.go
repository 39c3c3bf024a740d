package config

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// around is a spec without fault or warning. The cases of testdata/broken and
// testdata/sloppy are a second file of it.
const around = `
version: 1
zones: { gslb.example.com: { records: { old: { A: [192.0.2.99] }, _sip._tcp: { SRV: ["0 0 5060 sip"] }, doh: { HTTPS: ["1 ."] } } } }
clusters:
  eu: { region: eu-west, labels: { env: prod }, ipv4: [192.0.2.10, 192.0.2.11], cidrs: [10.1.0.0/16], capacity: 100 }
  us: { region: us-east, labels: { env: prod }, ipv4: [198.51.100.10, 198.51.100.11], capacity: 50 }
  dr: { region: eu-central, labels: { env: spare }, ipv4: [203.0.113.10], capacity: 20 }
regions:
  eu-west: { coordinates: [53.35, -6.26], countries: [IE, GB] }
  us-east: { coordinates: [38.95, -77.45] }
  eu-central: { coordinates: [50.11, 8.68] }
checks: { ok: { http: {} } }
services: { shop: { policy: { type: weighted }, checks: { all: [ok] } } }
`

const aroundNode = "node: { name: eu-1, region: eu-west }\npeer: { advertise: \"eu-1.example.com:7654\" }\n"

// readCase reads one case: a part of a spec, a whole spec, or a part of a node.yaml.
func readCase(t *testing.T, d *datadriven.TestData) ([]FieldError, []Note) {
	t.Helper()
	switch d.Cmd {
	case "spec":
		r, errs := ParseSpec("spec", []byte(marker+"x\n"+d.Input+"\n"+marker+"base\n"+around))
		require.Equal(t, r == nil, len(errs) > 0)
		if r == nil {
			return errs, nil
		}
		return nil, r.Warnings
	case "whole":
		r, errs := ParseSpec("x", []byte(d.Input))
		require.Equal(t, r == nil, len(errs) > 0)
		if r == nil {
			return errs, nil
		}
		return nil, r.Warnings
	case "node":
		n, errs, warnings := ParseNode("x", []byte(d.Input+"\n"+aroundNode))
		require.Equal(t, n == nil, len(errs) > 0)
		return errs, warnings
	}
	d.Fatalf(t, "no such command: %s", d.Cmd)
	return nil, nil
}

// Each case of testdata/broken is refused with exactly these places and messages:
// run with -rewrite after a change.
func TestBrokenSpecsAreRefusedWithPlaces(t *testing.T) {
	cases := 0
	datadriven.Walk(t, "testdata/broken", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			cases++
			errs, _ := readCase(t, d)
			require.NotEmpty(t, errs, "%s is accepted", d.Pos)
			for _, e := range errs {
				require.Positive(t, e.Line, "%s: %s", d.Pos, e)
				require.Positive(t, e.Col, "%s: %s", d.Pos, e)
				require.NotEmpty(t, e.Source, "%s: %s", d.Pos, e)
			}
			return strings.Join(lines(errs), "\n")
		})
	})
	require.GreaterOrEqual(t, cases, 80)
}

// Each case of testdata/sloppy is accepted with exactly these warnings.
func TestSloppySpecsAreWarnedAboutWithPlaces(t *testing.T) {
	datadriven.Walk(t, "testdata/sloppy", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			errs, warnings := readCase(t, d)
			require.Empty(t, Format(errs), d.Pos)
			var out []string
			for _, w := range warnings {
				require.Positive(t, w.Line, "%s: %s", d.Pos, w)
				require.NotEmpty(t, w.Excerpt(), "%s: %s", d.Pos, w)
				out = append(out, w.String())
			}
			if len(out) == 0 {
				return "none"
			}
			return strings.Join(out, "\n")
		})
	})
	r, errs := ParseSpec("base", []byte(around))
	require.Empty(t, Format(errs))
	require.Empty(t, FormatNotes(r.Warnings), "what stands around the cases adds nothing")
}
