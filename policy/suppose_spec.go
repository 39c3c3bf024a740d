package policy

import "github.com/quorate/quorate/statestore"

// SupposeSpec returns the state as applying the spec would leave it, as far as answers
// go: with its rotations, whether Apply would accept it or not. The spec is an
// effective one: see Spec.WithAddresses.
func SupposeSpec(st *statestore.State, spec *statestore.Spec) *statestore.State {
	next := st.Under(spec)
	for name, ss := range next.Services {
		if spec.Services[name].Stateful == nil {
			ss.Ownership = nil // which Apply refuses
		}
	}
	for _, rc := range Rotations(st, spec, nil, nil) {
		ss := next.Services[rc.Service]
		ss.Rotation = statestore.Rotation{
			Number: ss.Rotation.Number + 1, Index: st.Index, At: st.Now, Reason: rc.Reason, V4: rc.V4, V6: rc.V6, Clears: st.Now,
		}
	}
	return next
}
