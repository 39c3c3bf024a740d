package statestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// made returns a signer whose token somebody else's token has made, and the command
// that makes it, as a node makes it.
func (r *rig) made(id, user string, by Signer) (Signer, PutToken) {
	return Signer{User: user, Token: id, Via: ViaToken}, PutToken{
		ID: id, User: user, Groups: []string{"approver"}, Hash: [32]byte{42, byte(len(r.st().Tokens))},
		Person: r.st().Person(by), Makers: r.st().Makers(by),
	}
}

// signAs is an approval of the newest cutover by that signer.
func (r *rig) signAs(s Signer, ws ...Waiver) ApproveCutover {
	c := r.sign("ann", ws...)
	c.Signer = s
	return c
}

func TestG3OneUserWithTokensOfTwoMintersIsOnePerson(t *testing.T) {
	r := stateful(t)
	byBob, cmd := r.made("t-1", "ann", as("bob"))
	r.must(cmd)
	byCyd, cmd := r.made("t-2", "ann", as("cyd"))
	r.must(cmd)
	r.dbSide("eu", health.Down)
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.must(r.signAs(byBob, waived()...))
	r.refuses(r.signAs(byCyd), ErrSigned, "ann, who counts as cyd, has signed already")
	r.refuses(r.sign("ann"), ErrSigned, "ann has signed already")
	r.refuses(r.sign("bob"), ErrSigned, "bob has signed already")
	require.Equal(t, Proposed, r.last().Phase)
	r.must(r.sign("cyd"))
	require.Equal(t, Approved, r.last().Phase)
	require.Equal(t, []string{"bob", "cyd"}, r.st().Count(r.last()).People)
}

func TestG3AChainOfTokensIsOnePersonWithEachWhoMadeIt(t *testing.T) {
	r := stateful(t)
	first, cmd := r.made("t-1", "ann", as("bob")) // bob makes one for ann,
	r.must(cmd)
	second, cmd := r.made("t-2", "kim", first) // who makes one under another name,
	r.must(cmd)
	third, cmd := r.made("t-3", "lou", second) // and one with that.
	r.must(cmd)
	require.Equal(t, "bob", r.st().Person(third))
	r.must(RevokeToken{ID: "t-1"}, RevokeToken{ID: "t-2"})
	r.dbSide("eu", health.Down)
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.must(r.signAs(third, waived()...))
	r.refuses(r.sign("ann"), ErrSigned, "ann has signed already")
	r.refuses(r.sign("bob"), ErrSigned, "bob has signed already")
	r.must(r.sign("cyd"))
	require.Equal(t, Approved, r.last().Phase)
}

func TestG3TheProposerMayNotSignWithAnotherToken(t *testing.T) {
	r := stateful(t)
	byBob, cmd := r.made("t-1", "ann", as("bob"))
	r.must(cmd)
	kim, cmd := r.made("t-2", "kim", byBob)
	r.must(cmd)

	// Proposed with the token that bob has made, signed with one of one's own.
	r.must(r.proposal(Planned, "us", byBob))
	r.refuses(r.sign("ann", waived()...), ErrSelfApproval, "ann proposed it")
	r.refuses(r.sign("bob", waived()...), ErrSelfApproval, "bob proposed it")
	r.must(RejectCutover{ID: r.last().ID, Reason: "again", Signer: as("cyd")})

	// The other way about, and under a name that one has made up.
	r.must(r.proposal(Planned, "us", as("ann")))
	r.refuses(r.signAs(byBob, waived()...), ErrSelfApproval, "ann, who counts as bob, proposed it")
	r.refuses(r.signAs(kim, waived()...), ErrSelfApproval, "kim, who counts as bob, proposed it")
	r.must(RejectCutover{ID: r.last().ID, Reason: "again", Signer: as("cyd")})

	// The token being gone since changes nothing.
	r.must(r.proposal(Planned, "us", kim))
	r.must(RevokeToken{ID: "t-1"}, RevokeToken{ID: "t-2"})
	r.refuses(r.sign("ann", waived()...), ErrSelfApproval, "ann proposed it")
	r.must(r.sign("cyd", waived()...))
}

func TestG3AWaiverUnderWayCountsOncePerPersonAndWhileItsSignerMaySign(t *testing.T) {
	for _, tt := range []struct {
		name  string
		waive Waiver
	}{
		{"of a member", Waiver{Gate: GateNodesAcknowledged, Nodes: []string{"eu-1"}}},
		{"of the destination", Waiver{Gate: GateDestination}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := stateful(t)
			byBob, cmd := r.made("t-1", "ann", as("bob"))
			r.must(cmd)
			kim, cmd := r.made("t-2", "kim", byBob)
			r.must(cmd)
			r.dbSide("eu", health.Down)
			r.must(r.proposal(Emergency, "us", Signer{}))
			r.approve()
			r.must(r.begin())
			acknowledged := []string{"ap-1", "us-1"}
			if tt.waive.Gate == GateDestination {
				acknowledged = append(acknowledged, "eu-1")
				r.dbSide("us", health.Down)
			}
			held := func() bool {
				return len(r.st().Waiting(r.last(), acknowledged)) > 0 || !r.st().DestinationHolds(r.last())
			}
			r.must(r.signAs(kim, tt.waive))
			r.refuses(r.signAs(kim, tt.waive), ErrSigned, "has waived that already")
			r.refuses(r.sign("ann", tt.waive), ErrSigned, "has waived that already")
			r.refuses(r.sign("bob", tt.waive), ErrSigned, "has waived that already")
			require.True(t, held(), "one person")
			r.must(r.sign("cyd", tt.waive))
			require.False(t, held(), "two people")
			r.must(RevokeToken{ID: "t-2"})
			require.True(t, held(), "a token that was taken away takes its waiver with it")
			r.must(r.sign("bob", tt.waive))
			require.False(t, held())
		})
	}
}

func TestG3AWaiverOfWhoMayWaiveNoMoreDoesNotCount(t *testing.T) {
	r := approved(t)
	r.must(ApplySpec{Base: 1, Spec: dbEdited(func(sp *Spec) {
		sp.Access.Roles["approver"] = &Role{Groups: []string{"approver"}, Can: []Capability{CanRead, CanApprove}}
	})})
	require.Equal(t, []string{"ann", "bob"}, r.st().Count(r.last()).People, "they may still sign")
	require.Equal(t, []Gate{GateLag, GateFenced}, r.st().Count(r.last()).Lacking)
	r.refuses(r.begin(), ErrBlocked, "lag_within_rpo, source_fenced are not passed")
}

// A role may lose the right to waive and keep that to sign, or the reverse.
func TestG3AWaiverUnderWayNeedsBothRights(t *testing.T) {
	for _, left := range []Capability{CanApprove, CanWaive} {
		r := fencing(t)
		eu := Waiver{Gate: GateNodesAcknowledged, Nodes: []string{"eu-1"}}
		r.must(r.sign("ann", eu), r.sign("cyd", eu))
		require.Empty(t, r.st().Waiting(r.last(), []string{"ap-1", "us-1"}))
		r.must(ApplySpec{Base: 1, Spec: dbEdited(func(sp *Spec) {
			sp.Access.Roles["approver"] = &Role{Groups: []string{"approver"}, Can: []Capability{CanRead, left}}
		})})
		require.Equal(t, []string{"eu-1"}, r.st().Waiting(r.last(), []string{"ap-1", "us-1"}), "only %s is left", left)
		require.Empty(t, r.st().Waivers(r.last(), GateNodesAcknowledged, ""))
	}
}

// The record says "automation" of what nobody asked for, and "node/NAME" of what a
// node did: no person may act under such a name.
func TestNobodyActsUnderTheNameOfWhatIsNoPerson(t *testing.T) {
	for _, name := range []string{Automation, nodeActor + "eu-1"} {
		r := proposed(t)
		r.refuses(PutToken{ID: "t-9", User: name, Groups: []string{"approver"}, Hash: [32]byte{9}, Root: true}, ErrInvalid, "is no name for one")
		s := Signer{User: name, Via: ViaSocket}
		r.refuses(r.signAs(s, waived()...), ErrForbidden, "only a person may sign")
		r.refuses(RejectCutover{ID: "CUT-1", Reason: "no", Signer: s}, ErrForbidden, "may not reject")
		r.must(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")})
		r.refuses(r.proposal(Planned, "us", s), ErrForbidden, "is no person's name")
		r.must(BeginGeneration{Generation: 2, Member: member("eu"), Reason: "lost quorum"})
		r.refuses(ConfirmActive{Service: "db", Active: "eu", Reason: "I know", Signer: s, Rotation: dbChange("eu")}, ErrForbidden, "may not confirm")
	}
}
