package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// twin is a second service beside web.
func twin(edit func(*statestore.Service)) func(*statestore.Spec) {
	return func(sp *statestore.Spec) {
		s := testService("twin")
		edit(s)
		sp.Services["twin"] = s
	}
}

func carriedBy(cmd statestore.ApplySpec) []string {
	var names []string
	for _, rc := range cmd.Rotations {
		names = append(names, rc.Service)
	}
	return names
}

func moving(d Diff) []string {
	var names []string
	for _, im := range d.Answers {
		if im.Moves {
			names = append(names, im.Service)
		}
	}
	return names
}

// An apply carries what it causes. What automation owes anyway it leaves to automation,
// which asks the freezes and the budget first, and whose basis is as old as an entry.
func TestAnApplyCarriesTheRotationsThatItCauses(t *testing.T) {
	none := func(*statestore.Service) {}
	weights := func(s *statestore.Service) { s.Policy.Weights = map[string]int{"eu": 50, "us": 30, "ap": 20} }
	longer := func(s *statestore.Service) { s.TTL.Normal = statestore.Duration(time.Minute) }
	tests := []struct {
		name   string
		edit   func(*statestore.Spec)
		freeze bool
		want   []string
	}{
		{"nothing changes", func(*statestore.Spec) {}, false, nil},
		{"a zone's records", func(sp *statestore.Spec) {
			zone := *sp.Zones["gslb.example.com."]
			zone.NSTTL = statestore.Duration(2 * time.Hour)
			sp.Zones["gslb.example.com."] = &zone
		}, false, nil},
		{"another service", twin(longer), false, nil},
		{"another service's weights", twin(weights), false, []string{"twin"}},
		{"a new service", func(sp *statestore.Spec) { sp.Services["third"] = testService("third") }, false, []string{"third"}},
		{"its TTL", web(longer), false, nil},
		{"its TTL while it is frozen", web(longer), true, nil},
		{"its weights", web(weights), false, []string{"web"}},
		{"its weights while it is frozen", web(weights), true, []string{"web"}},
		{"its check, with whose verdicts the loss would be forgotten", web(recheckedOn(8080)), false, []string{"web"}},
		{"its check while it is frozen", web(recheckedOn(8080)), true, nil},
		{"a cluster that it answers with goes", func(sp *statestore.Spec) { delete(sp.Clusters, "eu") }, true, []string{"twin", "web"}},
		{"a cluster's networks, which move none of them", func(sp *statestore.Spec) {
			eu := *sp.Clusters["eu"]
			eu.CIDRs = prefixes("203.0.113.0/24")
			sp.Clusters["eu"] = &eu
		}, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, twin(none))
			if tt.freeze {
				w.do(statestore.FreezeService{Service: "web", Reason: "load test"})
			}
			w.judge("web", health.Down, "eu") // and automation has not looked yet
			spec := clone(w.st().Spec, tt.edit)
			cmd := applyOf(w.st(), spec)
			require.Equal(t, tt.want, carriedBy(cmd))
			require.Equal(t, tt.want, moving(DiffSpec(w.st(), spec)), "the plan shows what the apply moves")
			number := w.st().Services["web"].Rotation.Number
			w.do(cmd)
			if len(tt.want) == 0 {
				require.Equal(t, number, w.st().Services["web"].Rotation.Number)
			}
			w.settle()
			require.Equal(t, tt.freeze && len(tt.want) == 0, inPool(w.st().Services["web"].Rotation.V4, "eu", addrs("192.0.2.10")[0]),
				"what the apply left to automation follows, but of what is frozen")
		})
	}
}

// Between the plan and the entry verdicts turn, and what the apply does not cause must
// not make it stale.
func TestAnApplyIsNotStaleForVerdictsOfOthers(t *testing.T) {
	w := upWorld(t, twin(func(*statestore.Service) {}))
	w.judge("web", health.Down, "eu")
	w.settle()
	for _, before := range []health.Side{health.Up, health.Down} {
		w.judge("web", before, "eu", "us") // automation has not looked yet
		cmd := applyOf(w.st(), clone(w.st().Spec, func(sp *statestore.Spec) {
			sp.Services["twin"].Policy.Weights = map[string]int{"eu": 50, "us": 30, "ap": 20 + int(w.index)}
		}))
		require.Equal(t, []string{"twin"}, carriedBy(cmd))
		after := health.Up
		if before == health.Up {
			after = health.Down
		}
		w.judge("web", after, "eu", "us")
		w.do(cmd)
		w.settle()
	}
}

// recheckedOn has a service probed on another port.
func recheckedOn(port int) func(*statestore.Service) {
	return func(s *statestore.Service) {
		check := *s.Checks.All[0]
		check.TCP = &statestore.TCPCheck{Port: port}
		s.Checks.All = []*statestore.Check{&check}
	}
}

// judge has every observer vote side on the clusters for one service.
func (w *world) judge(service string, side health.Side, clusters ...string) {
	w.t.Helper()
	for name := range w.st().Members {
		votes := map[health.Target]health.Vote{}
		for t, ts := range TargetStates(w.st()) {
			votes[t] = ts.Votes[health.ObserverID(name)]
			if t.Service == service && slices.Contains(clusters, t.Cluster) {
				votes[t] = health.Vote{Side: side, Since: epoch}
			}
		}
		w.voteFull(name, votes)
	}
}
