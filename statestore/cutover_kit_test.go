package statestore

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// dbSpec is testSpec with a stateful service on eu and us, under a policy of two
// people.
func dbSpec() *Spec {
	sp := testSpec()
	sp.Access.Roles = BuiltinRoles()
	sp.Access.Roles["glass"] = &Role{Groups: []string{"glass"}, Can: []Capability{CanRead, CanApprove, CanWaive}}
	sp.Services["db"] = &Service{
		Zone: "gslb.test.", Names: []string{"db"}, Clusters: Selector{Only: []string{"eu", "us"}},
		Checks:    Checks{All: []*Check{{Name: "check", TCP: &TCPCheck{Port: 5432}}}},
		Policy:    Policy{Type: Failover, Order: []string{"eu", "us"}},
		TTL:       TTL{Normal: Duration(30 * time.Second), Changing: Duration(5 * time.Second)},
		OnAllDown: OnAllDown{Mode: ServeLast},
		Stateful: &Stateful{
			Preferred: "eu", ProposeAfter: Duration(3 * time.Second), Cooldown: Duration(10 * time.Second),
			Failback: Failback{HealthyFor: Duration(5 * time.Second)},
			Approval: ApprovalPolicy{
				Name: "two-person", Required: 2, WaiversRequired: 2, From: []string{"approver"}, BreakGlass: []string{"glass"},
				TTL: Duration(30 * time.Minute), Remind: []Duration{Duration(10 * time.Minute), Duration(20 * time.Minute)},
			},
		},
	}
	return sp
}

func dbEdited(edit func(*Spec)) *Spec {
	sp := dbSpec()
	edit(sp)
	return sp
}

// onePerson lets one person approve, the proposer too.
func onePerson(sp *Spec) {
	p := &sp.Services["db"].Stateful.Approval
	p.Name, p.Required, p.WaiversRequired, p.ProposerMayApprove = "one-person", 1, 1, true
}

// dbChange is a rotation of db over one cluster.
func dbChange(cluster string) RotationChange {
	return RotationChange{Service: "db", V4: pool(cluster), Reason: "test"}
}

func db(cluster string) health.Target {
	return health.Target{Service: "db", Cluster: cluster, Endpoint: addrOf[cluster]}
}

// tokens are the people of the tests; each has a token made at the local socket.
// "self" is one that ann has made for herself under another name.
var tokens = []PutToken{
	{ID: "t-ann", User: "ann", Groups: []string{"approver"}, Hash: [32]byte{1}, Root: true},
	{ID: "t-bob", User: "bob", Groups: []string{"approver"}, Hash: [32]byte{2}, Root: true},
	{ID: "t-cyd", User: "cyd", Groups: []string{"approver"}, Hash: [32]byte{3}, Root: true},
	{ID: "t-dan", User: "dan", Groups: []string{"operator"}, Hash: [32]byte{4}, Root: true},
	{ID: "t-eve", User: "eve", Groups: []string{"viewer"}, Hash: [32]byte{5}, Root: true},
	{ID: "t-gil", User: "gil", Groups: []string{"glass"}, Hash: [32]byte{6}, Root: true},
	{ID: "t-hal", User: "hal", Groups: []string{"glass"}, Hash: [32]byte{7}, Root: true},
	{ID: "t-ann2", User: "ann", Groups: []string{"approver"}, Hash: [32]byte{8}, Person: "ann"},
	{ID: "t-self", User: "zed", Groups: []string{"approver"}, Hash: [32]byte{9}, Person: "ann"},
}

// as returns the signer of that name, by token.
func as(user string) Signer { return Signer{User: user, Token: "t-" + user, Via: ViaToken} }

// stateful returns a rig of three regions, web and db, with db active on eu and
// everything up.
func stateful(t testing.TB, edits ...func(*Spec)) *rig {
	t.Helper()
	r := newRig(t)
	sp := dbSpec()
	for _, edit := range edits {
		edit(sp)
	}
	r.must(
		Initialize{Installation: "demo", CA: TrustedCA{Fingerprint: "aa", PEM: "pem"}},
		UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")},
		ApplySpec{Spec: sp, Source: "# mine", Rotations: []RotationChange{change("dr", "eu", "us"), dbChange("eu")}},
	)
	for _, tok := range tokens {
		r.must(tok)
	}
	r.allVote(health.Up)
	return r
}

// dbDown has two regions vote a cluster down for db.
func (r *rig) dbSide(cluster string, side health.Side) {
	r.t.Helper()
	r.cast("us-1", side, db(cluster))
	r.cast("ap-1", side, db(cluster))
}

// evidence is a leader's judgement of a move of db, by the plainest rules there are.
func (r *rig) evidence(kind CutoverKind, to string) Evidence {
	r.t.Helper()
	facts, err := r.st().Facts("db", kind, to)
	require.NoError(r.t, err)
	for _, g := range Gates(kind) {
		class := Clean
		switch {
		case g == GateLag || g == GateFenced || g == GateResync:
			class = NotConfigured
		case r.st().notClean(g, facts) != "":
			class = Blocked
		}
		facts.Gates = append(facts.Gates, GateResult{g, class})
	}
	return facts
}

func (r *rig) proposal(kind CutoverKind, to string, s Signer) ProposeCutover {
	return ProposeCutover{
		Service: "db", To: to, As: kind, Reason: "eu burns", Signer: s,
		Evidence: r.evidence(kind, to), Basis: r.st().Basis("db"),
	}
}

// proposed returns a rig on which automation has proposed CUT-1 because eu is down.
func proposed(t testing.TB, edits ...func(*Spec)) *rig {
	t.Helper()
	r := stateful(t, edits...)
	r.dbSide("eu", health.Down)
	r.must(r.proposal(Emergency, "us", Signer{}))
	return r
}

// last returns the newest cutover.
func (r *rig) last() *Cutover {
	r.t.Helper()
	ids := r.st().CutoverIDs()
	require.NotEmpty(r.t, ids)
	return r.st().Cutovers[ids[len(ids)-1]]
}

// waived are waivers of what is not configured.
func waived(more ...Gate) []Waiver {
	var ws []Waiver
	for _, g := range slices.Concat([]Gate{GateLag, GateFenced}, more) {
		ws = append(ws, Waiver{Gate: g})
	}
	return ws
}

// sign is user's approval of the newest cutover as it is now.
func (r *rig) sign(user string, ws ...Waiver) ApproveCutover {
	co := r.last()
	return ApproveCutover{ID: co.ID, Evidence: co.Digest, Waivers: ws, Reason: "I looked", Signer: as(user)}
}

// approved returns a rig on which two people have approved CUT-1.
func approved(t testing.TB, edits ...func(*Spec)) *rig {
	t.Helper()
	r := proposed(t, edits...)
	r.approve()
	return r
}

// approve has ann and bob sign.
func (r *rig) approve() {
	r.t.Helper()
	r.must(r.sign("ann", waived()...))
	r.must(r.sign("bob"))
	require.Equal(r.t, Approved, r.last().Phase)
}

func (r *rig) begin() BeginCutover {
	co := r.last()
	return BeginCutover{ID: co.ID, Version: co.Version, Evidence: r.evidence(co.Kind, co.Destination), Basis: r.st().Basis("db")}
}

// fencing returns a rig on which CUT-1 has begun.
func fencing(t testing.TB, edits ...func(*Spec)) *rig {
	t.Helper()
	r := approved(t, edits...)
	r.must(r.begin())
	return r
}

func (r *rig) publish() PublishCutover {
	co := r.last()
	return PublishCutover{ID: co.ID, Version: co.Version, Acknowledged: []string{"ap-1", "eu-1", "us-1"}, Rotation: dbChange(co.Destination)}
}

// moved returns a rig on which CUT-1 has moved db to us.
func moved(t testing.TB, edits ...func(*Spec)) *rig {
	t.Helper()
	r := fencing(t, edits...)
	r.must(r.publish())
	return r
}

func (r *rig) own() Ownership {
	r.t.Helper()
	o := r.st().Ownership("db")
	require.NotNil(r.t, o)
	return *o
}

// unmoved is the state as text without what a refusal may leave behind: position,
// time, the memory of the request, and the audit record.
func unmoved(st *State) string {
	next := *st
	next.Index, next.Now, next.Requests, next.RequestFloor = 0, time.Time{}, nil, time.Time{}
	next.Events, next.Audit = nil, Chain{}
	b, err := json.Marshal(next)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// refuses applies cmd, which must be refused with that code and that text, must
// move nothing, and must leave an audit record exactly when it is a person's act.
func (r *rig) refuses(cmd Command, want *Refusal, text string) {
	r.t.Helper()
	before := r.st()
	err := r.do(cmd)
	require.ErrorIs(r.t, err, want)
	require.ErrorContains(r.t, err, text)
	require.Equal(r.t, unmoved(before), unmoved(r.st()), "a refusal moves nothing")
	a, person := cmd.(act)
	if person {
		_, _, _, s := a.about(before)
		person = s.User != "" && want != ErrStale
	}
	if !person {
		require.Equal(r.t, before.Audit.Count, r.st().Audit.Count, "no record")
		return
	}
	require.Equal(r.t, before.Audit.Count+1, r.st().Audit.Count, "one record")
	name, service, id, s := a.about(before)
	e := r.lastEvent()
	require.Equal(r.t, "cutover.refused", e.Type)
	if service != "" && before.Services[service] != nil {
		require.Equal(r.t, "services/"+service, e.Subject)
	}
	var d CutoverDetail
	require.NoError(r.t, json.Unmarshal(e.Detail, &d))
	require.Equal(r.t, want.Code, d.Code)
	require.Equal(r.t, name, d.Act)
	require.Equal(r.t, id, d.Cutover)
	require.Equal(r.t, s.User, d.User)
	require.Equal(r.t, s.Via, d.Via)
	require.Contains(r.t, e.Text, name+" by "+s.User+" refused: ")
	require.NoError(r.t, r.st().VerifyAudit())
}
