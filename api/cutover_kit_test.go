package api

import (
	"crypto/sha256"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// statefulSpec is testSpec with a service that people move: orders-db over eu and
// us, two of the approvers needed, none of them the proposer.
func statefulSpec() *statestore.Spec {
	spec := testSpec()
	svc := *spec.Services["shop"]
	svc.Names = []string{"orders-db"}
	svc.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us"}}
	svc.Stateful = &statestore.Stateful{
		Preferred: "eu", ProposeAfter: statestore.Duration(time.Minute), Cooldown: statestore.Duration(time.Hour),
		Approval: statestore.ApprovalPolicy{
			Name: "two-person", Required: 2, WaiversRequired: 2, From: []string{"approver"},
			TTL: statestore.Duration(30 * time.Minute), BreakGlass: []string{"break-glass"},
		},
		Failback: statestore.Failback{HealthyFor: statestore.Duration(10 * time.Minute)},
	}
	spec.Services["orders-db"] = &svc
	spec.Access.Roles["break-glass"] = &statestore.Role{Groups: []string{"break-glass"}, Can: []statestore.Capability{statestore.CanAll}}
	return spec
}

// newStatefulRig is a rig with orders-db and the people who decide about it: alice,
// bob and carol are approvers, bob-2 and bob-3 are tokens of other users that bob
// made, gus may break glass.
func newStatefulRig(t testing.TB, edit ...func(*Config)) *rig {
	r := newRig(t, edit...)
	spec := statefulSpec()
	r.must(statestore.ApplySpec{Base: 1, Source: specText(spec), Spec: spec, Rotations: policy.Rotations(r.store.State(), spec, nil, nil)})
	r.votes(2, true, nil)
	hash := sha256.Sum256([]byte(canary))
	for _, name := range []string{"alice", "bob", "carol"} {
		r.must(statestore.PutToken{ID: name, User: name, Groups: []string{"approver"}, Hash: hash, Root: true})
	}
	r.must(
		statestore.PutToken{ID: "bob-2", User: "bots", Groups: []string{"approver"}, Hash: hash, Person: "bob"},
		statestore.PutToken{ID: "bob-3", User: "robots", Groups: []string{"approver"}, Hash: hash, Person: "bob"},
		statestore.PutToken{ID: "gus", User: "gus", Groups: []string{"break-glass"}, Hash: hash, Root: true},
		statestore.PutToken{ID: "proposer", User: "pat", Groups: []string{"operator"}, Hash: hash, Root: true},
	)
	return r
}

const proposal = `{"service":"orders-db","to":"us","kind":"planned","reason":"move"}`

// waivers are those that each cutover needs while no fence and no lag is configured.
var waivers = []string{"lag_within_rpo", "source_fenced"}

// proposed opens a planned cutover on behalf of pat and returns it.
func (r *rig) proposed() apitype.Cutover {
	r.t.Helper()
	a := r.as("proposer", "POST", "/v1/cutovers", proposal)
	require.Equal(r.t, 201, a.status, a.body)
	return items[apitype.Cutover](r.t, a)[0]
}

// signing is the body of an approval.
func signing(evidence string, waivers ...string) string {
	data, err := json.Marshal(apitype.ApproveRequest{Evidence: evidence, Waivers: waivers, Reason: "eu power lost, ticket 8812"})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (r *rig) sign(who string, co apitype.Cutover, waivers ...string) answer {
	r.t.Helper()
	return r.as(who, "POST", "/v1/cutovers/"+co.ID+"/approve", signing(co.Evidence, waivers...))
}

// approved opens a cutover and has it signed by everybody it needs.
func (r *rig) approved() apitype.Cutover {
	r.t.Helper()
	co := r.proposed()
	items[apitype.Cutover](r.t, r.sign("alice", co, waivers...))
	return items[apitype.Cutover](r.t, r.sign("bob", co))[0]
}

// walk commits what automation concludes next, as the leader's controller would.
func (r *rig) walk(acknowledged ...string) {
	r.t.Helper()
	waits := policy.Waits{Acknowledged: map[string][]string{}}
	for id := range r.store.State().Cutovers {
		waits.Acknowledged[id] = acknowledged
	}
	for _, p := range policy.Plan(r.store.State(), waits) {
		require.NoError(r.t, r.apply(p.Command, Origin{Actor: statestore.Automation}).Err, "%T", p.Command)
	}
}

// begun has a cutover approved and begun.
func (r *rig) begun() apitype.Cutover {
	r.t.Helper()
	co := r.approved()
	r.walk()
	require.Equal(r.t, statestore.Fencing, r.store.State().Cutovers[co.ID].Phase)
	return co
}

// down has every observer vote a cluster down.
func (r *rig) down(seq uint64, clusters ...string) {
	r.t.Helper()
	r.votes(seq, false, map[health.ObserverID][]string{"eu-1": clusters, "us-1": clusters, "ap-1": clusters})
}

// later moves log time on.
func (r *rig) later(d time.Duration) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	data, err := statestore.Encode(statestore.Tick{}, statestore.Meta{Actor: statestore.Automation, Wall: time.Now().UTC(), Elapsed: d})
	require.NoError(r.t, err)
	r.index++
	require.NoError(r.t, r.store.Apply(r.index, 1, data).Err)
}

// unmoved asserts that orders-db is where it was.
func (r *rig) unmoved(t testing.TB, before *statestore.State) {
	t.Helper()
	now := r.store.State()
	require.Equal(t, before.Services["orders-db"].Ownership, now.Services["orders-db"].Ownership)
	require.Equal(t, before.Services["orders-db"].Rotation, now.Services["orders-db"].Rotation)
	require.Equal(t, before.Cutovers, now.Cutovers)
	require.Equal(t, before.Epochs, now.Epochs)
}
