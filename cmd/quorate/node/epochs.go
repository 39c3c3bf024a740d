package node

import (
	"fmt"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
	"github.com/quorate/quorate/statestore/lkg"
)

// notOnDisk is why a service is withheld whose epoch waits for the disk.
const notOnDisk = "its epoch is not on this node's disk yet"

// markOf is what a node must have on disk before it acts on an ownership: that
// nobody is answered under a reserved epoch is kept as well, since a node that
// acknowledged it must not forget it.
func markOf(o *statestore.Ownership) lkg.Mark {
	if o.Moving() {
		return lkg.Mark{Generation: o.Generation, Epoch: o.Next}
	}
	return lkg.Mark{Generation: o.Generation, Epoch: o.Epoch, Active: lkg.KeyOf(o.Active)}
}

// dueMarks are the marks of st that fl does not hold yet. An unconfirmed service
// has none: what this node knew before the recovery is all there is until a person
// speaks.
func dueMarks(st *statestore.State, fl lkg.Floor) map[lkg.Key]lkg.Mark {
	due := map[lkg.Key]lkg.Mark{}
	for name, run := range st.Services {
		if run.Ownership == nil || run.Ownership.Unconfirmed {
			continue
		}
		key, mark := lkg.KeyOf(name), markOf(run.Ownership)
		if have := fl.Services[key]; have != mark && have.Allows(mark) {
			due[key] = mark
		}
	}
	return due
}

// localTo is what a node with that floor may not answer of st, and what it last
// answered with where st does not know.
func localTo(st *statestore.State, fl lkg.Floor) routing.Local {
	local := routing.Local{Withheld: map[string]string{}, Active: map[string]string{}}
	for name, run := range st.Services {
		o := run.Ownership
		if o == nil {
			continue
		}
		have, had := fl.Services[lkg.KeyOf(name)]
		switch want := markOf(o); {
		case o.Unconfirmed && !had:
		case o.Unconfirmed && have.Active == 0:
			local.Withheld[name] = "a cutover was under way when the installation was recovered"
		case o.Unconfirmed:
			if cluster := named(st.Spec, have.Active); cluster != "" {
				local.Active[name] = cluster
			}
		case have == want:
		case have.Allows(want):
			local.Withheld[name] = notOnDisk
		default:
			local.Withheld[name] = fmt.Sprintf("it has gone on to generation %d, epoch %d before, and waits for a state that has too", have.Generation, have.Epoch)
		}
	}
	return local
}

// named returns the cluster with that key; empty: it is gone.
func named(spec *statestore.Spec, key lkg.Key) string {
	for name := range spec.Clusters {
		if lkg.KeyOf(name) == key {
			return name
		}
	}
	return ""
}
