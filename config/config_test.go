package config

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// The example files pass, and what they come to is on record with its notes.
func TestExampleSpecsPass(t *testing.T) {
	for _, name := range []string{"spec.min", "spec.full"} {
		t.Run(name, func(t *testing.T) {
			r, errs := LoadSpec([]string{filepath.Join("testdata", name+".yaml")}, nil)
			require.Empty(t, Format(errs))
			golden(t, filepath.Join("testdata", name+".json"), asJSON(t, r.Spec))
			golden(t, filepath.Join("testdata", name+".notes"), FormatNotes(r.Unused)+"\nwarnings\n"+FormatNotes(r.Warnings))
		})
	}
}

func TestExampleNodesPass(t *testing.T) {
	for _, name := range []string{"node.min", "node.full"} {
		t.Run(name, func(t *testing.T) {
			n, errs, warnings := LoadNode(filepath.Join("testdata", name+".yaml"))
			require.Empty(t, Format(errs))
			golden(t, filepath.Join("testdata", name+".notes"), FormatNotes(n.Unused)+"\nwarnings\n"+FormatNotes(warnings))
			n.Unused = nil
			golden(t, filepath.Join("testdata", name+".json"), asJSON(t, n))
		})
	}
}

func TestNodeDefaults(t *testing.T) {
	n, errs, _ := LoadNode("testdata/node.min.yaml")
	require.Empty(t, errs)
	require.Equal(t, []string{"0.0.0.0:53", "[::]:53"}, n.DNS.Listen)
	require.Equal(t, "127.0.0.1:7653", n.API.Listen)
	require.Equal(t, "0.0.0.0:7654", n.Peer.Listen)
	require.Equal(t, "/var/lib/quorate", n.DataDir)
	require.Equal(t, "eu-1", n.DNS.NSID)
	require.True(t, n.Voter)

	n, errs, _ = ParseNode("n", []byte("node: {name: a, region: b}\npeer: {listen: \"192.0.2.1:7654\"}\ndns: {listen: [], nsid: \"\"}\n"))
	require.Empty(t, errs)
	require.Empty(t, n.DNS.Listen)
	require.Empty(t, n.DNS.NSID)
	require.Equal(t, "192.0.2.1:7654", n.Peer.Advertise)
}

// one returns the service web of a spec with the given defaults, checks and service keys.
func one(t *testing.T, defaults, service string) *statestore.Service {
	t.Helper()
	r, errs := ParseSpec("spec.yaml", []byte(doc(defaults, service)))
	require.Empty(t, Format(errs))
	return r.Spec.Services["web"]
}

func doc(defaults, service string) string {
	return `
version: 1
defaults: {` + defaults + `}
zones: { gslb.example.com: {} }
clusters:
  eu: { region: eu-west, ipv4: [192.0.2.10], labels: { env: prod, tier: "1" } }
  us: { region: us-east, ipv4: [198.51.100.10], labels: { env: prod } }
  dr: { region: eu-central, ipv4: [203.0.113.10], labels: { env: test } }
checks:
  fast: { interval: 1s, http: { host: "{service}.{zone}" } }
services:
  web: {` + service + `}
`
}

const weighted = "policy: {type: weighted}, "

func TestDefaultsWhenNothingIsSaid(t *testing.T) {
	s := one(t, "", weighted+"check: {http: {}}")
	c := s.Checks.All[0]
	require.Equal(t, "gslb.example.com.", s.Zone)
	require.Equal(t, []string{"web"}, s.Names)
	require.Equal(t, []time.Duration{10 * time.Second, 3 * time.Second, 2 * time.Second, 30 * time.Second},
		[]time.Duration{c.Interval.D(), c.Timeout.D(), c.Recheck.D(), c.StaleAfter.D()})
	require.Equal(t, []int{3, 2}, []int{c.Fall, c.Rise})
	require.Equal(t, statestore.TTL{Normal: sec(30), Changing: sec(5)}, s.TTL)
	require.Equal(t, statestore.Quorum{MinVotes: 2}, s.Quorum)
	require.Equal(t, statestore.OnAllDown{Mode: statestore.ServeLast}, s.OnAllDown)
	require.Equal(t, statestore.OnStale{After: sec(30), Answer: statestore.StaleKeep}, s.OnStale)
	require.Equal(t, statestore.Answer{Clusters: 1, Addresses: 8}, s.Answer)
	require.Equal(t, statestore.Policy{Type: statestore.Weighted}, s.Policy, "capacities decide")
	require.Equal(t, "check", c.Name)
	require.Equal(t, 80, c.HTTP.Port)
}

func sec(n int) statestore.Duration { return statestore.Duration(n) * statestore.Duration(time.Second) }

func TestMerging(t *testing.T) {
	tests := []struct {
		name              string
		defaults, service string
		got               func(s *statestore.Service) any
		want              any
	}{
		{"a recheck follows the interval a check sets", "check: {recheck: 3s}", "checks: {all: [fast]}", recheck, 200 * ms},
		{"a recheck of the defaults goes with their interval", "check: {recheck: 3s}", "check: {http: {}}", recheck, 3000 * ms},
		{"a recheck is at least 100ms", "check: {interval: 200ms}", "check: {http: {}}", recheck, 100 * ms},
		{"an inherited timeout is cut to the interval", "", "checks: {all: [fast]}", func(s *statestore.Service) any { return s.Checks.All[0].Timeout }, 1000 * ms},
		{"stale_after follows the interval", "", "checks: {all: [fast]}", func(s *statestore.Service) any { return s.Checks.All[0].StaleAfter }, 3000 * ms},
		{"a service's stale_after wins", "", "checks: {all: [fast]}, quorum: {stale_after: 5x}", func(s *statestore.Service) any { return s.Checks.All[0].StaleAfter }, 5000 * ms},
		{"names are filled in", "", "checks: {all: [fast]}", func(s *statestore.Service) any { return s.Checks.All[0].HTTP.Host }, "web.gslb.example.com"},
		{"the apex is the zone", "", `names: ["@"], checks: {all: [fast]}`, func(s *statestore.Service) any { return s.Checks.All[0].HTTP.Host }, "gslb.example.com"},
		{"https asks for the service's name", "", "check: {https: {}}", func(s *statestore.Service) any { return s.Checks.All[0].HTTPS.Host }, "web.gslb.example.com"},
		{"http asks for the address", "", "check: {http: {}}", func(s *statestore.Service) any { return s.Checks.All[0].HTTP.Host }, ""},
		{"a plain ttl sets both", "", "check: {http: {}}, ttl: 20s", ttl, statestore.TTL{Normal: sec(20), Changing: sec(20)}},
		{"an inherited changing ttl is cut to normal", "", "check: {http: {}}, ttl: {normal: 3s}", ttl, statestore.TTL{Normal: sec(3), Changing: sec(3)}},
		{"half a ttl keeps the other half", "ttl: {normal: 60s}", "check: {http: {}}, ttl: {changing: 7s}", ttl, statestore.TTL{Normal: sec(60), Changing: sec(7)}},
		{"half a quorum keeps the other half", "quorum: {down: all, min_votes: 3}", "check: {http: {}}, quorum: {up: 2}", func(s *statestore.Service) any { return s.Quorum }, statestore.Quorum{Down: statestore.ThresholdAll, Up: 2, MinVotes: 3}},
		{"a mode of all-down replaces the default", "on_all_down: {sorry: 192.0.2.99}", "check: {http: {}}, on_all_down: nodata", func(s *statestore.Service) any { return string(s.OnAllDown.Mode) }, "nodata"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.got(one(t, tt.defaults, weighted+tt.service)))
		})
	}
}

func recheck(s *statestore.Service) any { return s.Checks.All[0].Recheck }
func ttl(s *statestore.Service) any     { return s.TTL }

func TestWeights(t *testing.T) {
	r := one(t, "", "check: {http: {}}, policy: {type: weighted, weights: {eu: 5, default: 2}}")
	require.Equal(t, map[string]int{"dr": 2, "eu": 5, "us": 2}, r.Policy.Weights)
	full, errs := ParseSpec("s", []byte(strings.ReplaceAll(doc("", weighted+"check: {http: {}}"), "labels:", "capacity: 7, labels:")))
	require.Empty(t, errs)
	require.Nil(t, full.Spec.Services["web"].Policy.Weights, "what is reported counts before what is declared")
}

// Candidates here and in the state machine are the same function of the spec.
func TestCandidatesAgreeWithTheStateMachine(t *testing.T) {
	for _, sel := range []string{"{}", "{match: 'env=prod'}", "{match: 'env=prod,tier in (1,2)'}", "{match: '!tier'}", "{match: 'env!=test', exclude: [us]}", "{only: [dr, eu]}", "{only: [dr, eu], exclude: [eu]}"} {
		r, errs := ParseSpec("s", []byte(doc("", "policy: {type: weighted, weights: {default: 1}}, check: {http: {}}, clusters: "+sel)))
		require.Empty(t, Format(errs))
		s := r.Spec.Services["web"]
		var want []string
		for _, c := range []string{"dr", "eu", "us"} {
			if _, ok := s.Policy.Weights[c]; ok {
				want = append(want, c)
			}
		}
		require.Equal(t, want, r.Spec.Candidates("web"), sel)
	}
}

func TestSpecSurvivesJSON(t *testing.T) {
	for _, f := range []string{"testdata/spec.min.yaml", "testdata/spec.full.yaml"} {
		r, errs := LoadSpec([]string{f}, nil)
		require.Empty(t, errs)
		b, err := json.Marshal(r.Spec)
		require.NoError(t, err)
		var back statestore.Spec
		require.NoError(t, json.Unmarshal(b, &back))
		if d := cmp.Diff(r.Spec, &back, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); d != "" {
			t.Errorf("%s changed in JSON:\n%s", f, d)
		}
	}
}

func write(t *testing.T, dir, name, body string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600))
}

func TestDirectoriesMergeDeep(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "10-base.yaml", "version: 1\nzones: { gslb.example.com: {} }\nclusters: { eu: { region: eu-west } }\nservices: {}\n")
	write(t, dir, "20-eu.yaml", "clusters: { eu: { ipv4: [192.0.2.10] } }")
	write(t, dir, "30-web.yaml", "# the shop\nservices: { web: { policy: { type: weighted }, check: { http: {} } } }\n")
	write(t, dir, ".hidden.yaml", "garbage")
	write(t, dir, "README", "garbage")
	r, errs := LoadSpec([]string{dir}, nil)
	require.Empty(t, Format(errs))
	require.Len(t, r.Spec.Clusters["eu"].IPv4, 1)
	require.Contains(t, r.Spec.Services, "web")
	require.Contains(t, r.Source, "# the shop")

	again, errs := ParseSpec("revision 7", []byte(r.Source))
	require.Empty(t, Format(errs))
	require.Equal(t, asJSON(t, r.Spec), asJSON(t, again.Spec))
	require.Equal(t, r.Source, again.Source)
}

func TestJoinedSourceKeepsPlaces(t *testing.T) {
	_, errs := ParseSpec("x", []byte("--- # file: a.yaml\nversion: 1\n--- # file: b.yaml\n\nzone: {}\n"))
	require.Contains(t, Format(errs), "b.yaml:2:1: zone: unknown key, did you mean zones?\n")
}

func TestOneScalarInTwoFilesNamesBoth(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "version: 1\nzones: { gslb.example.com: { ns_ttl: 1h } }\nclusters: { eu: { region: a, ipv4: [192.0.2.1] } }\nservices: {}\n")
	write(t, dir, "b.yaml", "zones:\n  gslb.example.com:\n    ns_ttl: 2h\nclusters: { eu: { ipv4: [192.0.2.2] } }\n")
	r, errs := LoadSpec([]string{dir}, nil)
	require.Nil(t, r)
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	require.Equal(t, []string{
		b + ":3:13: zones.gslb.example.com.ns_ttl: must be set in one file only, is also set at " + a + ":2:38",
		b + ":4:25: clusters.eu.ipv4: must be set in one file only, is also set at " + a + ":3:36",
	}, lines(errs))
}

func lines(errs []FieldError) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	_, errs := LoadSpec([]string{filepath.Join(dir, "none.yaml"), dir}, nil)
	require.Equal(t, []string{
		filepath.Join(dir, "none.yaml") + ": must be readable, is not: no such file or directory",
		dir + ": must be readable, is not: no *.yaml in it",
	}, lines(errs))
	_, errs = LoadSpec(nil, nil)
	require.Len(t, errs, 1)
	n, errs, _ := LoadNode(filepath.Join(dir, "none.yaml"))
	require.Nil(t, n)
	require.Len(t, errs, 1)
	_, errs = ParseSpec("big", make([]byte, MaxSpecSize+1))
	require.Equal(t, []string{"big: must be at most 4194304 bytes in all, is 4194305"}, lines(errs))
	write(t, dir, "big.yaml", strings.Repeat("#", MaxNodeSize+1))
	_, errs, _ = LoadNode(filepath.Join(dir, "big.yaml"))
	require.Len(t, errs, 1)
}

func TestAliasesAreExpanded(t *testing.T) {
	r, errs := ParseSpec("s", []byte(`
version: 1
zones: { gslb.example.com: {} }
clusters: { eu: { region: eu-west, ipv4: [192.0.2.10] } }
services:
  web: &web { policy: { type: weighted }, check: { http: {} } }
  shop: *web
`))
	require.Empty(t, Format(errs))
	require.Equal(t, []string{"shop"}, r.Spec.Services["shop"].Names)
}

func TestCheckRecordsNamesTheirPlace(t *testing.T) {
	r, errs := ParseSpec("s.yaml", []byte(`
version: 1
zones: { gslb.example.com: { records: { mail: { MX: ["ten mx.example.com."] } } } }
clusters: { eu: { region: eu-west, ipv4: [192.0.2.10] } }
services: {}
`))
	require.Empty(t, Format(errs))
	var saw []string
	got := r.CheckRecords(func(zone, owner, rtype, data string) error {
		saw = append(saw, zone, owner, rtype, data)
		return errors.New("bad preference")
	})
	require.Equal(t, []string{"gslb.example.com.", "mail", "MX", "ten mx.example.com."}, saw)
	require.Equal(t, []string{`s.yaml:3:54: zones.gslb.example.com.records.mail.MX[0]: must be MX data, is "ten mx.example.com.": bad preference`}, lines(got))
}

func TestWarnings(t *testing.T) {
	tests := []struct{ name, defaults, service, want string }{
		{"one vote decides", "quorum: {min_votes: 1}", "check: {http: {}}", "defaults.quorum.min_votes: 1 lets a single region decide"},
		{"a long ttl", "", "check: {http: {}}, ttl: 1h", "services.web.ttl: 1h keeps resolvers on a lost cluster"},
		{"clusters of an answer under failover", "", "answer: {clusters: 3}, check: {http: {}}, policy: {type: failover, order: [eu, us, dr]}", "services.web.answer.clusters: failover answers with the first cluster alone, so 3 has no effect"},
		{"sorry in another family", "on_all_down: {sorry: \"2001:db8::1\"}", "check: {http: {}}", "defaults.on_all_down: sorry has no ipv4 address: A gets an empty answer then"},
		{"a short ttl", "", "check: {http: {}}, ttl: 1s", "services.web.ttl: 1s is far below the 17s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			service := tt.service
			if !strings.Contains(service, "policy:") {
				service = weighted + service
			}
			r, errs := ParseSpec("s", []byte(doc(tt.defaults, service)))
			require.Empty(t, Format(errs))
			require.Contains(t, FormatNotes(r.Warnings), tt.want)
		})
	}
	r, _ := ParseSpec("s", []byte(doc("", weighted+"check: {http: {}}")))
	require.Equal(t, []string{"checks.fast.interval"}, paths(r.Warnings))
	require.Empty(t, r.Unused)
}

func TestExcerptPointsAtTheCharacter(t *testing.T) {
	e := FieldError{File: "spec/web.yaml", Line: 7, Col: 17, Path: "services.web.check.interval", Msg: "must be at least 100ms, is 20ms", Source: "      interval: 20ms"}
	require.Equal(t, "spec/web.yaml:7:17: services.web.check.interval: must be at least 100ms, is 20ms\n"+
		"   7 |       interval: 20ms\n"+
		"     |                 ^\n", Format([]FieldError{e}))
	require.Equal(t, "   1 | \tgrün: x\n     | \t      ^\n", FieldError{Line: 1, Col: 8, Source: "\tgrün: x"}.Excerpt())
	require.Empty(t, FieldError{Source: "x"}.Excerpt())
	long := FieldError{Line: 1, Col: 501, Source: strings.Repeat("a", 500) + "!" + strings.Repeat("b", 500)}.Excerpt()
	require.Equal(t, strings.Index(long, "!")-strings.Index(long, "| "), len("| ")+strings.Index(strings.SplitN(long, "\n", 2)[1], "^")-len("     | "))
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"10s": 10 * time.Second, "90d": 90 * day, "1d12h": 36 * time.Hour, "0s": 0} {
		got, ok := parseDuration(text)
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "10", "d", "-1s", "1d-2h", "1.5d", "1dd", "1h2d", "99999d", "65535d2562047h"} {
		_, ok := parseDuration(text)
		require.False(t, ok, text)
	}
	for d, want := range map[time.Duration]string{time.Minute: "1m", 7 * day: "7d", 90 * time.Minute: "1h30m", 20 * time.Millisecond: "20ms", time.Hour: "1h", 10 * time.Second: "10s"} {
		require.Equal(t, want, short(d))
	}
}
