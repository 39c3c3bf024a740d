package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// Condition is one thing that is supposed: what it is about, and what is so of it.
type Condition struct {
	Of string // a cluster, SERVICE/CLUSTER, a service, a region or a cutover's id
	Is string // down, up, drained, undrained, lost, approved; of a service: the cluster it is pinned to
}

// String returns the condition as people write it.
func (c Condition) String() string { return c.Of + "=" + c.Is }

// What a condition may say of a thing.
const (
	isDown      = "down"
	isUp        = "up"
	isDrained   = "drained"
	isUndrained = "undrained"
	isLost      = "lost"
	isApproved  = "approved"
)

// words are all that a condition can say of anything but a service as a whole, which
// is pinned to the cluster that stands in their place.
var words = []string{isDown, isUp, isDrained, isUndrained, isLost, isApproved}

// pins reports whether the condition pins a service.
func (c Condition) pins() bool {
	return !strings.Contains(c.Of, "/") && !slices.Contains(words, c.Is)
}

// Service returns the service that the condition is about, whether there is such a one
// or not: "" for a condition of a cluster or a region, which may concern any.
func (c Condition) Service(st *statestore.State) string {
	if co := st.Cutovers[c.Of]; co != nil {
		return co.Service
	}
	service, _, one := strings.Cut(c.Of, "/")
	if one || c.pins() {
		return service
	}
	return ""
}

// grammar is what a mistaken condition is answered with.
const grammar = "CLUSTER=down|up|drained|undrained, SERVICE/CLUSTER=down|up, SERVICE=CLUSTER, REGION=lost or CUT-1=approved"

// ParseConditions reads conditions, each text one or several with commas between
// them. All mistakes are in the error. Whether the names exist, Suppose says.
func ParseConditions(texts []string) ([]Condition, error) {
	var conds []Condition
	var errs []error
	bad := func(text, format string, args ...any) {
		errs = append(errs, fmt.Errorf("condition %q: %s", text, fmt.Sprintf(format, args...)))
	}
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			part = strings.TrimSpace(part)
			of, is, ok := strings.Cut(part, "=")
			of, is = strings.TrimSpace(of), strings.TrimSpace(is)
			switch {
			case !ok || of == "" || is == "" || strings.Contains(is, "="):
				bad(part, "must be %s", grammar)
				continue
			case strings.Count(of, "/") > 1 || strings.HasPrefix(of, "/") || strings.HasSuffix(of, "/"):
				bad(part, "must name SERVICE/CLUSTER, is %q", of)
				continue
			case strings.Contains(of, "/") && is != isDown && is != isUp:
				bad(part, "SERVICE/CLUSTER is down or up, is %q", is)
				continue
			}
			c := Condition{of, is}
			i := slices.IndexFunc(conds, func(o Condition) bool { return o.Of == of && contradict(o.Is, is) })
			switch {
			case slices.Contains(conds, c):
			case i >= 0:
				bad(part, "contradicts %s", conds[i])
			default:
				conds = append(conds, c)
			}
		}
	}
	return conds, errors.Join(errs...)
}

// contradict reports whether one thing cannot be both.
func contradict(a, b string) bool {
	kinds := [][]string{{isDown, isUp}, {isDrained, isUndrained}, {isLost}, {isApproved}}
	of := func(is string) int {
		return slices.IndexFunc(kinds, func(k []string) bool { return slices.Contains(k, is) })
	}
	return a != b && of(a) == of(b)
}

// checkConditions returns every condition that speaks of what is not there.
func checkConditions(st *statestore.State, conds []Condition) error {
	var errs []error
	bad := func(c Condition, format string, args ...any) {
		errs = append(errs, fmt.Errorf("condition %q: %s", c, fmt.Sprintf(format, args...)))
	}
	cluster := func(c Condition, name string) bool {
		if st.Spec.Clusters[name] == nil {
			bad(c, "no cluster is named %s; there are %s", name, orNone(sortedKeys(st.Spec.Clusters)))
			return false
		}
		return true
	}
	candidate := func(c Condition, service, name string) {
		switch candidates := st.Spec.Candidates(service); {
		case st.Spec.Services[service] == nil:
			bad(c, "no service is named %s; there are %s", service, orNone(sortedKeys(st.Spec.Services)))
		case cluster(c, name) && !slices.Contains(candidates, name):
			bad(c, "%s is no candidate of %s; they are %s", name, service, orNone(candidates))
		}
	}
	for _, c := range conds {
		service, of, one := strings.Cut(c.Of, "/")
		switch {
		case one:
			candidate(c, service, of)
		case c.Is == isLost:
			if known := regionsOf(st); !slices.Contains(known, c.Of) {
				bad(c, "nothing is in region %s; regions are %s", c.Of, orNone(known))
			}
		case c.Is == isApproved:
			switch co := st.Cutovers[c.Of]; {
			case co == nil:
				bad(c, "there is no cutover %s", c.Of)
			case !co.Phase.Open():
				bad(c, "%s is %s already", c.Of, co.Phase)
			}
		case !c.pins():
			cluster(c, c.Of)
		case st.Spec.Services[c.Of] != nil && st.Spec.Services[c.Of].Stateful != nil:
			bad(c, "%s is stateful and cannot be pinned; a cutover moves it: suppose that one is approved", c.Of)
		case st.Spec.Clusters[c.Of] != nil && st.Spec.Services[c.Of] == nil:
			bad(c, "%s is a cluster, and one is down, up, drained or undrained", c.Of)
		default:
			candidate(c, c.Of, c.Is)
		}
	}
	return errors.Join(errs...)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// regionsOf returns the regions that members or clusters are in, sorted.
func regionsOf(st *statestore.State) []string {
	var all []string
	for _, m := range st.Members {
		all = append(all, m.Region)
	}
	for _, c := range st.Spec.Clusters {
		all = append(all, c.Region)
	}
	return sortedSet(all)
}

// LostRegions returns the regions that the conditions lose.
func LostRegions(conds []Condition) []string {
	var lost []string
	for _, c := range conds {
		if c.Is == isLost {
			lost = append(lost, c.Of)
		}
	}
	return lost
}
