package statestore

import (
	"fmt"
	"maps"

	"github.com/quorate/quorate/health"
)

// Basis returns what a conclusion about the service rests on now.
func (st *State) Basis(service string) Basis {
	b := Basis{
		Spec:     st.Spec.ServiceDigest(service),
		Verdicts: map[health.Target]uint64{},
		Drains:   map[string]uint64{},
		Freeze:   st.FreezeVersion(service),
	}
	stateful := false
	if s, ok := st.Services[service]; ok {
		b.Rotation = s.Rotation.Number
		for t, ts := range s.Targets {
			b.Verdicts[t] = ts.Verdict.Number
		}
		if s.Override != nil {
			b.Override = s.Override.Version
		}
		stateful = s.Ownership != nil
	}
	for _, name := range st.Spec.Candidates(service) {
		c, ok := st.Clusters[name]
		if !ok {
			continue
		}
		b.Drains[name] = c.DrainVersion
		// What a cluster can take says nothing about where a stateful service is.
		if c.Reported != nil && !stateful {
			b.Reports = with(b.Reports, name, c.Reported.Version)
		}
	}
	return b
}

// checkBasis compares exactly what the conclusion read, so that unrelated churn
// never starves it.
func (st *State) checkBasis(service string, got Basis) error {
	want := st.Basis(service)
	var differs string
	switch {
	case got.Spec != want.Spec:
		differs = "the service's effective spec"
	case got.Rotation != want.Rotation:
		differs = fmt.Sprintf("the rotation, which is number %d and not %d", want.Rotation, got.Rotation)
	case !maps.Equal(got.Verdicts, want.Verdicts):
		differs = "a verdict"
	case !maps.Equal(got.Drains, want.Drains):
		differs = "a drain"
	case got.Freeze != want.Freeze:
		differs = "a freeze"
	case got.Override != want.Override:
		differs = "an override"
	case !maps.Equal(got.Reports, want.Reports):
		differs = "a reported capacity"
	default:
		return nil
	}
	return refuse(ErrStale, "service %s: what this rests on has changed: %s", service, differs)
}
