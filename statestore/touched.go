package statestore

import (
	"maps"
	"reflect"
	"slices"
)

// An entry changes few services, and a table is made anew after each: whoever follows
// the state is told which, so that it need not look at ten thousand.
const (
	maxSteps   = 64  // how far back the state remembers
	maxTouched = 256 // services a step names; one with more says that all may differ
)

// touched is what was changed in a state's services lately. It speaks of one map: a
// state whose Services are set by hand, as what-ifs do, has none.
type touched struct {
	of    map[string]*ServiceState
	mark  *mark
	steps []step // oldest first
}

// mark stands for one map of services, by its address.
type mark struct{ _ byte }

// step is how one map came from another.
type step struct {
	from  *mark
	names []string // in the order of the changes; one may be there twice
	many  bool     // more than are named
}

// setServices replaces all services.
func (st *State) setServices(services map[string]*ServiceState) {
	st.Services, st.touched = services, touched{of: services, mark: &mark{}}
}

// renewServices gives the entry its own map of services, for putService.
func (st *State) renewServices() {
	t := touched{of: maps.Clone(st.Services), mark: &mark{}}
	if st.touched.speaksOf(st.Services) {
		old := st.touched.steps
		old = old[max(0, len(old)-maxSteps+1):]
		t.steps = append(slices.Clone(old), step{from: st.touched.mark})
	}
	st.Services, st.touched = t.of, t
}

// putService sets a service in the map of renewServices.
func (st *State) putService(name string, s *ServiceState) {
	st.Services[name] = s
	if len(st.touched.steps) == 0 {
		return
	}
	last := &st.touched.steps[len(st.touched.steps)-1]
	if len(last.names) < maxTouched {
		last.names = append(last.names, name)
	} else {
		last.many = true
	}
}

// replaceService gives the entry its own map of services with one of them set.
func (st *State) replaceService(name string, s *ServiceState) {
	st.renewServices()
	st.putService(name, s)
}

func (t *touched) speaksOf(services map[string]*ServiceState) bool {
	return t.of != nil && reflect.ValueOf(t.of).UnsafePointer() == reflect.ValueOf(services).UnsafePointer()
}

// ServicesSince returns the names of the services whose state is, or may be, another
// than in an earlier state; a name may be there twice. It reports false where it
// cannot tell: too much lies between, or one of the two is no state of this history.
func (st *State) ServicesSince(earlier *State) (names []string, ok bool) {
	if !st.touched.speaksOf(st.Services) || !earlier.touched.speaksOf(earlier.Services) {
		return nil, false
	}
	if st.touched.mark == earlier.touched.mark {
		return nil, true
	}
	for i := len(st.touched.steps) - 1; i >= 0; i-- {
		s := st.touched.steps[i]
		if s.many {
			return nil, false
		}
		names = append(names, s.names...)
		if s.from == earlier.touched.mark {
			return names, true
		}
	}
	return nil, false
}
