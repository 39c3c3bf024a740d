package statestore

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestANewStatefulServiceStartsOnItsPreferredSide(t *testing.T) {
	r := stateful(t, func(sp *Spec) { sp.Services["db"].Policy.Order = []string{"us", "eu"} })
	o := r.own()
	require.Equal(t, "eu", o.Active, "the order is that of destinations")
	require.Equal(t, uint64(1), o.Epoch)
	require.Equal(t, uint64(1), o.Generation)
	require.Equal(t, uint64(5), o.Index)
	require.Equal(t, map[string]uint64{"db": 1}, r.st().Epochs)
	require.Nil(t, r.st().Ownership("web"))
	require.Equal(t, []string{"us"}, r.st().Destinations("db"))
	require.Nil(t, r.st().Destinations("web"))
	require.False(t, r.st().Deadlines())
}

func TestACutoverFromProposalToDone(t *testing.T) {
	r := stateful(t)
	r.dbSide("eu", health.Down)
	require.True(t, r.st().Deadlines(), "automation may have to propose")
	r.must(r.proposal(Emergency, "us", Signer{}))
	co := r.last()
	require.Equal(t, Cutover{
		ID: "CUT-1", Service: "db", Kind: Emergency, Source: "eu", Destination: "us", Epoch: 1, Generation: 1,
		Phase: Proposed, Version: co.Version, Proposer: Automation, Person: Automation, Reason: "eu burns",
		At: r.st().Now, Expires: r.st().Now.Add(30 * time.Minute), Evidence: r.evidence(Emergency, "us"), Digest: co.Evidence.Digest(),
		Steps: []Step{{Phase: Proposed, At: r.st().Now, Wall: co.Steps[0].Wall, By: Automation, Index: r.index, Text: "eu burns"}},
	}, *co)
	require.Regexp(t, `^[0-9a-f]{4}(-[0-9a-f]{4}){3}$`, co.Digest)
	require.Equal(t, "CUT-1", r.own().Open)
	require.Same(t, co, r.st().OpenCutover("db"))
	require.Equal(t, r.index, r.st().TableIndex, "the TTL is another while a cutover is open")
	require.Equal(t, "cutover.proposed", r.lastEvent().Type)
	require.Equal(t, "services/db", r.lastEvent().Subject)

	r.must(r.sign("ann", waived()...))
	require.Equal(t, "cutover.signed", r.lastEvent().Type)
	require.Equal(t, Proposed, r.last().Phase)
	require.Equal(t, []string{"ann"}, r.st().Count(r.last()).People)
	r.must(r.sign("bob"))
	require.Equal(t, "cutover.approved", r.lastEvent().Type)
	require.Equal(t, Approved, r.last().Phase)
	require.False(t, r.st().Ownership("db").Moving())

	r.must(r.begin())
	require.Equal(t, "cutover.begun", r.lastEvent().Type)
	require.Equal(t, Fencing, r.last().Phase)
	require.Equal(t, uint64(2), r.last().Next)
	require.Equal(t, uint64(2), r.own().Next)
	require.True(t, r.st().Ownership("db").Moving())
	require.Equal(t, uint64(1), r.own().Epoch, "until it is published")
	require.Equal(t, uint64(2), r.st().Epochs["db"])
	require.Equal(t, r.index, r.st().TableIndex)
	require.Equal(t, []string{"ap-1", "eu-1", "us-1"}, r.st().Waiting(r.last(), nil))

	r.must(r.publish())
	require.Equal(t, "cutover.published", r.lastEvent().Type)
	co = r.last()
	require.Equal(t, Done, co.Phase)
	require.Equal(t, r.st().Now, co.Decided)
	require.Equal(t, r.st().Now.Add(30*time.Second), co.Clears, "the longest TTL that was given out")
	require.Equal(t, Ownership{Active: "us", Epoch: 2, Generation: 1, Since: r.st().Now, Index: r.index, Cutover: "CUT-1"}, r.own())
	require.Equal(t, pool("us"), r.st().Services["db"].Rotation.V4)
	require.Equal(t, co.Clears, r.st().Services["db"].Rotation.Clears)
	require.Nil(t, r.st().OpenCutover("db"))
	require.True(t, r.st().Deadlines(), "the cool-down runs in log time")
	var phases []CutoverPhase
	for _, s := range co.Steps {
		phases = append(phases, s.Phase)
	}
	require.Equal(t, []CutoverPhase{Proposed, Approved, Fencing, Done}, phases)
	require.NoError(t, r.st().VerifyAudit())
	require.Empty(t, r.st().Losses, "a stateful move is no loss of automation")
}

func TestAFailbackIsACutover(t *testing.T) {
	r := moved(t)
	r.dbSide("eu", health.Up)
	r.must(r.proposal(Back, "eu", as("dan")))
	require.Equal(t, NotConfigured, r.last().Evidence.Class(GateResync))
	r.refuses(r.sign("ann", waived()...), ErrBlocked, "resync_confirmed is not_configured")
	r.must(r.sign("ann", waived(GateResync)...), r.sign("bob"))
	r.must(r.begin())
	r.must(r.publish())
	require.Equal(t, "eu", r.own().Active)
	require.Equal(t, uint64(3), r.own().Epoch)
	require.Equal(t, "CUT-2", r.own().Cutover)
}

func TestAbortGivesTheSourceANewEpoch(t *testing.T) {
	r := fencing(t)
	r.must(AbortCutover{ID: "CUT-1", Reason: "eu is back", Signer: as("ann")})
	require.Equal(t, Aborted, r.last().Phase)
	require.Equal(t, Ownership{Active: "eu", Epoch: 3, Generation: 1, Since: r.st().Now, Index: r.index, Cutover: "CUT-1"}, r.own())
	require.Equal(t, r.index, r.st().TableIndex)
	require.Equal(t, "cutover.aborted", r.lastEvent().Type)
	require.Equal(t, pool("eu"), r.st().Services["db"].Rotation.V4)
}

func TestRejectAndRemind(t *testing.T) {
	r := proposed(t)
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 10 * time.Minute}))
	r.must(RemindCutover{ID: "CUT-1", Number: 1})
	require.Equal(t, 1, r.last().Reminded)
	require.Equal(t, "cutover.expiring", r.lastEvent().Type)
	require.Contains(t, r.lastEvent().Text, "0 of 2 signed; expires in 19m59s")
	r.refuses(RemindCutover{ID: "CUT-1", Number: 1}, ErrStale, "is not the next one")
	r.must(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")})
	require.Equal(t, Rejected, r.last().Phase)
	require.Empty(t, r.own().Open)
	require.Equal(t, uint64(1), r.own().Epoch)
	require.Equal(t, map[string]uint64{"db": 1}, r.st().Epochs, "nothing was reserved")
	require.Equal(t, "cutover.rejected", r.lastEvent().Type)
}

func TestWithdrawnOnceItsCauseIsGone(t *testing.T) {
	closes := func(r *rig) error {
		return r.do(CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Withdrawn, Reason: "gone"})
	}
	t.Run("the source is up again", func(t *testing.T) {
		r := proposed(t)
		r.dbSide("eu", health.Up)
		require.NoError(t, closes(r))
		require.Equal(t, Withdrawn, r.last().Phase)
	})
	t.Run("the preferred side is another", func(t *testing.T) {
		r := moved(t)
		r.dbSide("eu", health.Up)
		r.must(r.proposal(Back, "eu", as("dan")))
		r.must(ApplySpec{Base: 1, Spec: dbEdited(func(sp *Spec) { sp.Services["db"].Stateful.Preferred = "us" })})
		require.NoError(t, r.do(CloseCutover{ID: "CUT-2", Version: r.last().Version, As: Withdrawn, Reason: "gone"}))
	})
	t.Run("automation's, of a source that was contested and is settled", func(t *testing.T) {
		r := stateful(t)
		r.must(ObserverSilent{Observer: "ap-1"})
		r.cast("us-1", health.Down, db("eu"))
		require.Equal(t, health.Contested, r.verdict(db("eu")).Mark)
		r.must(r.proposal(Emergency, "us", Signer{}))
		require.ErrorIs(t, closes(r), ErrStale)
		r.cast("us-1", health.Up, db("eu"))
		require.NoError(t, closes(r))
	})
	t.Run("a person's, of a source that was up all along, stays", func(t *testing.T) {
		r := stateful(t)
		r.must(r.proposal(Emergency, "us", as("dan")))
		require.ErrorIs(t, closes(r), ErrStale)
	})
}

func TestWaiversAreCountedByClass(t *testing.T) {
	t.Run("a gate that is configured needs two people", func(t *testing.T) {
		r := stateful(t)
		r.must(ObserverSilent{Observer: "ap-1"})
		r.must(r.proposal(Planned, "us", as("dan")))
		require.Equal(t, []string{"ap-1"}, r.last().Evidence.Unacknowledged)
		r.refuses(r.sign("ann", waived()...), ErrBlocked, "nodes_acknowledged is blocked")
		r.must(r.sign("ann", waived(GateNodesAcknowledged)...))
		r.refuses(r.sign("bob"), ErrBlocked, "nodes_acknowledged is blocked; each")
		r.must(r.sign("bob", Waiver{Gate: GateNodesAcknowledged, Nodes: []string{"ap-1"}}))
		r.must(r.begin())
		require.Equal(t, []string{"eu-1", "us-1"}, r.st().Waiting(r.last(), nil), "ap-1 is named in what they signed")
		c := r.publish()
		c.Acknowledged = []string{"eu-1", "us-1"}
		r.must(c)
		var d CutoverDetail
		require.NoError(t, json.Unmarshal(r.lastEvent().Detail, &d))
		require.Equal(t, []string{"ap-1"}, d.Named)
	})
	t.Run("enough people and a waiver short goes on waiting", func(t *testing.T) {
		r := stateful(t, func(sp *Spec) { sp.Services["db"].Stateful.Approval.Required = 1 })
		r.must(FreezeService{Service: "db", Reason: "audit"})
		r.must(r.proposal(Planned, "us", as("dan")))
		r.must(r.sign("ann", waived(GateNotFrozen)...))
		require.Equal(t, Proposed, r.last().Phase)
		require.Contains(t, r.lastEvent().Text, "not_frozen need more people to waive")
		r.must(r.sign("bob", Waiver{Gate: GateNotFrozen}))
		require.Equal(t, Approved, r.last().Phase)
	})
	t.Run("a source that is not down needs two break-glass signatures", func(t *testing.T) {
		r := stateful(t)
		r.must(r.proposal(Emergency, "us", as("dan")))
		r.refuses(r.sign("ann", waived(GateSourceDown)...), ErrForbidden, "waived by 2 break-glass signatures only")
		r.must(r.sign("gil", waived(GateSourceDown)...))
		require.True(t, r.last().Signatures[0].BreakGlass)
		r.refuses(r.sign("bob"), ErrBlocked, "source_down_by_quorum is blocked")
		r.must(r.sign("hal", Waiver{Gate: GateSourceDown}))
		require.Equal(t, Approved, r.last().Phase)
	})
	t.Run("the local socket signs as break-glass", func(t *testing.T) {
		r := proposed(t)
		c := r.sign("root", waived()...)
		c.Signer = Signer{User: "root", Via: ViaSocket}
		r.must(c)
		require.True(t, r.last().Signatures[0].BreakGlass)
		require.Contains(t, string(r.lastEvent().Detail), `"break_glass":true`)
	})
	t.Run("whoever may approve and not waive signs what is clean or waived", func(t *testing.T) {
		r := proposed(t, func(sp *Spec) {
			sp.Access.Roles["signer"] = &Role{Tokens: []string{"t-eve"}, Can: []Capability{CanApprove}, Services: []string{"db"}}
			sp.Services["db"].Stateful.Approval.From = []string{"approver", "signer"}
		})
		r.refuses(r.sign("eve", waived()...), ErrForbidden, "eve may not waive")
		r.must(r.sign("ann", waived()...), r.sign("eve"))
		require.Equal(t, Approved, r.last().Phase)
	})
}

func TestLateWaivers(t *testing.T) {
	nodes := func(names ...string) Waiver { return Waiver{Gate: GateNodesAcknowledged, Nodes: names} }
	r := fencing(t)
	c := r.publish()
	c.Acknowledged = []string{"us-1"}
	publish := func() PublishCutover { c.Version = r.last().Version; return c }
	r.refuses(publish(), ErrBlocked, "waits for ap-1, eu-1 to acknowledge")
	r.must(r.sign("ann", nodes("eu-1")))
	require.Equal(t, "cutover.waived", r.lastEvent().Type)
	r.refuses(r.sign("ann", nodes("eu-1")), ErrSigned, "has waived that already")
	r.must(r.sign("ann", nodes("eu-1", "ap-1"))) // ap-1 is new.
	r.refuses(publish(), ErrBlocked, "waits for ap-1, eu-1 to acknowledge")
	r.must(r.sign("cyd", nodes("ap-1", "eu-1")))
	require.Empty(t, r.st().Waiting(r.last(), []string{"us-1"}))
	// A destination that is worse than what people signed pauses it.
	r.dbSide("us", health.Down)
	r.refuses(publish(), ErrBlocked, "us is down now and was up when people signed")
	r.must(r.sign("ann", Waiver{Gate: GateDestination}))
	r.refuses(publish(), ErrBlocked, "us is down now")
	r.must(r.sign("bob", Waiver{Gate: GateDestination}))
	r.must(publish())
	require.Equal(t, "us", r.own().Active)
	require.Len(t, r.last().Signatures, 2)
	require.Len(t, r.last().Waived, 5)

	// Draining it is worse too; one that comes back is not.
	r = fencing(t)
	r.must(DrainCluster{Cluster: "us", Services: []string{"db"}, Reason: "x"})
	r.refuses(r.publish(), ErrBlocked, "or is drained")
	r.must(UndrainCluster{Cluster: "us"}, r.publish())

	// A member that joins meanwhile has to acknowledge too.
	r = fencing(t)
	r.must(UpsertMember{member("sa")})
	r.refuses(r.publish(), ErrBlocked, "waits for sa-1 to acknowledge")
}

// Whoever may remove members could else decide alone what takes two people.
func TestG4AMemberIsNotRemovedFromAMoveThatWaitsForIt(t *testing.T) {
	r := fencing(t)
	r.refuses(RemoveMember{Name: "ap-1"}, ErrBlocked, "counts on its word; waive nodes_acknowledged=ap-1 there or abort it first")
	nodes := Waiver{Gate: GateNodesAcknowledged, Nodes: []string{"ap-1"}}
	r.must(r.sign("ann", nodes))
	r.refuses(RemoveMember{Name: "ap-1"}, ErrBlocked, "counts on its word")
	r.must(r.sign("cyd", nodes), RemoveMember{Name: "ap-1"})
	r.must(r.publish())

	r = fencing(t)
	r.must(AbortCutover{ID: r.last().ID, Reason: "x", Signer: as("ann")}, RemoveMember{Name: "ap-1"})
}

func TestADrainDoesNotMoveAStatefulService(t *testing.T) {
	r := stateful(t)
	r.must(DrainCluster{Cluster: "eu", Reason: "x", Rotations: []RotationChange{change("dr", "us")}})
	require.Equal(t, pool("eu"), r.st().Services["db"].Rotation.V4)
	r = stateful(t)
	r.must(DrainCluster{Cluster: "us", Reason: "x", Rotations: []RotationChange{change("dr", "eu")}})
	ev := r.evidence(Planned, "us")
	require.Equal(t, Blocked, ev.Class(GateDestination))
	ev.Gates[0].Class = Clean
	c := r.proposal(Planned, "us", as("dan"))
	c.Evidence = ev
	r.refuses(c, ErrInvalid, "destination_healthy is clean, but us is drained")
}

// A stateful rotation names every endpoint of the active cluster that is up, or
// all of them when none is.
func TestAStatefulRotationFollowsTheActiveEndpoints(t *testing.T) {
	second := netip.MustParseAddr("192.0.2.11")
	both := Pool{Shares: []Share{{Cluster: "eu", Weight: 1, Endpoints: []netip.Addr{eu4, second}}}}
	only := func(a netip.Addr) Pool {
		return Pool{Shares: []Share{{Cluster: "eu", Weight: 1, Endpoints: []netip.Addr{a}}}}
	}
	r := newRig(t)
	sp := dbEdited(func(sp *Spec) { sp.Clusters["eu"].IPv4 = append(sp.Clusters["eu"].IPv4, second) })
	w := change("dr", "eu", "us")
	r.must(Initialize{Installation: "demo"}, UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")})
	r.refuses(ApplySpec{Spec: sp, Rotations: []RotationChange{w, {Service: "db", V4: only(eu4)}}}, ErrStale, "which should be [192.0.2.10 192.0.2.11]")
	r.must(ApplySpec{Spec: sp, Rotations: []RotationChange{w, {Service: "db", V4: both}}})
	r.allVote(health.Up)
	t2 := health.Target{Service: "db", Cluster: "eu", Endpoint: second}
	rotate := func(p Pool) Rotate {
		return Rotate{RotationChange: RotationChange{Service: "db", V4: p}, Basis: r.st().Basis("db")}
	}
	r.refuses(rotate(only(eu4)), ErrStale, "which should be")
	r.cast("us-1", health.Down, t2)
	r.cast("ap-1", health.Down, t2)
	require.Equal(t, health.Up, r.st().SideOf("db", "eu"))
	r.must(rotate(only(eu4)))
	r.dbSide("eu", health.Down)
	require.Equal(t, health.Down, r.st().SideOf("db", "eu"))
	r.refuses(rotate(only(second)), ErrStale, "which should be")
	r.must(rotate(both))
	require.Empty(t, r.st().Losses)
}

func TestSideOf(t *testing.T) {
	r := stateful(t)
	require.Equal(t, health.Up, r.st().SideOf("db", "eu"))
	require.Equal(t, health.Unknown, r.st().SideOf("db", "dr"), "not probed for it")
	require.Equal(t, health.Unknown, r.st().SideOf("db", "mars"))
	require.Equal(t, health.Unknown, r.st().SideOf("no", "eu"))
	r.dbSide("eu", health.Down)
	require.Equal(t, health.Down, r.st().SideOf("db", "eu"))
	require.Equal(t, health.Up, r.st().SideOf("web", "eu"))
}

func TestUnacknowledged(t *testing.T) {
	r := stateful(t)
	require.Empty(t, r.st().Unacknowledged())
	r.term++
	r.must(Tick{})
	require.Empty(t, r.st().Unacknowledged(), "an election alone makes nobody unreachable")
	r.must(ObserverSilent{Observer: "us-1"}, UpsertMember{member("sa")})
	require.Equal(t, []string{"sa-1", "us-1"}, r.st().Unacknowledged(), "silent, and never heard")
	m := member("af")
	m.Observes = false
	r.must(UpsertMember{m})
	require.Equal(t, []string{"sa-1", "us-1"}, r.st().Unacknowledged(), "whoever does not observe is not listened for")
}

func TestDigestIsOfEverythingAndOfNothingElse(t *testing.T) {
	r := stateful(t)
	e := r.evidence(Planned, "us")
	same := e
	same.Unacknowledged = nil
	require.Equal(t, e.Digest(), same.Digest(), "no member is no member")
	b, err := json.Marshal(e)
	require.NoError(t, err)
	var back Evidence
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, e.Digest(), back.Digest())
	seen := map[string]string{e.Digest(): "as it is"}
	for name, edit := range map[string]func(*Evidence){
		"service":     func(e *Evidence) { e.Service = "x" },
		"kind":        func(e *Evidence) { e.Kind = Emergency },
		"source":      func(e *Evidence) { e.Source = "x" },
		"destination": func(e *Evidence) { e.Destination = "x" },
		"epoch":       func(e *Evidence) { e.Epoch++ },
		"generation":  func(e *Evidence) { e.Generation++ },
		"source side": func(e *Evidence) { e.SourceSide = health.Down },
		"other side":  func(e *Evidence) { e.DestinationSide = health.Down },
		"spec":        func(e *Evidence) { e.Spec += "x" },
		"a class":     func(e *Evidence) { e.Gates[1].Class = Clean },
		"a member":    func(e *Evidence) { e.Unacknowledged = []string{"eu-1"} },
	} {
		other := e.normal()
		edit(&other)
		require.NotEmpty(t, e.Differences(other), name)
		require.Empty(t, seen[other.Digest()], name)
		seen[other.Digest()] = name
	}
	// Votes and verdict numbers that end where they were are not evidence.
	r.dbSide("eu", health.Down)
	r.dbSide("eu", health.Up)
	require.Equal(t, e.Digest(), r.evidence(Planned, "us").Digest())
}

func TestCutoversAreOrderedByNumber(t *testing.T) {
	st := emptyState()
	for _, n := range []int{10, 2, 1, 100} {
		id := fmt.Sprintf("CUT-%d", n)
		st.Cutovers[id] = &Cutover{ID: id, Service: "db"}
	}
	require.Equal(t, []string{"CUT-1", "CUT-2", "CUT-10", "CUT-100"}, st.CutoverIDs())
	require.Equal(t, "CUT-100", st.LastCutover("db", func(*Cutover) bool { return true }).ID)
	require.Nil(t, st.LastCutover("no", func(*Cutover) bool { return true }))
	require.Nil(t, st.OpenCutover("no"))
}

func TestOldCutoversAreForgottenAndTheCurrentOneIsNot(t *testing.T) {
	r := moved(t)
	st := *r.st()
	st.Cutovers = map[string]*Cutover{"CUT-1": st.Cutovers["CUT-1"]}
	for n := 2; n <= maxEndedCutovers+5; n++ {
		id := fmt.Sprintf("CUT-%d", n)
		st.Cutovers[id] = &Cutover{ID: id, Service: "db", Phase: Rejected}
	}
	// CUT-1 made the current epoch; CUT-3, of another service, is still open.
	st.Cutovers["CUT-3"] = &Cutover{ID: "CUT-3", Service: "other", Phase: Proposed}
	st.CutoverSeq = maxEndedCutovers + 5
	r.store, r.term = NewStoreAt(&st), 1
	old := r.st().Cutovers
	r.must(r.proposal(Planned, "eu", as("dan")))
	require.Len(t, r.st().Cutovers, len(old)+1)
	r.must(RejectCutover{ID: r.last().ID, Reason: "no", Signer: as("ann")})
	require.Len(t, r.st().Cutovers, maxEndedCutovers+2)
	require.NotNil(t, r.st().Cutovers["CUT-1"])
	require.NotNil(t, r.st().Cutovers["CUT-3"])
	require.Nil(t, r.st().Cutovers["CUT-6"])
	require.NotNil(t, r.st().Cutovers["CUT-7"])
	require.NotNil(t, old["CUT-2"], "older states keep theirs")
}
