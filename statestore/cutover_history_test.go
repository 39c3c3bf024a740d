package statestore

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
)

// tryEvidence is rig.evidence for a move that may be impossible.
func (r *rig) tryEvidence(kind CutoverKind, to string) (Evidence, bool) {
	if _, err := r.st().Facts("db", kind, to); err != nil {
		return Evidence{Service: "db", Kind: kind, Destination: to}, false
	}
	return r.evidence(kind, to), true
}

// needed are waivers of every gate that is not clean.
func needed(ev Evidence) []Waiver {
	var ws []Waiver
	for _, g := range ev.Gates {
		if g.Class != Clean {
			ws = append(ws, Waiver{Gate: g.Gate})
		}
	}
	return ws
}

// other returns the side of db that is not active.
func (r *rig) other() string {
	if o := r.st().Ownership("db"); o != nil && o.Active == "us" {
		return "eu"
	}
	return "us"
}

var everybody = []string{"ann", "bob", "cyd", "dan", "eve", "gil", "hal"}

// anyAct draws what the leader or a person does about db. Most are the next step
// of what is open, so that histories come to an end; the rest may well be refused.
func anyAct(t *rapid.T, r *rig) Command {
	st := r.st()
	o, open := st.Ownership("db"), st.OpenCutover("db")
	user := rapid.SampledFrom(everybody).Draw(t, "user")
	id, version := "CUT-1", uint64(0)
	var co Cutover
	if ids := st.CutoverIDs(); len(ids) > 0 {
		co = *st.Cutovers[rapid.SampledFrom(ids).Draw(t, "id")]
		if open != nil && rapid.IntRange(0, 9).Draw(t, "newest") > 0 {
			co = *open
		}
		id, version = co.ID, co.Version
	}
	choice := rapid.IntRange(0, 19).Draw(t, "act")
	switch {
	case o == nil || o.Unconfirmed || choice == 0:
		active := rapid.SampledFrom([]string{"eu", "us", "dr"}).Draw(t, "active")
		return ConfirmActive{Service: "db", Active: active, Reason: "x", Signer: as(user), Rotation: dbRotation(st, active)}
	case open == nil && choice < 14:
		kind := rapid.SampledFrom([]CutoverKind{Planned, Emergency, Back}).Draw(t, "kind")
		s := as(user)
		if kind == Emergency && rapid.Bool().Draw(t, "automation") {
			s = Signer{}
		}
		ev, _ := r.tryEvidence(kind, r.other())
		return ProposeCutover{Service: "db", To: r.other(), As: kind, Reason: "x", Signer: s, Evidence: ev, Basis: st.Basis("db")}
	case choice == 1:
		return RejectCutover{ID: id, Reason: "x", Signer: as(user)}
	case choice == 2:
		return AbortCutover{ID: id, Reason: "x", Signer: as(user)}
	case choice == 3:
		return CloseCutover{ID: id, Version: version, As: rapid.SampledFrom([]CutoverPhase{Expired, Withdrawn}).Draw(t, "end"), Reason: "x"}
	case choice == 4:
		return RemindCutover{ID: id, Number: co.Reminded + 1}
	case choice == 5:
		return BeginGeneration{Generation: st.Generation + uint64(rapid.IntRange(0, 2).Draw(t, "generation")), Member: member("eu"), Reason: "x"}
	}
	ev, _ := r.tryEvidence(co.Kind, co.Destination)
	stale := ev.Digest() != co.Digest
	switch {
	case co.Phase == Fencing:
		return PublishCutover{ID: id, Version: version, Acknowledged: sortedKeys(st.Members), Rotation: dbRotation(st, co.Destination)}
	case stale && choice < 16:
		return ReviseCutover{ID: id, Version: version, Evidence: ev, Basis: st.Basis("db")}
	case co.Phase == Approved:
		return BeginCutover{ID: id, Version: version, Evidence: ev, Basis: st.Basis("db")}
	}
	return ApproveCutover{ID: id, Evidence: co.Digest, Waivers: needed(co.Evidence), Reason: "x", Signer: as(user)}
}

// dbRotation is the rotation that answers with the cluster as it is now.
func dbRotation(st *State, cluster string) RotationChange {
	ch := dbChange(cluster)
	if up := st.upOf("db", cluster, ch.V4.Shares[0].Endpoints); len(up) > 0 {
		ch.V4.Shares[0].Endpoints = up
	}
	return ch
}

// anyEvent draws what happens around db: votes, silence, members, drains, freezes,
// specs with and without it, and rotations that are not its own.
func anyEvent(t *rapid.T, r *rig) Command {
	st := r.st()
	observer := rapid.SampledFrom([]string{"eu-1", "us-1", "ap-1"}).Draw(t, "observer")
	cluster := rapid.SampledFrom([]string{"eu", "us", "dr"}).Draw(t, "cluster")
	switch rapid.IntRange(0, 15).Draw(t, "event") {
	case 0:
		return ObserverSilent{Observer: health.ObserverID(observer)}
	case 1:
		return UpsertMember{member(observer[:2])}
	case 2:
		return Rotate{RotationChange: dbRotation(st, cluster), Basis: st.Basis("db")}
	case 3:
		return DrainCluster{Cluster: cluster, Services: []string{"db"}, Reason: "x", Rotations: []RotationChange{dbRotation(st, cluster)}}
	case 4:
		return DrainCluster{Cluster: cluster, Services: []string{"db"}, Reason: "x"}
	case 5:
		return UndrainCluster{Cluster: cluster}
	case 6:
		if rapid.Bool().Draw(t, "freeze") {
			return FreezeService{Service: "db", Reason: "x"}
		}
		return ThawService{Service: "db"}
	case 7, 8:
		sp := dbSpec()
		switch rapid.IntRange(0, 5).Draw(t, "spec") {
		case 0:
			delete(sp.Services, "db")
		case 1:
			sp.Services["db"].Stateful.Preferred = "us"
		case 2:
			sp.Services["db"].Stateful = nil
		case 3:
			onePerson(sp)
		case 4:
			sp.Services["db"].Clusters.Only = []string{cluster, "dr"}
			sp.Services["db"].Policy.Order = nil
			sp.Services["db"].Stateful.Preferred = cluster
		}
		var rotations []RotationChange
		if st.Services["web"].Rotation.Number == 0 {
			rotations = append(rotations, change("dr", "eu", "us"))
		}
		if st.Ownership("db") == nil || rapid.IntRange(0, 3).Draw(t, "rotation") == 0 {
			to := "eu"
			if s := sp.Services["db"]; s != nil && s.Stateful != nil {
				to = s.Stateful.Preferred
			}
			rotations = append(rotations, dbRotation(st, to))
		}
		return ApplySpec{Base: st.Revision, Spec: sp, Rotations: rotations}
	case 9:
		return RemoveMember{Name: observer}
	case 10:
		tok := rapid.SampledFrom(tokens).Draw(t, "token")
		if _, ok := st.Tokens[tok.ID]; ok {
			return RevokeToken{ID: tok.ID}
		}
		return tok
	default:
		b := r.vote(observer, rapid.SampledFrom([]health.Side{health.Up, health.Down}).Draw(t, "side"), db(cluster), db(r.other()))
		b.Full = rapid.IntRange(0, 3).Draw(t, "full") == 0
		return CastVotes{Batches: []VoteBatch{b}}
	}
}

// history runs a random history of a stateful installation; after is called after
// each entry with the state before it.
func history(rt *rapid.T, r *rig, length int, after func(before *State, cmd Command, err error)) {
	for i := range length {
		if rapid.IntRange(0, 14).Draw(rt, "election") == 0 {
			r.term++
		}
		cmd := anyAct(rt, r)
		if rapid.IntRange(0, 2).Draw(rt, "around") == 0 {
			cmd = anyEvent(rt, r)
		}
		m := Meta{
			Actor:   rapid.SampledFrom([]string{"ann", Automation}).Draw(rt, "actor"),
			Elapsed: time.Duration(rapid.IntRange(0, 200).Draw(rt, "elapsed")) * time.Second,
			Rebased: rapid.IntRange(0, 19).Draw(rt, "rebased") == 0,
		}
		if rapid.IntRange(0, 9).Draw(rt, "request") == 0 {
			m.Request, m.Issued = fmt.Sprint("r", i/2), r.st().Now
		}
		before := r.st()
		after(before, cmd, r.doMeta(cmd, m))
	}
}
