package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

const minute = statestore.Duration(time.Minute)

// db adds the stateful service db over eu, us and ap, in that order.
func db(edits ...func(*statestore.Service)) func(*statestore.Spec) {
	return func(sp *statestore.Spec) {
		s := testService("db")
		s.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us", "ap"}}
		s.Stateful = &statestore.Stateful{
			Preferred: "eu", ProposeAfter: minute, Cooldown: 60 * minute,
			Failback: statestore.Failback{HealthyFor: 10 * minute},
			Approval: statestore.ApprovalPolicy{
				Name: "two-person", Required: 2, WaiversRequired: 2, From: []string{"approver"},
				TTL: 30 * minute, Remind: []statestore.Duration{2 * minute, 5 * minute},
			},
		}
		for _, edit := range edits {
			edit(s)
		}
		sp.Services["db"] = s
	}
}

// person returns somebody who may do everything about cutovers.
func person(name string) statestore.Signer {
	return statestore.Signer{User: name, Groups: []string{"approver"}, Via: statestore.ViaDemo}
}

// root returns somebody at the local socket, whose signatures are break-glass.
func root(name string) statestore.Signer {
	return statestore.Signer{User: name, Via: statestore.ViaSocket}
}

// dbWorld is a world of three regions that see every cluster up and run db.
func dbWorld(t *testing.T, edits ...func(*statestore.Service)) *world {
	t.Helper()
	return upWorld(t, db(edits...))
}

// pass moves log time on.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.index++
	data, err := statestore.Encode(statestore.Tick{}, statestore.Meta{Actor: "test", Wall: epoch, Elapsed: d})
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.Apply(w.index, 1, data).Err)
}

// open returns the open cutover of db; nil when there is none.
func (w *world) open() *statestore.Cutover { return w.st().OpenCutover("db") }

// propose has alice propose a move of db and returns it.
func (w *world) propose(kind statestore.CutoverKind, to string) *statestore.Cutover {
	w.t.Helper()
	return w.proposeAs(person("alice"), kind, to)
}

func (w *world) proposeAs(s statestore.Signer, kind statestore.CutoverKind, to string) *statestore.Cutover {
	w.t.Helper()
	cmd, _, blockers := Propose(w.st(), Move{Service: "db", To: to, Kind: kind}, s)
	require.Empty(w.t, blockers)
	if s.User != "" {
		cmd.Reason = "test"
	} else {
		cmd.Reason = "it is down"
	}
	w.do(cmd)
	return w.open()
}

// sign has somebody sign the open cutover with waivers of everything that lacks.
func (w *world) sign(s statestore.Signer) {
	w.t.Helper()
	co := w.open()
	var waivers []statestore.Waiver
	for _, g := range w.st().Count(co).Lacking {
		waivers = append(waivers, statestore.Waiver{Gate: g})
	}
	w.do(statestore.ApproveCutover{ID: co.ID, Evidence: co.Digest, Waivers: waivers, Reason: "test", Signer: s})
}

// heard is a leader that all members have acknowledged everything to.
func (w *world) heard() Waits {
	waits := Waits{Acknowledged: map[string][]string{}}
	for id := range w.st().Cutovers {
		waits.Acknowledged[id] = sortedKeys(w.st().Members)
	}
	return waits
}

// planned returns what the plan has to do about db.
func (w *world) planned(waits Waits) []Proposal {
	return slices.DeleteFunc(Plan(w.st(), waits), func(p Proposal) bool { return p.Subject != "services/db" })
}

// step commits the one thing the plan has to do about db, which has to be of the kind.
func (w *world) step(kind statestore.Kind, waits Waits) {
	w.t.Helper()
	plan := w.planned(waits)
	require.Len(w.t, plan, 1)
	require.Equal(w.t, kind, plan[0].Command.Kind(), "%s", plan[0].Reason)
	require.NotEmpty(w.t, plan[0].Reason)
	w.do(plan[0].Command)
}

// move moves db by a cutover that bob and carol approve.
func (w *world) move(kind statestore.CutoverKind, to string) {
	w.t.Helper()
	w.propose(kind, to)
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	w.step(statestore.KindPublishCutover, w.heard())
	require.Equal(w.t, to, w.st().Ownership("db").Active)
}

// silent sets an observer aside.
func (w *world) silent(observers ...string) {
	w.t.Helper()
	for _, o := range observers {
		w.do(statestore.ObserverSilent{Observer: health.ObserverID(o)})
	}
}

// gate returns one of the gates of a move.
func gate(t tester, gates []Gate, name statestore.Gate) Gate {
	t.Helper()
	i := slices.IndexFunc(gates, func(g Gate) bool { return g.Name == name })
	require.GreaterOrEqual(t, i, 0, "no gate %s in %+v", name, gates)
	return gates[i]
}
