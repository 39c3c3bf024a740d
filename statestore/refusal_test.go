package statestore

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// edited returns testSpec after edit.
func edited(edit func(*Spec)) *Spec {
	sp := testSpec()
	edit(sp)
	return sp
}

// rotateEdited returns a good Rotate after edit.
func (r *rig) rotateEdited(edit func(*Rotate)) Rotate {
	c := r.rotate("dr", "us")
	edit(&c)
	return c
}

// Each command, and what the state forbids it. A refusal changes nothing but
// position and time.
func TestRefusals(t *testing.T) {
	apply := func(edit func(*Spec)) func(*rig) Command {
		return func(*rig) Command {
			return ApplySpec{Base: 1, Spec: edited(edit), Rotations: []RotationChange{change("dr", "eu", "us")}}
		}
	}
	is := func(c Command) func(*rig) Command { return func(*rig) Command { return c } }
	tests := []struct {
		name string
		cmd  func(*rig) Command
		want *Refusal
		text string
	}{
		{"initialize twice", is(Initialize{Installation: "other"}), ErrExists, "installation demo: is initialized already"},

		{"spec: none", is(ApplySpec{Base: 1}), ErrInvalid, "must not be missing"},
		{"spec: another base", is(ApplySpec{Base: 0, Spec: testSpec()}), ErrStalePlan, "planned on revision 0, the current one is 1"},
		{"spec: a newer schema", apply(func(s *Spec) { s.Version = 2 }), ErrFeatureLevel, "version 2 is not known"},
		{"spec: duplicate id", apply(func(s *Spec) { s.Clusters["us"].ID = 1 }), ErrInvalid, "clusters.us.id: must be unique, is 1 as that of clusters.eu"},
		{"spec: id out of range", apply(func(s *Spec) { s.Clusters["us"].ID = 256 }), ErrInvalid, "must be 1 to 255, is 256"},
		{"spec: overlapping networks", apply(func(s *Spec) {
			s.Clusters["eu"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			s.Clusters["us"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
		}), ErrInvalid, "clusters.us.cidrs: 10.9.0.0/16 overlaps 10.0.0.0/8 of clusters.eu"},
		{"spec: unknown cluster", apply(func(s *Spec) { s.Services["web"].Clusters.Only = []string{"eu", "mars"} }), ErrInvalid, `no cluster is named "mars"`},
		{"spec: unknown cluster in order", apply(func(s *Spec) { s.Services["web"].Policy.Order = []string{"mars"} }), ErrInvalid, `services.web.policy.order: no cluster is named "mars"`},
		{"spec: no candidates", apply(func(s *Spec) { s.Services["web"].Clusters.Match = "tier=moon" }), ErrInvalid, "must pick at least one cluster"},
		{"spec: bad selector", apply(func(s *Spec) { s.Services["web"].Quorum.Observers = "a in" }), ErrInvalid, "services.web.quorum.observers: label selector"},
		{"spec: unknown zone", apply(func(s *Spec) { s.Services["web"].Zone = "x." }), ErrInvalid, `services.web.zone: must be a zone of the spec, is "x."`},
		{"spec: a name twice", apply(func(s *Spec) { w := *s.Services["web"]; s.Services["www"] = &w }), ErrInvalid, "web in gslb.test. is a name of services.web too"},
		{"spec: a name that is none", apply(func(s *Spec) { s.Services["We/b"] = s.Services["web"] }), ErrInvalid, "must be a DNS label"},
		{"spec: empty entries", apply(func(s *Spec) { s.Services["nil"] = nil; s.Clusters["nil"] = nil; s.Zones["nil."] = nil }), ErrInvalid, "clusters.nil: must not be empty; services.nil: must not be empty; zones.nil.: must not be empty"},
		{"spec: wrong family", apply(func(s *Spec) { s.Clusters["eu"].IPv4 = []netip.Addr{eu6} }), ErrInvalid, "must be IPv4 addresses"},
		{"spec: unknown policy", apply(func(s *Spec) { s.Services["web"].Policy.Type = "nearest" }), ErrInvalid, `must be failover, weighted, geo or latency, is "nearest"`},
		{"spec: several at once", apply(func(s *Spec) { s.Clusters["us"].ID = 1; s.Services["web"].Zone = "x." }), ErrInvalid, "clusters.us.id: must be unique, is 1 as that of clusters.eu; services.web.zone:"},
		{"spec: a new service without a rotation", is(ApplySpec{Base: 1, Spec: edited(func(s *Spec) {
			w := *s.Services["web"]
			w.Names = []string{"api"}
			s.Services["api"] = &w
		})}), ErrEmptyRotation, "service api: rotation v4: must not be empty"},
		{"spec: a rotation that no longer stands", is(ApplySpec{Base: 1, Spec: edited(func(s *Spec) { s.Clusters["eu"].IPv4 = []netip.Addr{netip.MustParseAddr("192.0.2.99")} })}), ErrEmptyRotation, "192.0.2.10 is no endpoint of eu"},
		{"spec: rotation of an unknown service", is(ApplySpec{Base: 1, Spec: testSpec(), Rotations: []RotationChange{{Service: "no"}}}), ErrNotFound, "service no: not found"},
		{"spec: removal below the floor", is(ApplySpec{
			Base: 1, Spec: edited(func(s *Spec) { delete(s.Clusters, "eu"); s.Safety.MinServingClusters = 3 }),
			Rotations: []RotationChange{change("dr", "us")},
		}), ErrFloor, "web would lose eu and be served by 2, the floor is 3 (first: quorate drain eu)"},

		{"votes: no batch", is(CastVotes{}), ErrStale, "no batch"},
		{"silent: unknown observer", is(ObserverSilent{Observer: "x-1"}), ErrNotFound, "observer x-1: not found"},

		{"rotate: unknown service", is(Rotate{RotationChange: RotationChange{Service: "no"}}), ErrNotFound, "service no: not found"},
		{"rotate: another spec", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.Basis.Spec = "x" }) }, ErrStale, "the service's effective spec"},
		{"rotate: another rotation", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.Basis.Rotation++ }) }, ErrStale, "the rotation, which is number 1 and not 2"},
		{"rotate: another verdict", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.Basis.Verdicts[web("eu")]++ }) }, ErrStale, "a verdict"},
		{"rotate: a verdict not read", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { delete(c.Basis.Verdicts, web("eu")) }) }, ErrStale, "a verdict"},
		{"rotate: another drain", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.Basis.Drains["eu"] = 99 }) }, ErrStale, "a drain"},
		{"rotate: another freeze", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.Basis.Freeze = 99 }) }, ErrStale, "a freeze"},
		{"rotate: no candidate", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.V4.Shares[0].Cluster = "mars" }) }, ErrInvalid, "mars is no candidate"},
		{"rotate: a cluster twice", func(r *rig) Command { return r.rotate("us", "us") }, ErrInvalid, "us is there twice"},
		{"rotate: a foreign endpoint", func(r *rig) Command {
			return r.rotateEdited(func(c *Rotate) { c.V4.Shares[0].Endpoints = []netip.Addr{us4} })
		}, ErrInvalid, "192.0.2.20 is no endpoint of dr"},
		{"rotate: a share without endpoint", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.V4.Shares[0].Endpoints = nil }) }, ErrEmptyRotation, "dr has no endpoint"},
		{"rotate: negative weight", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.V4.Shares[0].Weight = -1 }) }, ErrInvalid, "dr has the weight -1"},
		{"rotate: no weight at all", func(r *rig) Command {
			return r.rotateEdited(func(c *Rotate) { c.V4.Shares[0].Weight, c.V4.Shares[1].Weight = 0, 0 })
		}, ErrInvalid, "no cluster has a weight"},
		{"rotate: another all-down mode", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.V4.AllDown = NoData }) }, ErrInvalid, "says nodata, the service's on_all_down is serve_last"},
		{"rotate: all down while one is up", func(r *rig) Command { return r.rotateEdited(func(c *Rotate) { c.V4.AllDown = ServeLast }) }, ErrStale, "says serve_last, but dr is up"},
		{"rotate: two causes at once", func(r *rig) Command { return r.rotate("us") }, ErrBudget, "taking out dr, eu would be 2 clusters lost within 10m0s"},

		{"drain: unknown cluster", is(DrainCluster{Cluster: "mars", Reason: "x"}), ErrNotFound, "cluster mars: not found"},
		{"drain: unknown service", is(DrainCluster{Cluster: "eu", Services: []string{"no"}, Reason: "x"}), ErrNotFound, "service no: not found"},
		{"drain: no reason", is(DrainCluster{Cluster: "eu"}), ErrInvalid, "must have a reason"},
		{"drain: a negative time", is(DrainCluster{Cluster: "eu", Reason: "x", For: -1}), ErrInvalid, "must not last -1ns"},
		{"drain: without the rotation", is(DrainCluster{Cluster: "eu", Reason: "x"}), ErrStale, "web would go on answering with it"},
		{"drain: with a rotation that keeps it", is(DrainCluster{Cluster: "eu", Reason: "x", Rotations: []RotationChange{change("eu", "us")}}), ErrStale, "eu is drained"},
		{"undrain: not drained", is(UndrainCluster{Cluster: "eu"}), ErrNotFound, "cluster eu: is not drained"},
		{"undrain: unknown cluster", is(UndrainCluster{Cluster: "mars"}), ErrNotFound, "cluster mars: not found"},
		{"freeze: unknown service", is(FreezeService{Service: "no", Reason: "x"}), ErrNotFound, "service no: not found"},
		{"freeze: no reason", is(FreezeService{Service: "web"}), ErrInvalid, "must have a reason"},
		{"thaw: not frozen", is(ThawService{Service: "web"}), ErrNotFound, "services/web: is not frozen"},

		{"member: a name that is none", is(UpsertMember{Member{Name: "a/b"}}), ErrInvalid, "must be a DNS label"},
		{"member: no raft id", is(UpsertMember{Member{Name: "sa-1", Region: "sa", Role: Voter}}), ErrInvalid, "must have a raft id"},
		{"member: no region", is(UpsertMember{Member{Name: "sa-1", Nonce: "n", Role: Voter}}), ErrInvalid, "must have a region"},
		{"member: no role", is(UpsertMember{Member{Name: "sa-1", Nonce: "n", Region: "sa"}}), ErrInvalid, `role must be voter or nonvoter, is ""`},
		{"member: another region", is(UpsertMember{Member{Name: "eu-1", Nonce: "n", Region: "us", Role: Voter, Supports: 1}}), ErrInvalid, "its region is eu and cannot change"},
		{"member: another raft id", is(UpsertMember{Member{Name: "eu-1", Nonce: "m", Region: "eu", Role: Voter, Supports: 1}}), ErrExists, "exists with another raft id"},
		{"member: too old a level", is(UpsertMember{Member{Name: "sa-1", Nonce: "n", Region: "sa", Role: Voter}}), ErrFeatureLevel, "supports feature level 0, the installation is at 1"},
		{"member: version skew", is(UpsertMember{Member{Name: "sa-1", Nonce: "n", Region: "sa", Role: Voter, Supports: 1, Version: "1.2.0"}}), ErrVersionSkew, "runs 1.2.0 and ap-1 runs 1.0.0"},
		{"member: unknown one removed", is(RemoveMember{Name: "x-1"}), ErrNotFound, "member x-1: not found"},

		{"token: incomplete", is(PutToken{ID: "t"}), ErrInvalid, "must have an id, a user and a hash"},
		{"token: unknown", is(RevokeToken{ID: "t"}), ErrNotFound, "token t: not found"},
		{"join token: incomplete", is(PutJoinToken{ID: "j", Role: Voter, Hash: [32]byte{1}}), ErrInvalid, "must have an id, a hash, an end"},
		{"join token: unknown", is(UseJoinToken{ID: "j", Member: member("sa")}), ErrNotFound, "join token j: unknown or used"},
		{"ca: incomplete", is(TrustCA{TrustedCA{Fingerprint: "bb"}}), ErrInvalid, "must have a fingerprint and a certificate"},
		{"ca: trusted already", is(TrustCA{TrustedCA{Fingerprint: "aa", PEM: "pem"}}), ErrExists, "is trusted already"},
		{"ca: unknown", is(RetireCA{Fingerprint: "bb"}), ErrNotFound, "CA bb: not found"},
		{"ca: the one that signs", is(RetireCA{Fingerprint: "aa"}), ErrInUse, "signs certificates now"},
		{"feature level: not higher", is(RaiseFeature{Level: 1}), ErrFeatureLevel, "is at 1 already"},
		{"feature level: not supported", is(RaiseFeature{Level: 2}), ErrFeatureLevel, "member ap-1 supports 1; upgrade it first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := running(t)
			before := *r.st()
			err := r.do(tt.cmd(r))
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
			want := before
			want.Index, want.Now = r.index, before.Now.Add(time.Second)
			require.Equal(t, want.Hash(), r.st().Hash(), "a refusal changes only position and time")
		})
	}
}

// Refusals that need something to have happened first.
func TestRefusalsOfASequence(t *testing.T) {
	tests := []struct {
		name   string
		before []Command
		actor  string
		cmd    Command
		want   *Refusal
		text   string
	}{
		{
			"a second drain past max_drained",
			[]Command{DrainCluster{Cluster: "eu", Reason: "x", Rotations: []RotationChange{change("dr", "us")}}},
			"ann",
			DrainCluster{Cluster: "us", Reason: "x", Rotations: []RotationChange{change("dr")}},
			ErrMaxDrained, "2 clusters would be drained, the limit is 1",
		},
		{
			"automation undrains early",
			[]Command{DrainCluster{Cluster: "eu", Reason: "x", For: time.Hour, Rotations: []RotationChange{change("dr", "us")}}},
			"automation",
			UndrainCluster{Cluster: "eu", Expired: true},
			ErrStale, "its drain has not ended yet",
		},
		{
			"automation undrains what has no end",
			[]Command{DrainCluster{Cluster: "eu", Reason: "x", Rotations: []RotationChange{change("dr", "us")}}},
			"automation",
			UndrainCluster{Cluster: "eu", Expired: true},
			ErrStale, "its drain has not ended yet",
		},
		{"automation thaws early", []Command{FreezeService{Reason: "x", For: time.Hour}}, "automation", ThawService{Expired: true}, ErrStale, "its freeze has not ended yet"},
		{"silent twice", []Command{ObserverSilent{Observer: "eu-1"}}, "automation", ObserverSilent{Observer: "eu-1"}, ErrStale, "is silent already"},
		{"a token twice", []Command{PutToken{ID: "t", User: "ann", Hash: [32]byte{1}}}, "ann", PutToken{ID: "t", User: "bob", Hash: [32]byte{1}}, ErrExists, "token t: exists"},
		{"a join token twice", []Command{PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Hour}}, "ann", PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Hour}, ErrExists, "join token j: exists"},
		{
			"a join token used twice",
			[]Command{PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Hour}, UseJoinToken{ID: "j", Member: member("sa")}},
			"node/x",
			UseJoinToken{ID: "j", Member: member("af")},
			ErrNotFound, "unknown or used",
		},
		{
			"a join token too late",
			[]Command{PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Second}},
			"node/x",
			UseJoinToken{ID: "j", Member: member("sa")},
			ErrExpired, "join token j: expired",
		},
		{
			"a nonvoter's token for a voter",
			[]Command{PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Nonvoter, For: time.Hour}},
			"node/x",
			UseJoinToken{ID: "j", Member: member("sa")},
			ErrForbidden, "is for a nonvoter",
		},
		{
			"a join under a name that is taken",
			[]Command{PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Hour}},
			"node/x",
			UseJoinToken{ID: "j", Member: member("eu")},
			ErrExists, "member eu-1: exists",
		},
		{"a node changes another", nil, "node/us-1", UpsertMember{member("eu")}, ErrForbidden, "node us-1 may only change itself"},
		{
			"a node promotes itself",
			[]Command{UpsertMember{Member{Name: "sa-1", Nonce: "n", Region: "sa", Role: Nonvoter, Supports: 1}}},
			"node/sa-1",
			UpsertMember{Member{Name: "sa-1", Nonce: "n", Region: "sa", Role: Voter, Supports: 1}},
			ErrForbidden, "cannot change its own role",
		},
		{"a CA that a member's certificate is of", []Command{
			UpsertMember{Member{Name: "sa-1", Nonce: "n", Region: "sa", Role: Voter, Supports: 1, CA: "aa"}}, TrustCA{TrustedCA{Fingerprint: "bb", PEM: "pem"}},
		}, "ann", RetireCA{Fingerprint: "aa"}, ErrInUse, "signed the certificate of member sa-1"},
		{"the last voter", []Command{RemoveMember{Name: "eu-1"}, RemoveMember{Name: "us-1"}}, "ann", RemoveMember{Name: "ap-1"}, ErrFloor, "is the last voter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := running(t)
			r.must(tt.before...)
			err := r.doAs(tt.actor, tt.cmd)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
		})
	}
}

func TestRefusalsCompareByCode(t *testing.T) {
	err := refuse(ErrStale, "service web: moved")
	require.ErrorIs(t, err, ErrStale)
	require.NotErrorIs(t, err, ErrFrozen)
	require.NotErrorIs(t, ErrUndecodable, ErrStale)
	require.EqualError(t, err, "service web: moved")
}
