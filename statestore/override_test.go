package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestAnOverrideAnswersWithItsClusterAtOnce(t *testing.T) {
	r := placed(t)
	table := r.st().TableIndex
	r.must(r.pin("web", "us", time.Hour))
	require.Equal(t, []string{"us"}, r.answers("web"))
	require.Equal(t, []string{"dr", "eu", "us"}, r.answers("near"), "another service is not pinned")
	require.Equal(t, []string{"eu"}, names(r.st().Services["web"].Rotation.V6), "us has no IPv6 address: a pin empties no answer")
	require.Greater(t, r.st().TableIndex, table)
	o := r.st().Services["web"].Override
	require.Equal(t, Override{"us", "ann", "it smells", r.st().Now, r.st().Now.Add(time.Hour), r.st().Versions}, *o)
	require.Empty(t, r.st().Losses, "a person's pin is no loss")
	e := r.lastEvent()
	require.Equal(t, "service.overridden", e.Type)
	require.Equal(t, "services/web", e.Subject)
	require.Equal(t, "web pinned to us: it smells", e.Text)
	require.Contains(t, string(e.Detail), `"cluster":"us","until":"`)
	require.Contains(t, string(e.Detail), `"left":["dr","eu"]`)

	r.must(r.unpin("web"))
	require.Nil(t, r.st().Services["web"].Override)
	require.Equal(t, []string{"dr", "eu", "us"}, r.answers("web"))
	e = r.lastEvent()
	require.Equal(t, "service.override_ended", e.Type)
	require.Equal(t, "web not pinned to us any more: all well", e.Text)
}

func TestAPinThatChangesNoRotationStillRenewsTheTable(t *testing.T) {
	r := placed(t)
	r.must(r.pin("web", "us", 0))
	before, number := r.st().Services["web"], r.st().Services["web"].Rotation.Number
	r.must(r.pin("web", "us", time.Hour))
	require.NotSame(t, before, r.st().Services["web"])
	require.Equal(t, number, r.st().Services["web"].Rotation.Number)
	require.Equal(t, r.index, r.st().TableIndex)
}

func TestAutomationMayNotUndoAPinThatCanBeKept(t *testing.T) {
	r := placed(t)
	r.must(r.pin("web", "us", 0))
	c := r.auto("web")
	c.V4 = wanted(r.st(), "near").V4
	r.refuses(c, ErrStale, "service web: rotation v4: must name us and nothing else, ann has pinned it there")
	c.V4 = Pool{AllDown: ServeLast, Shares: c.V4.Shares}
	r.refuses(c, ErrStale, "must name us and nothing else")

	r.refuses(DrainCluster{Cluster: "dr", Reason: "x", Rotations: []RotationChange{{Service: "web", V4: pool("eu", "us"), V6: c.V6}}},
		ErrStale, "must name us and nothing else")
}

func TestAPinYieldsToAVerdictAndComesBack(t *testing.T) {
	r := placed(t)
	r.must(r.pin("web", "us", 0))
	r.turn("web", "us", health.Down)
	r.must(r.auto("web"))
	require.Equal(t, []string{"dr", "eu"}, r.answers("web"))
	require.Equal(t, []Loss{{"us", r.st().Now}}, r.st().Losses)
	require.NotNil(t, r.st().Services["web"].Override, "it stays")

	r.turn("web", "us", health.Up)
	sp := placedSpec()
	sp.Safety.MinServingClusters = 2
	r.must(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{wanted(r.st(), "web")}})
	require.Equal(t, []string{"us"}, r.answers("web"), "neither floor nor budget counts what a pin leaves out")
	require.Len(t, r.st().Losses, 1)
}

func TestAPinComesBackByAutomationWhateverTheFloor(t *testing.T) {
	r := placed(t, func(sp *Spec) { sp.Safety.MinServingClusters = 2; sp.Safety.Changes.Causes = 1 })
	r.must(r.pin("web", "us", 0))
	r.turn("web", "us", health.Down)
	r.must(r.auto("web"))
	r.turn("web", "us", health.Up)
	r.must(r.auto("web"))
	require.Equal(t, []string{"us"}, r.answers("web"))
	require.Len(t, r.st().Losses, 1, "us alone was lost")
}

func TestADrainOfThePinnedClusterIsAllowedAndThePinYields(t *testing.T) {
	r := placed(t)
	r.must(r.pin("web", "us", 0))
	r.must(r.drainAll("us"))
	require.Equal(t, []string{"dr", "eu"}, r.answers("web"))
	require.Empty(t, r.st().pinned("web", ipv4))
	r.must(UndrainCluster{Cluster: "us", Rotations: r.after(func(st *State) { st.setDrain("us", st.Clusters["us"], nil) })})
	require.Equal(t, []string{"us"}, r.answers("web"))
	require.Equal(t, "us", r.st().pinned("web", ipv4))
}

func TestAnOverrideEndsByLogTime(t *testing.T) {
	r := placed(t)
	require.False(t, r.st().Deadlines())
	r.must(r.pin("web", "us", time.Hour))
	require.True(t, r.st().Deadlines(), "ticks move log time on")
	clear := r.unpin("web")
	clear.Expired, clear.Reason = true, ""
	require.ErrorIs(t, r.doAs("automation", clear), ErrStale)
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: time.Hour}))
	require.NoError(t, r.doAs("automation", clear))
	require.Equal(t, "web not pinned to us any more: its end has come", r.lastEvent().Text)
	require.False(t, r.st().Deadlines())

	r.must(r.pin("web", "us", 0))
	require.False(t, r.st().Deadlines(), "one without an end waits for nothing")
	r.refuses(clear, ErrStale, "its override has not ended yet")
}

func TestOverrideRefusals(t *testing.T) {
	tests := []struct {
		name   string
		before func(*rig)
		cmd    func(*rig) Command
		want   *Refusal
		text   string
	}{
		{"unknown service", nil, func(*rig) Command { return OverrideService{Service: "no", Cluster: "us", Reason: "x"} }, ErrNotFound, "service no: not found"},
		{"stateful", nil, func(*rig) Command { return OverrideService{Service: "db", Cluster: "us", Reason: "x"} }, ErrStateful, "is stateful and cannot be pinned; move it: quorate cutover propose db"},
		{"no reason", nil, func(r *rig) Command { c := r.pin("web", "us", 0); c.Reason = ""; return c }, ErrInvalid, "an override must have a reason"},
		{"a negative time", nil, func(r *rig) Command { c := r.pin("web", "us", -1); return c }, ErrInvalid, "must not last -1ns"},
		{"unknown cluster", nil, func(*rig) Command { return OverrideService{Service: "web", Cluster: "mars", Reason: "x"} }, ErrNotFound, "cluster mars: not found"},
		{"no candidate", func(r *rig) {
			sp := placedEdited(func(sp *Spec) { sp.Services["web"].Clusters.Exclude = []string{"dr"} })
			r.must(ApplySpec{Base: 1, Spec: sp, Rotations: r.after(func(st *State) { respecified(st, sp) })})
		}, func(r *rig) Command { return OverrideService{Service: "web", Cluster: "dr", Reason: "x"} }, ErrInvalid, "service web: dr is no candidate"},
		{"drained", func(r *rig) { r.must(r.drainAll("us")) }, func(r *rig) Command { return r.pin("web", "us", 0) }, ErrStale, "us is drained; undrain it first: quorate undrain us"},
		{"down", func(r *rig) { r.turn("web", "us", health.Down) }, func(r *rig) Command { return r.pin("web", "us", 0) }, ErrStale, "us is down; it can be pinned to what is up only"},
		{"never judged", func(r *rig) { r.must(r.resolve(lb[1])) }, func(r *rig) Command { return r.pin("web", "dr", 0) }, ErrStale, "dr is unknown"},
		{"without the rotation", nil, func(*rig) Command { return OverrideService{Service: "web", Cluster: "us", Reason: "x"} }, ErrStale, "must name us and nothing else, ann has pinned it there; plan the override again"},
		{"with another rotation", nil, func(r *rig) Command {
			c := r.pin("web", "us", 0)
			c.Rotations[0].V4 = pool("eu", "us")
			return c
		}, ErrStale, "must name us and nothing else"},
		{"with another service's rotation", nil, func(r *rig) Command {
			c := r.pin("web", "us", 0)
			c.Rotations = append(c.Rotations, wanted(r.st(), "near"))
			return c
		}, ErrInvalid, "service web: must not carry a rotation of near"},
		{"cleared: unknown service", nil, func(*rig) Command { return ClearOverride{Service: "no"} }, ErrNotFound, "service no: not found"},
		{"cleared: not pinned", nil, func(*rig) Command { return ClearOverride{Service: "web"} }, ErrNotFound, "service web: is not pinned"},
		{"cleared: with another service's rotation", func(r *rig) { r.must(r.pin("web", "us", 0)) }, func(r *rig) Command {
			return ClearOverride{Service: "web", Rotations: []RotationChange{wanted(r.st(), "near")}}
		}, ErrInvalid, "must not carry a rotation of near"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := placed(t)
			if tt.before != nil {
				tt.before(r)
			}
			r.refuses(tt.cmd(r), tt.want, tt.text)
		})
	}
}

func TestARotateIsOfTheOverrideItWasPlannedOn(t *testing.T) {
	r := placed(t)
	planned := r.auto("web")
	r.must(r.pin("web", "us", 0))
	planned.Basis.Rotation = r.st().Services["web"].Rotation.Number
	r.refuses(planned, ErrStale, "what this rests on has changed: an override")
	planned = r.auto("web")
	r.must(r.unpin("web"))
	planned.Basis.Rotation = r.st().Services["web"].Rotation.Number
	r.refuses(planned, ErrStale, "an override")
}

func TestAnOverrideEndsWithWhatItIsOf(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*Spec)
		stays bool
	}{
		"another TTL keeps it":           {func(sp *Spec) { sp.Services["web"].TTL.Normal *= 2 }, true},
		"another candidate may go":       {func(sp *Spec) { sp.Services["web"].Clusters.Exclude = []string{"dr"} }, true},
		"its cluster is no candidate":    {func(sp *Spec) { sp.Services["web"].Clusters.Exclude = []string{"us"} }, false},
		"the service becomes stateful":   {func(sp *Spec) { sp.Services["web"].Stateful = sp.Services["db"].Stateful }, false},
		"the service goes and comes not": {func(sp *Spec) { delete(sp.Services, "web") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := placed(t)
			r.must(r.pin("web", "us", time.Hour))
			sp := placedEdited(tt.edit)
			r.must(ApplySpec{Base: 1, Spec: sp, Rotations: r.after(func(st *State) { respecified(st, sp) })})
			s := r.st().Services["web"]
			require.Equal(t, tt.stays, s != nil && s.Override != nil)
			require.Equal(t, tt.stays, r.st().Deadlines())
			if tt.stays {
				require.Equal(t, []string{"us"}, r.answers("web"))
			}
		})
	}
}
