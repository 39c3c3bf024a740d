package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// Each refuses asserts the code, that nothing moved, and the audit record.

func TestG3OldEvidenceIsRefused(t *testing.T) {
	r := proposed(t)
	seen := r.sign("bob", waived()...)
	r.must(r.sign("ann", waived()...))

	// The source comes back: from that very entry on nobody signs what they saw
	// before, though the leader has not looked at it yet.
	r.dbSide("eu", health.Up)
	r.refuses(seen, ErrEvidence, "source side: was down, is up")

	// A member falls silent: another fact of the evidence.
	r = proposed(t)
	seen = r.sign("bob", waived()...)
	r.must(ObserverSilent{Observer: "eu-1"})
	r.refuses(seen, ErrEvidence, "members that cannot acknowledge: was none, is eu-1")

	// The leader makes new evidence: the old digest and the old signatures are void.
	co := r.last()
	require.Equal(t, 0, co.Voided)
	r.must(r.revision())
	require.NotEqual(t, co.Digest, r.last().Digest)
	r.refuses(seen, ErrEvidence, "the evidence is "+r.last().Digest+" now, not "+co.Digest)
}

func TestG3AnotherSpecIsOtherEvidenceAndAnUnrelatedOneIsNot(t *testing.T) {
	r := proposed(t)
	r.must(r.sign("ann", waived()...))
	seen := r.sign("bob")
	r.must(ApplySpec{Base: 1, Spec: dbEdited(func(sp *Spec) { sp.Services["web"].TTL.Normal++ })})
	require.Len(t, r.last().Signatures, 1)
	r.must(ApplySpec{Base: 2, Spec: dbEdited(func(sp *Spec) { sp.Services["db"].Stateful.Approval.Required = 1 })})
	r.refuses(seen, ErrEvidence, "the service's effective spec was changed")
	r.must(r.revision())
	require.Empty(t, r.last().Signatures)
	require.Equal(t, 1, r.last().Voided)
}

func TestG3SignedTwiceByOneUserIsRefused(t *testing.T) {
	r := proposed(t)
	r.must(r.sign("ann", waived()...))
	r.refuses(r.sign("ann", waived()...), ErrSigned, "ann has signed already; another person must sign")
	again := r.sign("ann")
	again.Signer.Token = "t-ann2"
	r.refuses(again, ErrSigned, "ann has signed already")
	require.Equal(t, Proposed, r.last().Phase)
}

func TestG3SignedByTwoTokensOfOneMinterIsRefused(t *testing.T) {
	r := proposed(t)
	zed := Signer{User: "zed", Token: "t-self", Via: ViaToken}
	require.Equal(t, "ann", r.st().Person(zed))
	r.must(r.sign("ann", waived()...))
	c := r.sign("ann")
	c.Signer = zed
	r.refuses(c, ErrSigned, "zed, who counts as ann, has signed already")

	// A token of a token of a token counts as the first maker, and the maker's own
	// token being gone changes nothing.
	r.must(PutToken{ID: "t-kim", User: "kim", Groups: []string{"approver"}, Hash: [32]byte{10}, Person: r.st().Person(zed)}, RevokeToken{ID: "t-self"})
	r.refuses(r.sign("kim"), ErrSigned, "kim, who counts as ann, has signed already")
}

func TestG3SignedTooLateIsRefused(t *testing.T) {
	r := proposed(t)
	r.must(r.sign("ann", waived()...))
	late := r.sign("bob")
	ttl := 30 * time.Minute
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: ttl - 2*time.Second}))
	require.True(t, r.st().Now.Before(r.last().Expires)) // The next entry is at the end.
	r.refuses(late, ErrExpired, "CUT-1 (db from eu to us): expired")
	r.must(CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Expired, Reason: "nobody signed"})
	r.refuses(late, ErrExpired, "expired")
	r.refuses(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("ann")}, ErrExpired, "expired")

	// Approved in time and not begun in time: nothing moves either.
	r = approved(t)
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: ttl}))
	r.refuses(r.begin(), ErrExpired, "expired")
	require.Equal(t, "eu", r.own().Active)
}

func TestG3SignedByTheProposerUnderTwoPersonIsRefused(t *testing.T) {
	r := stateful(t)
	r.must(r.proposal(Planned, "us", as("ann")))
	r.refuses(r.sign("ann", waived()...), ErrSelfApproval, "ann proposed it and may not approve it; another approver must sign")
	zed := r.sign("ann", waived()...)
	zed.Signer = Signer{User: "zed", Token: "t-self", Via: ViaToken}
	r.refuses(zed, ErrSelfApproval, "zed, who counts as ann, proposed it")
	r.approveBy("bob", "cyd")

	r = stateful(t, onePerson)
	r.must(r.proposal(Planned, "us", as("ann")))
	r.must(r.sign("ann", waived()...))
	require.Equal(t, Approved, r.last().Phase)
}

func (r *rig) approveBy(first, second string) {
	r.t.Helper()
	r.must(r.sign(first, waived()...))
	require.Equal(r.t, Proposed, r.last().Phase)
	r.must(r.sign(second))
	require.Equal(r.t, Approved, r.last().Phase)
}

func TestG3SignedWhenDecidedOrWithdrawnIsRefused(t *testing.T) {
	r := proposed(t)
	seen := r.sign("bob", waived()...)
	r.must(RejectCutover{ID: "CUT-1", Reason: "wait for the network", Signer: as("cyd")})
	r.refuses(seen, ErrDecided, "was rejected")
	require.Equal(t, "eu", r.own().Active)
	require.Empty(t, r.own().Open)

	r = proposed(t)
	seen = r.sign("bob", waived()...)
	r.dbSide("eu", health.Up)
	r.must(CloseCutover{ID: "CUT-1", Version: r.last().Version, As: Withdrawn, Reason: "eu is up again"})
	r.refuses(seen, ErrDecided, "was withdrawn")

	r = fencing(t)
	seen = r.sign("cyd")
	r.must(AbortCutover{ID: "CUT-1", Reason: "wrong side", Signer: as("ann")})
	r.refuses(seen, ErrDecided, "was aborted")
	r.refuses(r.publish(), ErrDecided, "was aborted")

	r = proposed(t)
	seen = r.sign("bob", waived()...)
	r.must(BeginGeneration{Generation: 2, Member: member("eu"), Reason: "lost quorum"})
	r.refuses(seen, ErrDecided, "was made void")

	// A signature is of one cutover: another one of the same move needs its own.
	r = proposed(t)
	seen = r.sign("bob", waived()...)
	r.must(RejectCutover{ID: "CUT-1", Reason: "no", Signer: as("cyd")})
	r.must(r.proposal(Emergency, "us", Signer{}))
	require.Equal(t, "CUT-2", r.last().ID)
	r.refuses(seen, ErrDecided, "CUT-1")
}

// Whoever lost the right to sign before the cutover begins has not signed.
func TestG3SignatureOfWhoMayNoLongerSignDoesNotCount(t *testing.T) {
	for name, cmd := range map[string]func(*rig) []Command{
		"the token is revoked": func(*rig) []Command { return []Command{RevokeToken{ID: "t-bob"}} },
		"the token has expired": func(*rig) []Command {
			return []Command{RevokeToken{ID: "t-bob"}, PutToken{ID: "t-bob", User: "bob", Groups: []string{"approver"}, Hash: [32]byte{2}, Root: true, For: time.Second}}
		},
		"the role is gone": func(r *rig) []Command {
			return []Command{ApplySpec{Base: 1, Spec: dbEdited(func(sp *Spec) {
				sp.Access.Roles["approver"] = &Role{Tokens: []string{"t-ann", "t-cyd"}, Can: []Capability{CanApprove, CanWaive}}
			})}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := approved(t)
			digest := r.last().Digest
			r.must(cmd(r)...)
			r.refuses(r.begin(), ErrBlocked, "1 of 2 signatures are by people who still may sign")
			require.Equal(t, digest, r.last().Digest, "that is no evidence")
			// It takes further signatures until enough count.
			r.must(r.sign("cyd"))
			r.must(r.begin())
			require.Equal(t, Fencing, r.last().Phase)
		})
	}

	// However it came about, two signatures of one person are one.
	r := proposed(t)
	r.must(r.sign("ann", waived()...))
	co := *r.last()
	co.Signatures = append(co.Signatures[:1:1], co.Signatures[0])
	require.Equal(t, []string{"ann"}, r.st().Count(&co).People)
	require.Equal(t, []string{"ann"}, r.st().Count(&co).Waived[GateLag])

	// The waivers of such a signature go with it.
	r = approved(t)
	r.must(RevokeToken{ID: "t-ann"})
	r.refuses(r.sign("cyd"), ErrBlocked, "lag_within_rpo is not_configured, source_fenced is not_configured")
	r.must(r.sign("cyd", waived()...))
	r.must(r.begin())

	// A person whose signature lapsed signs anew.
	r = approved(t)
	r.must(RevokeToken{ID: "t-bob"}, PutToken{ID: "t-bob", User: "bob", Groups: []string{"viewer"}, Hash: [32]byte{2}, Root: true})
	r.refuses(r.begin(), ErrBlocked, "1 of 2 signatures")
	r.must(RevokeToken{ID: "t-bob"}, PutToken{ID: "t-bob", User: "bob", Groups: []string{"approver"}, Hash: [32]byte{2}, Root: true})
	r.must(r.begin())

	// Whoever is no break-glass signer any more has not waived what takes one.
	r = stateful(t)
	r.must(r.proposal(Emergency, "us", as("dan")))
	r.must(r.sign("gil", waived(GateSourceDown)...))
	signed := r.last()
	require.Equal(t, []string{"gil"}, r.st().Count(signed).Waived[GateSourceDown])
	r.must(RevokeToken{ID: "t-gil"})
	require.Empty(t, r.st().Count(signed).People)
	r.must(PutToken{ID: "t-gil", User: "gil", Groups: []string{"approver"}, Hash: [32]byte{6}, Root: true})
	require.Equal(t, []string{"gil"}, r.st().Count(signed).People)
	require.Equal(t, []string{"gil"}, r.st().Count(signed).Waived[GateLag])
	require.Empty(t, r.st().Count(signed).Waived[GateSourceDown])

	// A signature that lapsed is replaced, in the new state only.
	r = proposed(t)
	r.must(r.sign("bob", waived()...))
	signed = r.last()
	r.must(RevokeToken{ID: "t-bob"}, PutToken{ID: "t-bob2", User: "bob", Groups: []string{"approver"}, Hash: [32]byte{2}, Root: true})
	again := r.sign("bob", waived()...)
	again.Signer.Token = "t-bob2"
	r.must(again)
	require.Equal(t, "t-bob", signed.Signatures[0].Token)
	require.Equal(t, "t-bob2", r.last().Signatures[0].Token)
	require.Equal(t, 1, r.last().Voided)

	// Enough signatures again once a right came back: one of those people says so.
	r = proposed(t)
	r.must(r.sign("bob", waived()...))
	r.must(RevokeToken{ID: "t-bob"})
	r.must(r.sign("ann", waived()...))
	r.must(PutToken{ID: "t-bob", User: "bob", Groups: []string{"approver"}, Hash: [32]byte{2}, Root: true})
	require.True(t, r.st().Count(r.last()).Approved())
	require.Equal(t, Proposed, r.last().Phase)
	r.must(r.sign("bob"))
	require.Equal(t, Approved, r.last().Phase)
	require.Len(t, r.last().Signatures, 2)
	r.must(r.begin())
}

// A leader that restarted and whose wall clock jumped cannot tell how old open
// signatures are.
func TestG3SignaturesAreVoidWhenTheClockJumped(t *testing.T) {
	for _, tt := range []struct {
		name    string
		elapsed time.Duration
		rebased bool
		void    bool
	}{
		{"its own monotonic time", time.Minute, false, false},
		{"a wall clock within the bound", 30 * time.Second, true, false},
		{"a wall clock beyond it", 31 * time.Second, true, true},
		{"a wall clock that ran back", -time.Second, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := approved(t)
			count := r.st().Audit.Count
			require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: tt.elapsed, Rebased: tt.rebased}))
			co := r.last()
			if !tt.void {
				require.Len(t, co.Signatures, 2)
				require.Equal(t, count, r.st().Audit.Count)
				return
			}
			require.Empty(t, co.Signatures)
			require.Equal(t, 2, co.Voided)
			require.Equal(t, Proposed, co.Phase)
			require.Equal(t, count+1, r.st().Audit.Count)
			require.Contains(t, r.lastEvent().Text, "signatures of ann, bob are void")
			require.Equal(t, "services/db", r.lastEvent().Subject)
			r.refuses(r.begin(), ErrBlocked, "is proposed, not approved")
			r.approve()
		})
	}

	// The record of an entry that has one says both.
	r := approved(t)
	require.NoError(t, r.doMeta(FreezeService{Reason: "look"}, Meta{Actor: "ann", Elapsed: time.Hour, Rebased: true}))
	require.Contains(t, r.lastEvent().Text, "everything frozen: look; CUT-1 (db from eu to us): signatures of ann, bob are void")
	// One that has begun has counted its signatures.
	r = fencing(t)
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: time.Hour, Rebased: true}))
	require.Len(t, r.last().Signatures, 2)
	r.must(r.publish())
}

// revision is the leader's, with evidence as it is now.
func (r *rig) revision() ReviseCutover {
	co := r.last()
	return ReviseCutover{ID: co.ID, Version: co.Version, Evidence: r.evidence(co.Kind, co.Destination), Basis: r.st().Basis("db")}
}
