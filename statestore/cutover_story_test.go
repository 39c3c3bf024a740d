package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// statefulStory is a rig after one of everything that a stateful service can go
// through.
func statefulStory(t testing.TB) *rig {
	r := stateful(t, func(sp *Spec) {
		sp.Notify = Notify{
			Receivers: map[string]*Receiver{"pager": {Webhook: &Webhook{URL: "https://pager.example.com/", Sign: "pager"}}},
			Routes:    []Route{{Types: []string{"cutover.*"}, Services: []string{"db"}, To: []string{"pager"}}},
		}
	})
	r.must(NoteDelivery{Receiver: "pager", Index: 4})

	// A planned one that nobody wants.
	r.must(r.proposal(Planned, "us", as("dan")))
	require.ErrorIs(t, r.do(r.sign("eve", waived()...)), ErrForbidden)
	r.must(RejectCutover{ID: "CUT-1", Reason: "not today", Signer: as("ann")})

	// An emergency whose source comes back.
	r.dbSide("eu", health.Down)
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.dbSide("eu", health.Up)
	r.must(CloseCutover{ID: "CUT-2", Version: r.last().Version, As: Withdrawn, Reason: "eu is up again"})

	// One that waits too long, with a reminder and a clock that jumped.
	r.dbSide("eu", health.Down)
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.must(r.sign("ann", waived()...))
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 11 * time.Minute, Rebased: true}))
	r.must(RemindCutover{ID: "CUT-3", Number: 1})
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: time.Hour}))
	r.must(CloseCutover{ID: "CUT-3", Version: r.last().Version, As: Expired, Reason: "its time is over"})

	// One that is begun and aborted.
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.approve()
	r.must(r.begin())
	r.must(AbortCutover{ID: "CUT-4", Reason: "eu answers again", Signer: as("gil")})

	// One that is done, with evidence that changes and members that do not answer.
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.must(r.sign("ann", waived()...))
	r.must(ObserverSilent{Observer: "eu-1"})
	r.must(r.revision())
	c := r.sign("root", waived(GateNodesAcknowledged)...)
	c.Signer = Signer{User: "root", Groups: []string{}, Via: ViaSocket, Source: eu6}
	r.must(c)
	r.must(r.sign("bob", Waiver{Gate: GateNodesAcknowledged}))
	r.must(r.begin())
	r.must(r.sign("ann", Waiver{Gate: GateNodesAcknowledged, Nodes: []string{"ap-1"}}))
	r.must(r.sign("bob", Waiver{Gate: GateNodesAcknowledged, Nodes: []string{"ap-1"}}))
	p := r.publish()
	p.Acknowledged = []string{"us-1"}
	r.must(p)

	// A recovery finds one open.
	r.dbSide("eu", health.Up)
	r.must(r.proposal(Back, "eu", as("dan")))
	r.term++
	r.must(BeginGeneration{Generation: 2, Member: member("eu"), CA: TrustedCA{Fingerprint: "bb", PEM: "pem2"}, Reason: "two of three hosts are lost"})
	r.must(ConfirmActive{Service: "db", Active: "us", Reason: "its disk has the last order", Signer: as("cyd"), Rotation: dbRotation(r.st(), "us")})

	// It goes, and comes back where it was, under an epoch of its own.
	without := dbEdited(func(sp *Spec) { delete(sp.Services, "db") })
	r.must(ApplySpec{Base: 1, Spec: without, Source: "two"})
	r.must(ApplySpec{Base: 2, Spec: dbSpec(), Source: "three", Rotations: []RotationChange{dbChange("us")}})
	require.Equal(t, Ownership{Active: "us", Epoch: 6, Generation: 2, Since: r.st().Now, Index: r.index}, r.own())
	return r
}

// G3: removing a stateful service and bringing it back is no way around people.
func TestG3AServiceThatComesBackGoesOnWhereItWas(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edit  func(*Spec)
		side  string
		known bool
	}{
		{"as it was", func(*Spec) {}, "us", true},
		{"with another preferred side", func(sp *Spec) { sp.Services["db"].Stateful.Preferred = "eu" }, "us", true},
		{"without its old side: nobody knows", func(sp *Spec) {
			sp.Services["db"].Clusters = Selector{Only: []string{"eu", "dr"}}
			sp.Services["db"].Policy.Order = []string{"eu", "dr"}
		}, "eu", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := moved(t)
			require.Equal(t, "us", r.own().Active)
			epoch := r.own().Epoch
			r.must(ApplySpec{Base: r.st().Revision, Spec: dbEdited(func(sp *Spec) { delete(sp.Services, "db") }), Source: "without"})
			r.must(ApplySpec{Base: r.st().Revision, Spec: dbEdited(func(*Spec) {}), Source: "other", Rotations: []RotationChange{dbChange("us")}}) // and once more
			r.must(ApplySpec{Base: r.st().Revision, Spec: dbEdited(func(sp *Spec) { delete(sp.Services, "db") }), Source: "without"})
			for _, side := range []string{"eu", "us"} {
				if side != tt.side {
					r.refuses(ApplySpec{Base: r.st().Revision, Spec: dbEdited(tt.edit), Source: "back", Rotations: []RotationChange{dbChange(side)}}, ErrStateful, "")
				}
			}
			r.must(ApplySpec{Base: r.st().Revision, Spec: dbEdited(tt.edit), Source: "back", Rotations: []RotationChange{dbChange(tt.side)}})
			require.Equal(t, tt.side, r.own().Active)
			require.Equal(t, !tt.known, r.own().Unconfirmed)
			require.Equal(t, epoch+2, r.own().Epoch)
			require.Empty(t, r.st().Sides)
		})
	}
}

func TestAbortBeforeItHasBegunUsesNoEpoch(t *testing.T) {
	r := approved(t)
	before := r.own()
	r.must(AbortCutover{ID: "CUT-1", Reason: "eu is back", Signer: as("cyd")})
	require.Equal(t, Aborted, r.last().Phase)
	before.Open = ""
	require.Equal(t, before, r.own())
	require.Equal(t, map[string]uint64{"db": 1}, r.st().Epochs)
	r.refuses(r.begin(), ErrDecided, "is aborted")
}

// Log time stands still on a quiet log, so the leader must tick while people wait
// for something that log time decides.
func TestDeadlinesOfAStatefulService(t *testing.T) {
	r := moved(t, func(sp *Spec) { sp.Services["db"].Stateful.Failback.HealthyFor = Duration(time.Minute) })
	require.True(t, r.st().Deadlines(), "the cool-down")
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 10 * time.Second}))
	require.False(t, r.st().Deadlines(), "nothing to wait for while the preferred side is down")
	r.dbSide("eu", health.Up)
	require.True(t, r.st().Deadlines(), "a failback needs it to be up for a while")
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: time.Minute}))
	require.False(t, r.st().Deadlines())
	r.must(r.proposal(Back, "eu", as("dan")))
	require.True(t, r.st().Deadlines(), "an open cutover expires")
	r.must(RejectCutover{ID: "CUT-2", Reason: "no", Signer: as("ann")})
	r.dbSide("us", health.Down)
	require.True(t, r.st().Deadlines(), "the active side is down")
}

// What one store appends to a cutover is not seen by another that began at the
// same state.
func TestTwoStoresFromOneStateShareNoStepOfACutover(t *testing.T) {
	base := fencing(t)
	require.Len(t, base.last().Steps, 3) // Room for a fourth in the same array.
	a, b := forked(t, base), forked(t, base)
	for name, r := range map[string]*rig{"bob": a, "cyd": b} {
		r.must(AbortCutover{ID: "CUT-1", Reason: "x", Signer: as(name)})
	}
	for name, r := range map[string]*rig{"bob": a, "cyd": b} {
		require.Equal(t, name, r.last().Steps[3].By)
	}
}

func TestAGenerationVoidsAndAsksAPerson(t *testing.T) {
	r := fencing(t)
	r.must(PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Hour})
	verdict := r.verdict(db("eu"))
	r.must(BeginGeneration{Generation: 5, Member: member("ap"), CA: TrustedCA{Fingerprint: "bb", PEM: "pem2"}, Reason: "lost"})
	st := r.st()
	require.Equal(t, uint64(5), st.Generation)
	require.Equal(t, []string{"ap-1"}, sortedKeys(st.Members))
	require.Empty(t, st.Observers)
	require.Empty(t, st.JoinTokens)
	require.Empty(t, st.target(db("eu")).Votes)
	require.Equal(t, verdict, r.verdict(db("eu")))
	require.Equal(t, []string{"aa", "bb"}, []string{st.Trust[0].Fingerprint, st.Trust[1].Fingerprint})
	require.Equal(t, r.index, st.TableIndex)
	require.Equal(t, Void, r.last().Phase)
	o := r.own()
	require.True(t, o.Unconfirmed)
	require.False(t, st.Ownership("db").Moving())
	require.Empty(t, o.Open)
	require.Equal(t, "eu", o.Active)
	require.Equal(t, "generation.begun", r.lastEvent().Type)
	require.Contains(t, r.lastEvent().Text, "generation 5 begun by ap-1; 1 cutover void, 1 service unconfirmed: lost")

	_, err := st.Facts("db", Planned, "us")
	require.ErrorIs(t, err, ErrUnconfirmed)
	r.refuses(ProposeCutover{Service: "db", To: "us", As: Planned, Reason: "x", Signer: as("dan")}, ErrUnconfirmed, "quorate thaw db --active CLUSTER")
	r.refuses(ThawService{Service: "db"}, ErrUnconfirmed, "quorate thaw db --active CLUSTER")
	confirm := func(edit func(*ConfirmActive)) ConfirmActive {
		c := ConfirmActive{Service: "db", Active: "us", Reason: "I looked at both", Signer: as("ann"), Rotation: dbChange("us")}
		edit(&c)
		return c
	}
	r.refuses(confirm(func(c *ConfirmActive) { c.Reason = "" }), ErrInvalid, "needs a reason")
	r.refuses(confirm(func(c *ConfirmActive) { c.Active = "dr" }), ErrInvalid, "is none of its clusters (eu, us)")
	r.refuses(confirm(func(c *ConfirmActive) { c.Signer = as("dan") }), ErrForbidden, "dan may not confirm")
	r.refuses(confirm(func(c *ConfirmActive) { c.Rotation = dbChange("eu") }), ErrStateful, "names eu, but us is active")
	r.refuses(confirm(func(c *ConfirmActive) { c.Rotation.Service = "web" }), ErrInvalid, `carries the rotation of "web"`)
	r.must(confirm(func(*ConfirmActive) {}))
	require.Equal(t, Ownership{Active: "us", Epoch: 3, Generation: 5, Since: r.st().Now, Index: r.index}, r.own())
	require.Equal(t, "service.confirmed", r.lastEvent().Type)
	r.refuses(confirm(func(*ConfirmActive) {}), ErrDecided, "is confirmed already")
}
