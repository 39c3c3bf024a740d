package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// knot returns what the evidence of moving db to us as an emergency is made of,
// counted in another way: no gate, no digest.
func (w *world) knot() string {
	st := w.st()
	side := func(cluster string) health.Side {
		return st.Services["db"].Targets[health.Target{Service: "db", Cluster: cluster, Endpoint: st.Spec.Clusters[cluster].IPv4[0]}].Verdict.Side
	}
	var silent []string
	for id, o := range st.Observers {
		if o.Silent {
			silent = append(silent, string(id))
		}
	}
	slices.Sort(silent)
	frozen := st.Freezes["db"] != nil || st.Freezes[""] != nil
	drained := st.Clusters["us"].Drain != nil && (len(st.Clusters["us"].Drain.Services) == 0 || slices.Contains(st.Clusters["us"].Drain.Services, "db"))
	s := st.Spec.Services["db"]
	return fmt.Sprint(side("eu"), side("us"), drained || side("us") == health.Down, silent, frozen, s.TTL, s.Stateful.Approval.TTL)
}

// TestEvidenceChangesExactlyWithWhatPeopleSign drives an installation at random:
// equal facts have one digest, other facts another, and verdict numbers, revisions,
// ages and flaps that came back are none of it.
func TestEvidenceChangesExactlyWithWhatPeopleSign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testSpec(db()), regions...)
		w.all(health.Up, "eu", "us", "ap")
		digests, knots := map[string]string{}, map[string]string{}
		changes := 0
		look := func() {
			digest := Evidence(w.st(), Move{Service: "db", To: "us", Kind: statestore.Emergency}).Digest()
			knot := w.knot()
			if known, seen := digests[knot]; seen {
				require.Equal(t, known, digest, "the same facts: %s", knot)
			}
			if known, seen := knots[digest]; seen {
				require.Equal(t, known, knot, "the same digest")
			}
			digests[knot], knots[digest] = digest, knot
		}
		look()
		t.Repeat(map[string]func(*rapid.T){
			"vote": func(t *rapid.T) {
				observer := rapid.SampledFrom([]string{"eu-1", "us-1", "ap-1"}).Draw(t, "observer")
				w.vote(observer, rapid.SampledFrom([]health.Side{health.Up, health.Down, health.Unknown}).Draw(t, "side"),
					rapid.SampledFrom([]string{"eu", "us", "ap"}).Draw(t, "cluster"))
			},
			"flap": func(t *rapid.T) {
				cluster := rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "cluster")
				w.all(health.Down, cluster)
				w.all(health.Up, cluster)
			},
			"silence": func(t *rapid.T) {
				observer := rapid.SampledFrom([]string{"us-1", "ap-1"}).Draw(t, "observer")
				if !w.st().Observers[health.ObserverID(observer)].Silent {
					w.silent(observer)
				}
			},
			"freeze": func(t *rapid.T) {
				service := rapid.SampledFrom([]string{"", "db", "web"}).Draw(t, "service")
				if w.st().Freezes[service] == nil {
					w.do(statestore.FreezeService{Service: service, Reason: "look"})
				} else {
					w.do(statestore.ThawService{Service: service, Reason: "seen"})
				}
			},
			"drain": func(t *rapid.T) {
				services := rapid.SampledFrom([][]string{nil, {"db"}, {"web"}}).Draw(t, "services")
				if w.st().Clusters["us"].Drain != nil {
					_ = w.try(statestore.UndrainCluster{Cluster: "us", Rotations: UndrainRotations(w.st(), "us")}) // a floor may forbid it
				} else {
					_ = w.try(statestore.DrainCluster{Cluster: "us", Services: services, Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", services)})
				}
			},
			"apply": func(t *rapid.T) {
				changes++
				spec := clone(w.st().Spec)
				if rapid.Bool().Draw(t, "of db") {
					spec.Services["db"].TTL.Normal = statestore.Duration(rapid.IntRange(20, 22).Draw(t, "ttl")) * minute / 60
				} else {
					spec.Services["web"].TTL.Normal = statestore.Duration(30+changes) * minute / 60
				}
				w.do(applyOf(w.st(), spec))
			},
			"pass": func(t *rapid.T) { w.pass(time.Duration(rapid.IntRange(1, 7200).Draw(t, "seconds")) * time.Second) },
			"":     func(*rapid.T) { look() },
		})
	})
}

func TestAFailbackThatRipensIsOtherEvidenceOnce(t *testing.T) {
	w := dbWorld(t, func(s *statestore.Service) { s.Stateful.Cooldown = 0 })
	w.move(statestore.Planned, "us")
	w.all(health.Down, "eu")
	w.all(health.Up, "eu")
	digest := func() string {
		return Evidence(w.st(), Move{Service: "db", Kind: statestore.Back}).Digest()
	}
	fresh := digest()
	w.pass(9 * time.Minute)
	require.Equal(t, fresh, digest(), "its age is a last digit")
	w.pass(time.Minute)
	ripe := digest()
	require.NotEqual(t, fresh, ripe)
	w.pass(time.Hour)
	require.Equal(t, ripe, digest())
}

func TestEvidenceOfWhatCannotBeIsNone(t *testing.T) {
	w := dbWorld(t)
	require.Zero(t, Evidence(w.st(), Move{Service: "web", Kind: statestore.Planned}))
	require.Zero(t, Evidence(w.st(), Move{Service: "db", To: "eu", Kind: statestore.Planned}))
}

func TestAnElectionAloneIsNoOtherEvidence(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.do(statestore.ConfirmObservers{Reset: true, Observers: map[health.ObserverID]uint64{}})
	require.Empty(t, w.planned(Waits{}), "nobody is heard yet, and nothing is void")
	require.Len(t, w.open().Signatures, 1)
}
