package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestCheckSpecCountsEligibleRegions(t *testing.T) {
	tests := []struct {
		name    string
		regions []string
		edit    func(*statestore.Service)
		blocker string // its rule, or none
		text    string // in a blocker or warning
	}{
		{"three regions are fine", regions, func(*statestore.Service) {}, "", ""},
		{"fewer than min_votes", []string{"eu"}, func(*statestore.Service) {}, RuleMinVotes, "2 regions must be able to vote, 1 can (eu)"},
		{"one is allowed when asked for, with a warning", []string{"eu"}, func(s *statestore.Service) { s.Quorum.MinVotes = 1 }, "", "one eligible region (eu)"},
		{"two cannot decide the loss of either", []string{"eu", "us"}, func(*statestore.Service) {}, "", "join a third node anywhere"},
		{"nobody matches the selector", regions, func(s *statestore.Service) { s.Quorum.Observers = "region=mars" }, RuleObservers, `no member matches "region=mars"`},
		{"a threshold below a majority", regions, func(s *statestore.Service) { s.Quorum.Down = 1 }, RuleThreshold, "services.web.quorum.down: must be at least 2"},
		{"a threshold nobody can reach", regions, func(s *statestore.Service) { s.Quorum.Up = 4 }, RuleThreshold, "services.web.quorum.up: must be at most 3"},
		{"all is fine", regions, func(s *statestore.Service) { s.Quorum.Down = statestore.ThresholdAll }, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newMembers(t, tt.regions...)
			f := CheckSpec(w.st(), testSpec(web(tt.edit)))
			want := []string{}
			if tt.blocker != "" {
				want = append(want, tt.blocker)
			}
			require.Equal(t, want, rules(f.Blockers))
			said := strings.Join(f.Warnings, "\n")
			for _, b := range f.Blockers {
				said += "\n" + b.Reason
			}
			if tt.text == "" {
				require.Empty(t, strings.TrimSpace(said))
			}
			require.Contains(t, said, tt.text)
		})
	}
}

func TestRemovingTheLastServingClusterIsRefusedWithTheCommand(t *testing.T) {
	w := upWorld(t)
	w.all(health.Down, "us", "ap")
	w.settle()
	spec := clone(w.st().Spec, func(sp *statestore.Spec) { delete(sp.Clusters, "eu") })
	f := CheckSpec(w.st(), spec)
	require.Equal(t, []string{RuleMinServing}, rules(f.Blockers))
	require.Contains(t, f.Blockers[0].Reason, "services.web: without eu it would be left with 0 serving")
	require.Contains(t, f.Blockers[0].Reason, "quorate drain eu")
	require.Error(t, w.try(applyOf(w.st(), spec)), "Apply agrees")

	w.all(health.Up, "us")
	w.settle()
	f = CheckSpec(w.st(), spec)
	require.Equal(t, []string{RuleInUse}, rules(f.Blockers))
	w.do(statestore.DrainCluster{Cluster: "eu", Reason: "goes", Rotations: DrainRotations(w.st(), "eu", nil)})
	require.Empty(t, CheckSpec(w.st(), spec).Blockers)
	w.do(applyOf(w.st(), spec))
}

func TestAnEmptyClusterListIsRefused(t *testing.T) {
	w := upWorld(t)
	f := CheckSpec(w.st(), clone(w.st().Spec, func(sp *statestore.Spec) { sp.Clusters = nil }))
	require.Equal(t, []string{RuleNoCandidates}, rules(f.Blockers))
	require.Contains(t, f.Blockers[0].Reason, "services.web")
}

func TestNamesOfNameServersAreNotGivenAway(t *testing.T) {
	w := upWorld(t)
	m := member(regions[0])
	m.DNS.IPv4 = addrs("203.0.113.1")
	w.do(statestore.UpsertMember{Member: m})
	mute := member(regions[1])
	mute.DNS = statestore.Advertise{}
	w.do(statestore.UpsertMember{Member: mute})
	ns := "ns-" + m.Name
	records := func(r map[string]map[string][]string) func(*statestore.Spec) {
		return func(sp *statestore.Spec) { sp.Zones["gslb.example.com."].Records = r }
	}
	tests := []struct {
		name     string
		edit     func(*statestore.Spec)
		rules    []string
		warnings int
	}{
		{"a service", web(func(s *statestore.Service) { s.Names = []string{"web", ns} }), []string{RuleNameServer}, 0},
		{"a name of a member that answers nobody", web(func(s *statestore.Service) { s.Names = []string{"web", "ns-" + regions[1] + "-1"} }), []string{}, 0},
		{"an alias", records(map[string]map[string][]string{ns: {"CNAME": {"web"}}}), []string{RuleNameServer}, 0},
		{"an address", records(map[string]map[string][]string{ns: {"A": {"192.0.2.1"}}}), []string{}, 1},
		{"a delegation", records(map[string]map[string][]string{ns: {"NS": {"ns.example."}}}), []string{RuleNameServer}, 0},
		{"a DNAME above it, and above the other's", records(map[string]map[string][]string{"@": {"DNAME": {"example."}}}), []string{RuleNameServer, RuleNameServer}, 0},
		{"a DNAME beside it", records(map[string]map[string][]string{ns: {"DNAME": {"example."}}}), []string{}, 0},
		{"a text", records(map[string]map[string][]string{ns: {"TXT": {`"x"`}}}), []string{}, 0},
		{"a list of name servers in the spec", func(sp *statestore.Spec) {
			sp.Zones["gslb.example.com."].NS = []string{ns + ".gslb.example.com."}
			sp.Zones["gslb.example.com."].Records = map[string]map[string][]string{ns: {"A": {"192.0.2.1"}}}
		}, []string{}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := CheckSpec(w.st(), clone(w.st().Spec, func(sp *statestore.Spec) {
				z := *sp.Zones["gslb.example.com."]
				sp.Zones = map[string]*statestore.Zone{"gslb.example.com.": &z}
				tt.edit(sp)
			}))
			require.Equal(t, tt.rules, rules(f.Blockers))
			require.Len(t, f.Warnings, tt.warnings, "%q", f.Warnings)
		})
	}
}

func TestIdentityChangesAreSaid(t *testing.T) {
	w := upWorld(t)
	f := CheckSpec(w.st(), clone(w.st().Spec, func(sp *statestore.Spec) {
		eu := *sp.Clusters["eu"]
		eu.Region, eu.ID = "eu-north", 7
		sp.Clusters["eu"] = &eu
		sp.Services["web"].Names = []string{"www"}
	}))
	require.Empty(t, f.Blockers)
	require.Len(t, f.Warnings, 3)
}

// Apply fills in the built-in roles, so a spec without roles is no other spec.
func TestASpecWithoutRolesHasTheBuiltInOnes(t *testing.T) {
	written := &statestore.Spec{}
	kept := &statestore.Spec{Access: statestore.Access{Roles: statestore.BuiltinRoles()}}
	require.Empty(t, CompareSpecs(kept, written))
	require.Empty(t, CompareSpecs(written, kept))
	kept.Access.Roles["viewer"].Can = append(kept.Access.Roles["viewer"].Can, "drain")
	require.NotEmpty(t, CompareSpecs(kept, written))
}

func TestDiffSpec(t *testing.T) {
	type change = func(*statestore.Spec)
	tests := []struct {
		name   string
		edit   change
		lines  []string
		class  Class
		moved  []string // services whose answers or TTL change
		forced int      // rails exceeded
	}{
		{"nothing", func(*statestore.Spec) {}, nil, ClassNone, nil, 0},
		{
			"weights", web(func(s *statestore.Service) { s.Policy.Weights = map[string]int{"eu": 50, "us": 30, "ap": 20} }),
			[]string{"+ services.web.policy.weights  -> {ap: 20, eu: 50, us: 30}"},
			ClassAnswers,
			[]string{"web"},
			0,
		},
		{
			"ttl", web(func(s *statestore.Service) { s.TTL.Normal = statestore.Duration(time.Minute) }),
			[]string{"~ services.web.ttl {changing: 5s, normal: 30s} -> {changing: 5s, normal: 1m0s}"},
			ClassTTL,
			[]string{"web"},
			0,
		},
		{
			"a new cluster waits for its verdict", func(sp *statestore.Spec) {
				sp.Clusters["sa"] = &statestore.Cluster{Region: "sa-east", IPv4: addrs("192.0.2.40")}
			},
			[]string{"+ clusters.sa  -> sa-east, 1 address"},
			ClassNone, nil, 0,
		},
		{
			"a removed cluster", func(sp *statestore.Spec) { delete(sp.Clusters, "ap") },
			[]string{"- clusters.ap ap-south, 1 address -> "},
			ClassRemoves,
			[]string{"web"},
			0,
		},
		{
			"an id", func(sp *statestore.Spec) {
				sp.Clusters["eu"] = &statestore.Cluster{ID: 1, Region: "eu-west", IPv4: addrs("192.0.2.10")}
			},
			[]string{"+ clusters.eu.id  -> 1"},
			ClassIdentity, nil, 0,
		},
		{
			"the NS set needs force", func(sp *statestore.Spec) {
				sp.Zones["gslb.example.com."] = &statestore.Zone{NSTTL: statestore.Duration(time.Hour), NS: []string{"ns.example.com."}}
			},
			[]string{"+ zones.gslb.example.com.ns  -> [ns.example.com.]"},
			ClassNone, nil, 1,
		},
		{
			"everything goes", func(sp *statestore.Spec) { sp.Clusters, sp.Services, sp.Zones = nil, nil, nil },
			nil, ClassRemoves,
			[]string{"web"},
			2,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t)
			d := DiffSpec(w.st(), clone(w.st().Spec, tt.edit))
			if tt.lines != nil || tt.class == ClassNone {
				require.Equal(t, tt.lines, lines(d.Changes))
			}
			require.Equal(t, tt.class, d.Class)
			var moved []string
			for _, im := range d.Answers {
				moved = append(moved, im.Service)
			}
			require.Equal(t, tt.moved, moved)
			require.Len(t, d.Guards.Exceeded, tt.forced, "%v", d.Guards.Exceeded)
		})
	}
}

func lines(cs []Change) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.Op+" "+c.Path+" "+c.Old+" -> "+c.New)
	}
	return out
}

func TestTheFirstSpecNeedsNoForce(t *testing.T) {
	d := DiffSpec(newMembers(t, regions...).st(), testSpec())
	require.Empty(t, d.Guards.Exceeded)
	require.Len(t, d.Rotations, 1, "a new service comes with its rotation")
	require.Contains(t, lines(d.Changes), "+ services.web  -> [web] gslb.example.com, weighted")
}

func TestGuardsCountObjects(t *testing.T) {
	w := upWorld(t) // one zone, three clusters, one service
	edit := func(names ...string) func(*statestore.Spec) {
		return func(sp *statestore.Spec) {
			for _, n := range names {
				c := *sp.Clusters[n]
				c.Capacity = 10
				sp.Clusters[n] = &c
			}
		}
	}
	one := DiffSpec(w.st(), clone(w.st().Spec, edit("eu"))).Guards
	require.InDelta(t, 0.2, one.Updates, 1e-9)
	require.Empty(t, one.Exceeded)
	two := DiffSpec(w.st(), clone(w.st().Spec, edit("eu", "us"))).Guards
	require.Equal(t, []string{"updates 40% of 30%: 2 of 5 objects change"}, two.Exceeded)
	lax := clone(w.st().Spec, edit("eu", "us"), func(sp *statestore.Spec) { sp.Safety.Plan.MaxUpdateRatio = 1 })
	require.NotEmpty(t, DiffSpec(w.st(), lax).Guards.Exceeded, "a plan cannot lift the rails for itself")
}

// Nobody wrote the defaults, so the first plan does not list them.
func TestTheFirstPlanListsWhatPeopleWrote(t *testing.T) {
	const written = `version: 1
zones: { gslb.test: {} }
clusters:
  eu: { region: eu-west, ipv4: [192.0.2.1] }
services:
  web:
    policy: { type: weighted }
    check: { tcp: { port: 80 } }
`
	plan := func(more string) (paths []string, d Diff) {
		result, errs := config.ParseSpec("spec.yaml", []byte(written+more))
		require.Empty(t, errs)
		d = DiffSpec(newMembers(t, regions...).st(), result.Spec)
		for _, c := range d.Changes {
			paths = append(paths, c.Op+" "+c.Path)
		}
		return paths, d
	}
	objects := []string{"+ clusters.eu", "+ services.web", "+ zones.gslb.test"}
	paths, d := plan("")
	require.Equal(t, objects, paths, "also: the defaults here are those of package config")
	require.Equal(t, ClassAnswers, d.Class)
	require.Empty(t, d.Guards.Exceeded)
	require.InDelta(t, 0.3, d.Guards.MaxDeletes, 1e-9)

	paths, _ = plan("safety: { max_drained: 2 }\n")
	require.Len(t, paths, 4)
	require.Contains(t, paths, "~ safety.max_drained")

	empty := testSpec(func(sp *statestore.Spec) { sp.Zones, sp.Clusters, sp.Services = nil, nil, nil })
	empty.Safety, empty.Retention = defaultSafety, defaultRetention
	require.NotEmpty(t, DiffSpec(newMembers(t, regions...).st(), empty).Changes, "it can still be applied")
}

func TestWithoutMembersTheReasonIsThatThereIsNone(t *testing.T) {
	f := CheckSpec(newMembers(t).st(), testSpec())
	require.Len(t, f.Blockers, 1)
	require.Contains(t, f.Blockers[0].Reason, "no member is recorded yet")
	require.Contains(t, f.Blockers[0].Reason, "quorate members")
	require.NotContains(t, f.Blockers[0].Reason, "no member matches")
	require.Empty(t, f.Warnings)
}

func TestAZoneWithoutNameServersIsSaid(t *testing.T) {
	w := &world{t: t, store: statestore.NewStore(), seq: map[string]uint64{}}
	w.do(statestore.Initialize{Installation: "test", CA: statestore.TrustedCA{Fingerprint: "f", PEM: "p"}})
	for _, r := range regions {
		m := member(r)
		m.DNS = statestore.Advertise{}
		w.do(statestore.UpsertMember{Member: m})
	}
	f := CheckSpec(w.st(), testSpec())
	require.Empty(t, f.Blockers, "it warns")
	require.Len(t, f.Warnings, 1)
	require.Contains(t, f.Warnings[0], "zones.gslb.example.com: it would have no NS record")
	require.Contains(t, f.Warnings[0], "dns.advertise")
	require.Empty(t, CheckSpec(w.st(), testSpec(func(sp *statestore.Spec) {
		sp.Zones["gslb.example.com."].NS = []string{"ns1.example.net."}
	})).Warnings)

	m := member(regions[0])
	m.DNS = statestore.Advertise{IPv4: addrs("192.0.2.53")}
	w.do(statestore.UpsertMember{Member: m})
	require.Empty(t, CheckSpec(w.st(), testSpec()).Warnings, "one that answers is enough")
}
