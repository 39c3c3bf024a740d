package sim

import (
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// moves is what the watch knows of stateful services by the log and the answers
// alone.
type moves struct {
	signed map[string]map[string]string    // digest by cutover and person, of what was accepted
	begun  map[string]bool                 // cutovers
	epochs map[string]uint64               // highest that was ever used or reserved, by service
	owners map[string]map[uint64]string    // active side by service and epoch
	served map[string]map[string][2]uint64 // newest (generation, epoch) by node and service
}

func newMoves() moves {
	return moves{
		signed: map[string]map[string]string{}, begun: map[string]bool{}, epochs: map[string]uint64{},
		owners: map[string]map[uint64]string{}, served: map[string]map[string][2]uint64{},
	}
}

// moved checks one entry: an active side changes by a published cutover only,
// which began with the signatures of two people over exactly its evidence (G3,
// I3), and no epoch is used twice.
func (w *watch) moved(index uint64, cmd statestore.Command, prev, st *statestore.State) {
	m := &w.moves
	switch c := cmd.(type) {
	case statestore.ApproveCutover:
		if co := st.Cutovers[c.ID]; co != nil && co != prev.Cutovers[c.ID] {
			if m.signed[c.ID] == nil {
				m.signed[c.ID] = map[string]string{}
			}
			m.signed[c.ID][c.Signer.User] = c.Evidence
		}
	case statestore.ReviseCutover:
		if st.Cutovers[c.ID] != prev.Cutovers[c.ID] {
			delete(m.signed, c.ID)
		}
	case statestore.BeginCutover:
		co := st.Cutovers[c.ID]
		if co == nil || co == prev.Cutovers[c.ID] {
			break
		}
		people := 0
		for who, digest := range m.signed[c.ID] {
			if digest == c.Evidence.Digest() && who != co.Proposer {
				people++
			}
		}
		if people < 2 || !st.Now.Before(co.Expires) {
			w.wrong("I3: %s began at %d with %d people, at %s of %s", c.ID, index, people, st.Now, co.Expires)
		}
		if co.Next <= m.epochs[co.Service] {
			w.wrong("G2: %s reserved epoch %d of %s, %d was used", c.ID, co.Next, co.Service, m.epochs[co.Service])
		}
		m.begun[c.ID] = true
	}
	for name, ss := range st.Services {
		o := ss.Ownership
		if o == nil {
			continue
		}
		before := prev.Ownership(name)
		if before != nil && before.Active != o.Active {
			c, published := cmd.(statestore.PublishCutover)
			if !published || !m.begun[c.ID] || st.Cutovers[c.ID].Destination != o.Active {
				w.wrong("G3: %s moved from %s to %s at %d by %T", name, before.Active, o.Active, index, cmd)
			}
		}
		if before != nil && before.Epoch != o.Epoch && o.Epoch <= before.Epoch {
			w.wrong("G2: epoch of %s went from %d to %d at %d", name, before.Epoch, o.Epoch, index)
		}
		m.epochs[name] = max(m.epochs[name], o.Epoch, o.Next)
		if m.owners[name] == nil {
			m.owners[name] = map[uint64]string{}
		}
		if old := m.owners[name][o.Epoch]; old != "" && old != o.Active {
			w.wrong("I1a: epoch %d of %s is of %s and of %s", o.Epoch, name, old, o.Active)
		}
		m.owners[name][o.Epoch] = o.Active
	}
}

// answeredFor checks an answer for a stateful service: nobody is answered while it
// moves, each epoch has one cluster, and no node goes back to an older one,
// restarts included (I1a, I1b). It returns whether nobody may be answered.
func (w *watch) answeredFor(node string, t *routing.Table, service string, a routing.Answer) (withheld bool) {
	e, stateful := t.Epoch(service)
	if !stateful {
		return false
	}
	if w.moves.served[node] == nil {
		w.moves.served[node] = map[string][2]uint64{}
	}
	at := [2]uint64{e.Generation, e.Epoch}
	if old := w.moves.served[node][service]; at[0] < old[0] || at[0] == old[0] && at[1] < old[1] {
		w.wrong("I1b: %s answers %s under %v after %v", node, service, at, old)
	}
	w.moves.served[node][service] = at
	if e.Moving {
		if len(a.Clusters) > 0 {
			w.wrong("I1c: %s answers %s with %v while it moves", node, service, a.Clusters)
		}
		return true
	}
	if owner := w.moves.owners[service][e.Epoch]; len(a.Clusters) != 1 || a.Clusters[0] != owner {
		w.wrong("I1a: %s answers %s with %v under epoch %d, which is of %q", node, service, a.Clusters, e.Epoch, owner)
	}
	return false
}
