package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// matches says which clusters the selectors pick of services that are new in spec or
// that pick others than they did: what a selector takes in is not seen in its text.
func matches(old, spec *statestore.Spec) []apitype.Match {
	out := []apitype.Match{}
	now, before := picks(spec), picks(old)
	for _, name := range sortedKeys(spec.Services) {
		is, was := now(name), before(name)
		if old.Services[name] != nil && slices.Equal(is, was) {
			continue
		}
		m := apitype.Match{Service: name, Selector: selectorText(spec.Services[name].Clusters), Clusters: orEmpty(is)}
		if old.Services[name] != nil {
			m.Came, m.Went = missing(is, was), missing(was, is)
		}
		out = append(out, m)
	}
	return out
}

// picks returns the candidates of the services of a spec. Many services have one
// selector, which is read once.
func picks(sp *statestore.Spec) func(service string) []string {
	known := map[string][]string{}
	return func(service string) []string {
		svc := sp.Services[service]
		if svc == nil {
			return nil
		}
		key := fmt.Sprintf("%q", svc.Clusters)
		list, ok := known[key]
		if !ok {
			list = sp.Candidates(service)
			known[key] = list
		}
		return list
	}
}

// missing returns what of list is not in of.
func missing(list, of []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(of, s) })
}

// selectorText writes a selector as people do.
func selectorText(s statestore.Selector) string {
	text := s.Match
	switch {
	case len(s.Only) > 0:
		text = "only " + strings.Join(s.Only, ", ")
	case text == "":
		text = "all clusters"
	}
	if len(s.Exclude) > 0 {
		text += ", without " + strings.Join(s.Exclude, ", ")
	}
	return text
}
