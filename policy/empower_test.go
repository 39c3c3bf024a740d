package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestWhatOfASpecChangesWhoDecides(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*statestore.Spec)
		want []string
	}{
		{"nothing", func(*statestore.Spec) {}, nil},
		{"the built-in roles written out", func(sp *statestore.Spec) { sp.Access.Roles = statestore.BuiltinRoles() }, nil},
		{"a role", func(sp *statestore.Spec) {
			sp.Access.Roles = statestore.BuiltinRoles()
			sp.Access.Roles["mine"] = &statestore.Role{Groups: []string{"me"}, Can: []statestore.Capability{statestore.CanApprove}}
		}, []string{"access"}},
		{"several things of a policy", func(sp *statestore.Spec) {
			a := &sp.Services["db"].Stateful.Approval
			a.Required, a.ProposerMayApprove, a.From = 9, !a.ProposerMayApprove, []string{"admin"}
		}, []string{"services.db.stateful.approval"}},
		{"what a policy does not say", func(sp *statestore.Spec) { sp.Services["db"].Stateful.Cooldown++ }, nil},
		{"a service that is new", func(sp *statestore.Spec) {
			more := *sp.Services["db"]
			more.Names = []string{"more"}
			sp.Services["more"] = &more
		}, nil},
		{"a service that goes", func(sp *statestore.Spec) { delete(sp.Services, "db") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			require.Equal(t, tt.want, Empowered(w.st(), edited(w, tt.edit)))
		})
	}
}
