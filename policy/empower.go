package policy

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// Empowered returns where the spec changes who may decide what, sorted: the roles,
// and the approval policies of stateful services that stay. Whoever may apply a spec
// could else give themselves the right to approve.
func Empowered(st *statestore.State, spec *statestore.Spec) []string {
	var paths []string
	for _, c := range CompareSpecs(st.Spec, spec) {
		switch {
		case c.at[0] == "access":
			paths = append(paths, "access")
		case len(c.at) > 3 && c.at[0] == "services" && c.at[2] == "stateful" && c.at[3] == "approval":
			paths = append(paths, strings.Join(c.at[:4], "."))
		}
	}
	return slices.Compact(paths)
}
