package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// G3: each of these is refused for what it is, moves nothing, and is on record.
func TestWhatMustNotMoveAnythingIsRefusedAndOnRecord(t *testing.T) {
	old := "0123-4567-89ab-cdef"
	tests := []struct {
		name    string
		set     func(*rig) apitype.Cutover
		who     string
		act     string // approve unless it says otherwise
		body    func(apitype.Cutover) string
		status  int
		problem string
		next    string
	}{
		{"old evidence", (*rig).proposed, "alice", "", func(apitype.Cutover) string { return signing(old, waivers...) }, 409, "evidence-changed", "quorate cutover show CUT-1"},
		{"twice by one user", (*rig).signedByAlice, "alice", "", nil, 409, "already-signed", "quorate cutover show CUT-1"},
		{"by two tokens of one minter", (*rig).signedByBobsToken, "bob-3", "", nil, 409, "already-signed", "quorate cutover show CUT-1"},
		{"by a token and by who made it", (*rig).signedByBobsToken, "bob", "", nil, 409, "already-signed", "quorate cutover show CUT-1"},
		{"too late by log time", (*rig).overdue, "alice", "", nil, 410, "expired", "quorate cutover show CUT-1"},
		{"of what has expired", (*rig).expired, "alice", "", nil, 410, "expired", "quorate cutover propose orders-db --to us --planned"},
		{"by the proposer", (*rig).proposedByAlice, "alice", "", nil, 403, "self-approval", "quorate cutover show CUT-1"},
		{"of what was rejected", (*rig).rejected, "alice", "", nil, 409, "already-decided", "quorate cutover show CUT-1"},
		{"of what was withdrawn", (*rig).withdrawn, "alice", "", nil, 409, "already-decided", "quorate cutover show CUT-1"},
		{"of what is approved", (*rig).approved, "carol", "", nil, 409, "already-decided", "quorate cutover show CUT-1"},
		{"of what is done", (*rig).done, "carol", "", nil, 409, "already-decided", "quorate cutover show CUT-1"},
		{"by who may only read", (*rig).proposed, "viewer", "", nil, 403, "forbidden", "quorate cutover show CUT-1"},
		{"by an administrator who is no approver", (*rig).proposed, "admin", "", nil, 403, "forbidden", "quorate cutover show CUT-1"},
		{"without the waivers", (*rig).proposed, "alice", "", func(co apitype.Cutover) string { return signing(co.Evidence) }, 409, "blocked", "quorate cutover show CUT-1"},
		{"with a waiver of what is clean", (*rig).proposed, "alice", "", waiving("destination_healthy"), 422, "validation", "quorate cutover show CUT-1"},
		{"with a waiver of what is not its gate", (*rig).proposed, "alice", "", waiving("source_down_by_quorum"), 422, "validation", "quorate cutover show CUT-1"},
		{"reject by who may only read", (*rig).proposed, "viewer", "reject", because, 403, "forbidden", "quorate cutover show CUT-1"},
		{"reject of what has begun", (*rig).begun, "alice", "reject", because, 409, "already-decided", "quorate cutover show CUT-1"},
		{"reject of what was rejected", (*rig).rejected, "alice", "reject", because, 409, "already-decided", "quorate cutover show CUT-1"},
		{"abort by who may only read", (*rig).begun, "viewer", "abort", because, 403, "forbidden", "quorate cutover show CUT-1"},
		{"abort of what has not begun", (*rig).proposed, "alice", "abort", because, 422, "validation", "quorate cutover show CUT-1"},
		{"abort of what is done", (*rig).done, "alice", "abort", because, 409, "already-decided", "quorate cutover show CUT-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newStatefulRig(t)
			co := tt.set(r)
			body := signing(co.Evidence, waivers...)
			if tt.body != nil {
				body = tt.body(co)
			}
			act := tt.act
			if act == "" {
				act = "approve"
			}
			before := r.store.State()
			a := r.as(tt.who, "POST", "/v1/cutovers/"+co.ID+"/"+act, body)
			require.Equal(t, tt.status, a.status, a.body)
			p := a.problem(t)
			require.Equal(t, apitype.ProblemBase+tt.problem, p.Type)
			require.NotEmpty(t, p.Title)
			require.Equal(t, tt.next, p.Next)
			require.NotEmpty(t, p.RequestID)
			r.unmoved(t, before)
			refusal := r.lastEvent()
			require.Equal(t, "cutover.refused", refusal.Type)
			require.Greater(t, refusal.Index, before.Index)
			var d statestore.CutoverDetail
			require.NoError(t, json.Unmarshal(refusal.Detail, &d))
			require.Equal(t, []any{act, co.ID, r.store.State().Tokens[tt.who].User, tt.who}, []any{d.Act, d.Cutover, d.User, d.Token})
			if tt.problem == "evidence-changed" {
				require.Equal(t, co.Evidence, p.Evidence)
				require.Equal(t, old, p.Signed)
			}
			if tt.problem == "blocked" {
				require.Equal(t, waivers, rules(p.Blockers), "all of them at once")
				require.Equal(t, "source_fenced", p.Blockers[1].Waive)
				require.True(t, p.Blockers[0].Waivable)
			}
		})
	}
}

// waiving is a signature with one waiver more than is needed.
func waiving(gate string) func(apitype.Cutover) string {
	return func(co apitype.Cutover) string { return signing(co.Evidence, append([]string{gate}, waivers...)...) }
}

func because(apitype.Cutover) string { return `{"reason":"no"}` }

func (r *rig) lastEvent() statestore.Event {
	events := r.store.State().Events
	return events[len(events)-1]
}

func (r *rig) signedByAlice() apitype.Cutover {
	co := r.proposed()
	items[apitype.Cutover](r.t, r.sign("alice", co, waivers...))
	return co
}

func (r *rig) signedByBobsToken() apitype.Cutover {
	co := r.proposed()
	items[apitype.Cutover](r.t, r.sign("bob-2", co, waivers...))
	return co
}

func (r *rig) proposedByAlice() apitype.Cutover {
	return items[apitype.Cutover](r.t, r.as("alice", "POST", "/v1/cutovers", proposal))[0]
}

func (r *rig) overdue() apitype.Cutover {
	co := r.proposed()
	r.later(31 * time.Minute)
	return co
}

func (r *rig) expired() apitype.Cutover {
	co := r.overdue()
	r.walk()
	require.Equal(r.t, statestore.Expired, r.store.State().Cutovers[co.ID].Phase)
	return co
}

func (r *rig) rejected() apitype.Cutover {
	co := r.proposed()
	a := r.as("carol", "POST", "/v1/cutovers/"+co.ID+"/reject", `{"reason":"not now"}`)
	require.Equal(r.t, "rejected CUT-1: eu stays the answer", items[apitype.Cutover](r.t, a)[0].Text)
	return co
}

func (r *rig) withdrawn() apitype.Cutover {
	r.down(3, "eu")
	a := r.as("proposer", "POST", "/v1/cutovers", `{"service":"orders-db","kind":"emergency","reason":"eu is gone"}`)
	co := items[apitype.Cutover](r.t, a)[0]
	r.down(4)
	r.walk()
	require.Equal(r.t, statestore.Withdrawn, r.store.State().Cutovers[co.ID].Phase)
	return co
}

func (r *rig) done() apitype.Cutover {
	co := r.begun()
	r.walk("ap-1", "eu-1", "us-1")
	require.Equal(r.t, statestore.Done, r.store.State().Cutovers[co.ID].Phase)
	return co
}

func TestAProposalThatCannotBeIsRefusedForWhatItIs(t *testing.T) {
	tests := []struct {
		name, who, body string
		set             func(*rig) apitype.Cutover
		status          int
		problem         string
		want, next      string
	}{
		{"by who may only read", "viewer", proposal, nil, 403, "forbidden", "viewer-user may not propose", ""},
		{"of a service that is not there", "alice", strings.Replace(proposal, "orders-db", "nope", 1), nil, 404, "not-found", "nope", "quorate services"},
		{"of a stateless service", "alice", strings.Replace(proposal, "orders-db", "web", 1), nil, 422, "validation", "/service: web is stateless", ""},
		{"to where it is", "alice", strings.Replace(proposal, `"us"`, `"eu"`, 1), nil, 422, "validation", "/to: orders-db is active on eu already", ""},
		{"to a cluster that is none of its own", "alice", strings.Replace(proposal, `"us"`, `"dr"`, 1), nil, 422, "validation", "/to: dr is no candidate of orders-db, only eu, us", ""},
		{"back to where it is", "alice", `{"service":"orders-db","kind":"failback","reason":"r"}`, nil, 422, "validation", "/to: orders-db is active on eu, its preferred side, already", ""},
		{"while another is open", "alice", proposal, (*rig).proposed, 409, "blocked", "no_other_cutover", "quorate cutover show CUT-1"},
	}
	for _, tt := range tests {
		for _, dry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dry run %v", tt.name, dry), func(t *testing.T) {
				r := newStatefulRig(t)
				if tt.set != nil {
					tt.set(r)
				}
				before, body := r.store.State(), tt.body
				if dry {
					body = strings.Replace(body, "{", `{"dry_run":true,`, 1)
				}
				a := r.as(tt.who, "POST", "/v1/cutovers", body)
				require.Equal(t, tt.status, a.status, a.body)
				p := a.problem(t)
				require.Equal(t, apitype.ProblemBase+tt.problem, p.Type)
				text := p.Detail
				for _, e := range p.Errors {
					text += "\n" + e.Error()
				}
				require.Contains(t, text, tt.want)
				require.Equal(t, tt.next, p.Next)
				r.unmoved(t, before)
				if dry {
					require.Same(t, before, r.store.State(), "a dry run wrote")
				} else {
					require.Equal(t, "cutover.refused", r.lastEvent().Type)
				}
			})
		}
	}
}

// Everything that is wrong with a body comes at once, each with its place.
func TestABodyIsToldAllThatIsWrongWithItAtOnce(t *testing.T) {
	long := strings.Repeat("x", 2001)
	digest := "0123-4567-89ab-cdef"
	tests := []struct {
		name, path, body string
		status           int
		want             []string // pointer: start of the message
	}{
		{"proposal: nothing", "/v1/cutovers", `{}`, 422, []string{"/service: must be given", "/kind: must be given", "/reason: must be given"}},
		{"proposal: empty values", "/v1/cutovers", `{"service":" ","kind":"","reason":" "}`, 422, []string{"/kind: expected value to be one of", "/service: must name", "/reason: must say why"}},
		{"proposal: wrong types", "/v1/cutovers", `{"service":1,"to":[],"kind":true,"reason":{},"dry_run":"yes"}`, 422, []string{"/service: expected string", "/to: expected string", "/kind: expected string", "/reason: expected string", "/dry_run: expected boolean"}},
		{"proposal: too long", "/v1/cutovers", `{"service":"` + long + `","to":"` + long + `","kind":"planned","reason":"` + long + `"}`, 422, []string{"/service: expected length <= 253", "/to: expected length <= 253", "/reason: expected length <= 2000"}},
		{"proposal: unknown fields", "/v1/cutovers", `{"service":"orders-db","kind":"planned","reason":"r","force":true,"not_before":1}`, 422, []string{"/force: unexpected", "/not_before: unexpected"}},
		{"proposal: a drill", "/v1/cutovers", `{"service":"orders-db","kind":"drill","reason":"r"}`, 422, []string{"/kind: expected value to be one of"}},
		{"proposal: twice the same field", "/v1/cutovers", `{"service":"orders-db","service":"web","kind":"planned","reason":"r"}`, 422, []string{`: field "service" must be given once`}},
		{"approval: nothing", "/v1/cutovers/CUT-1/approve", `{}`, 422, []string{"/evidence: must be given", "/reason: must be given"}},
		{"approval: wrong types", "/v1/cutovers/CUT-1/approve", `{"evidence":7,"waivers":"source_fenced","reason":null}`, 422, []string{"/evidence: expected string", "/waivers: expected array", "/reason: expected string"}},
		{"approval: bad values", "/v1/cutovers/CUT-1/approve", `{"evidence":"9f3c-77a1","waivers":["source_fenced","nope","source_fenced=unknown","no_other_cutover","lag_within_rpo=maybe","nodes_acknowledged=a,,b"],"reason":""}`, 422, []string{
			"/evidence: must be the whole digest", "/waivers/1: must name a gate", "/waivers/2: must name each gate once", "/waivers/3: no_other_cutover cannot be waived",
			"/waivers/4: lag_within_rpo=OUTCOME: must be unknown or refused", "/waivers/5: nodes_acknowledged=NODE,NODE: must name members", "/reason: must say why",
		}},
		{"approval: too much", "/v1/cutovers/CUT-1/approve", `{"evidence":"` + long + `","waivers":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"],"reason":"` + long + `"}`, 422, []string{"/evidence: expected length <= 64", "/waivers: expected array length <= 16", "/reason: expected length <= 2000"}},
		{"approval: unknown field", "/v1/cutovers/CUT-1/approve", `{"evidence":"` + digest + `","reason":"r","user":"alice"}`, 422, []string{"/user: unexpected"}},
		{"approval: twice the evidence", "/v1/cutovers/CUT-1/approve", `{"evidence":"` + digest + `","Evidence":"` + digest + `","reason":"r"}`, 422, []string{`: field "Evidence" must be given once`}},
		{"approval: a form", "/v1/cutovers/CUT-1/approve", `evidence=` + digest + `&reason=r`, 422, []string{": invalid character"}},
		{"approval: no body", "/v1/cutovers/CUT-1/approve", ``, 422, []string{": request body is required"}},
		{"approval: a list", "/v1/cutovers/CUT-1/approve", `[]`, 422, []string{": expected object"}},
		{"approval: null", "/v1/cutovers/CUT-1/approve", `null`, 422, []string{": expected object"}},
		{"rejection: nothing", "/v1/cutovers/CUT-1/reject", `{}`, 422, []string{"/reason: must be given"}},
		{"rejection: with evidence", "/v1/cutovers/CUT-1/reject", `{"reason":" ","evidence":"x"}`, 422, []string{"/evidence: unexpected", "/reason: must say why"}},
		{"abort: wrong type", "/v1/cutovers/CUT-1/abort", `{"reason":1}`, 422, []string{"/reason: expected string"}},
		{"oversize", "/v1/cutovers/CUT-1/abort", `{"reason":"` + strings.Repeat("x", maxBody) + `"}`, 413, nil},
	}
	r := newStatefulRig(t)
	r.proposed()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := r.store.State()
			a := r.as("alice", "POST", tt.path, tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			p := a.problem(t)
			var got []string
			for _, e := range p.Errors {
				got = append(got, e.Pointer+": "+e.Message)
			}
			require.Len(t, got, len(tt.want), "%q", got)
			for _, want := range tt.want {
				require.Truef(t, anyHasPrefix(got, want), "%q is not among %q", want, got)
			}
			require.Same(t, before, r.store.State(), "what is not well formed goes nowhere")
		})
	}
}

func anyHasPrefix(texts []string, prefix string) bool {
	for _, s := range texts {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
