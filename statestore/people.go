package statestore

import (
	"maps"
	"slices"
	"strings"
)

// Ways in which a person reaches a node. The local socket is root's: it may do
// everything, works without any role, and every signature from it is break-glass.
const (
	ViaToken  = "token"
	ViaSocket = "socket"
	ViaDemo   = "demo"
)

// Automation is the actor, and the proposer, of what nobody asked for by hand.
const Automation = "automation"

// ReservedUser reports whether a name is that of an actor who is no person: the
// record would not tell what a person of that name has done from what nobody did.
func ReservedUser(name string) bool {
	return name == Automation || strings.HasPrefix(name, nodeActor)
}

// Roles returns the roles there are: the spec's, or the built-in ones.
func (st *State) Roles() map[string]*Role {
	if len(st.Spec.Access.Roles) > 0 {
		return st.Spec.Access.Roles
	}
	return BuiltinRoles()
}

// RolesOf names the roles that a token with these groups holds.
func (st *State) RolesOf(token string, groups []string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(st.Roles())) {
		if st.Roles()[name].held(token, groups) {
			names = append(names, name)
		}
	}
	return names
}

// Person returns who the signer counts as where signatures must be of distinct
// people. A token made at the local socket, by init or by no one is its user;
// any other counts as whoever made it, or nobody could be kept from signing twice
// with two tokens. Without a token it is the user.
func (st *State) Person(s Signer) string {
	t, ok := st.Tokens[s.Token]
	if !ok || t.Root || t.Minter == "" {
		return s.User
	}
	return t.Minter
}

// Makers returns the users of whose tokens one is that the signer makes: their own,
// and those that the token they use was made with. Each of them may know its secret.
// What is made at the local socket has none.
func (st *State) Makers(s Signer) []string {
	if s.Via == ViaSocket {
		return nil
	}
	makers := []string{s.User}
	if t, ok := st.Tokens[s.Token]; ok && !t.Root {
		makers = append(makers, t.Makers...)
	}
	slices.Sort(makers)
	return slices.Compact(makers)
}

// signed returns a signature of the signer, of nothing yet.
func (st *State) signed(s Signer) Signature {
	by := Signature{Signer: s, Person: st.Person(s)}
	if t, ok := st.Tokens[s.Token]; ok && !t.Root {
		by.Makers = t.Makers
	}
	return by
}

// names are all names of people who may have made the signature.
func (s Signature) names() []string { return append([]string{s.User, s.Person}, s.Makers...) }

// sharesPerson reports whether one person may have made both signatures. That they
// count as different people is not enough: a user with tokens of two makers would
// sign for both.
func (s Signature) sharesPerson(o Signature) bool {
	names := o.names()
	return slices.ContainsFunc(s.names(), func(n string) bool { return slices.Contains(names, n) })
}

// signedBy reports whether one of the signatures may be by the same person.
func signedBy(signatures []Signature, by Signature) bool {
	return slices.ContainsFunc(signatures, by.sharesPerson)
}

// Proposed reports whether the signer may be the person who proposed the cutover.
func (st *State) Proposed(co *Cutover, s Signer) bool {
	return st.signed(s).sharesPerson(Signature{Signer: Signer{User: co.Proposer}, Person: co.Person, Makers: co.Makers})
}

// Signed returns the signature that counts and may be by the same person as the
// signer; nil when there is none.
func (st *State) Signed(co *Cutover, s Signer) *Signature {
	by := st.signed(s)
	for _, sig := range st.counted(co) {
		if sig.sharesPerson(by) {
			return &sig
		}
	}
	return nil
}

// Can reports whether the signer may do what the capability names for the
// service. The empty service stands for an act on everything, which a role
// limited to some services does not cover.
func (st *State) Can(s Signer, c Capability, service string) bool {
	if s.Via == ViaSocket {
		return true
	}
	groups, err := st.groups(s)
	if err != nil {
		return false
	}
	for _, role := range st.Roles() {
		if role.held(s.Token, groups) && role.can(c, service) {
			return true
		}
	}
	return false
}

// MaySign returns an error unless the signer may sign cutovers of the service,
// and whether the signature is break-glass: no ordinary role lets them sign.
func (st *State) MaySign(s Signer, service string) (breakGlass bool, err error) {
	spec, ok := st.Spec.Services[service]
	if !ok || spec.Stateful == nil {
		return false, refuse(ErrForbidden, "service %s: is not stateful, nobody signs for it", service)
	}
	if s.Via == ViaSocket {
		return true, nil
	}
	groups, err := st.groups(s)
	if err != nil {
		return false, err
	}
	policy, roles := spec.Stateful.Approval, st.Roles()
	lets := func(names, but []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			role := roles[name]
			return role != nil && !slices.Contains(but, name) && role.held(s.Token, groups) && role.can(CanApprove, service)
		})
	}
	switch {
	case lets(policy.From, policy.BreakGlass):
		return false, nil
	case lets(policy.BreakGlass, nil):
		return true, nil
	}
	return false, refuse(ErrForbidden, "service %s: %s may not sign: its approval policy %s takes signatures of the roles %s",
		service, s.User, policy.Name, list(policy.From))
}

// groups returns the signer's groups: those of the state's own record where a
// token was used, which must still be good and of that user.
func (st *State) groups(s Signer) ([]string, error) {
	if s.Token == "" && s.Via != ViaToken {
		return s.Groups, nil
	}
	t, ok := st.Tokens[s.Token]
	switch {
	case !ok:
		return nil, refuse(ErrForbidden, "token %s of %s: not known here any more", s.Token, s.User)
	case passed(st.Now, t.Expires):
		return nil, refuse(ErrForbidden, "token %s of %s: expired", s.Token, s.User)
	case t.User != s.User:
		return nil, refuse(ErrForbidden, "token %s: is not a token of %s", s.Token, s.User)
	}
	return t.Groups, nil
}

// held reports whether a token, or somebody in the groups, has the role.
func (r *Role) held(token string, groups []string) bool {
	if token != "" && slices.Contains(r.Tokens, token) {
		return true
	}
	return slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(groups, g) })
}

func (r *Role) can(c Capability, service string) bool {
	if !slices.Contains(r.Can, c) && !slices.Contains(r.Can, CanAll) {
		return false
	}
	return len(r.Services) == 0 || slices.Contains(r.Services, "*") || service != "" && slices.Contains(r.Services, service)
}
