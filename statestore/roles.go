package statestore

import "maps"

// BuiltinRoles returns the roles an installation has when its spec names none.
func BuiltinRoles() map[string]*Role {
	return map[string]*Role{
		"viewer":   {Groups: []string{"viewer"}, Can: []Capability{CanRead}},
		"operator": {Groups: []string{"operator"}, Can: []Capability{CanRead, CanDrain, CanFreeze, CanOverride, CanPropose}},
		"approver": {Groups: []string{"approver"}, Can: []Capability{CanRead, CanPropose, CanApprove, CanWaive}},
		"admin":    {Groups: []string{"admin"}, Can: []Capability{CanAll}},
	}
}

// emptySpec is the spec before the first apply.
func emptySpec() *Spec {
	return &Spec{
		Version:  1,
		Zones:    map[string]*Zone{},
		Clusters: map[string]*Cluster{},
		Services: map[string]*Service{},
		Access:   Access{Roles: BuiltinRoles()},
	}
}

// emptyState is the state before the first entry.
func emptyState() *State { return (&State{Spec: emptySpec()}).filled() }

// filled returns a copy in which every map exists, so that none is told apart
// from an empty one by its encoding.
func (st *State) filled() *State {
	next := *st
	if next.Spec == nil {
		next.Spec = emptySpec()
	}
	fill(&next.Members)
	fill(&next.Observers)
	fill(&next.Services)
	fill(&next.Clusters)
	fill(&next.Freezes)
	fill(&next.Tokens)
	fill(&next.JoinTokens)
	fill(&next.Requests)
	fill(&next.Cutovers)
	return &next
}

func fill[K comparable, V any](m *map[K]V) {
	if *m == nil {
		*m = map[K]V{}
	}
}

// with returns a copy of m in which key is v.
func with[M ~map[K]V, K comparable, V any](m M, key K, v V) M {
	next := make(M, len(m)+1)
	maps.Copy(next, m)
	next[key] = v
	return next
}

// without returns a copy of m without key.
func without[M ~map[K]V, K comparable, V any](m M, key K) M {
	next := make(M, len(m))
	maps.Copy(next, m)
	delete(next, key)
	return next
}
