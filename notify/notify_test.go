package notify

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestEventsReachAReceiverWithWhatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		lead(t, b.n, func() {
			time.Sleep(time.Second)
			id := b.event("cutover.proposed", "services/db")
			synctest.Wait()
			got := b.net["bus"].requests()
			require.Len(t, got, 1, "nothing of the time before the receiver")
			r := got[0]
			require.Equal(t, id, r.id)
			require.Equal(t, "application/cloudevents+json", r.header.Get("Content-Type"))
			require.Equal(t, strconv.FormatUint(id, 10), r.header.Get(HeaderEvent))
			require.Equal(t, "1", r.header.Get(HeaderGeneration))
			require.Equal(t, strconv.FormatInt(time.Now().Unix(), 10), r.header.Get(HeaderTimestamp))
			want, err := encode(b.State().Events[len(b.State().Events)-1])
			require.NoError(t, err)
			require.Equal(t, want, r.body)
			require.NoError(t, Verify([]byte("c4nary-bus"), r.header, r.body, time.Now(), time.Minute))
			require.EqualValues(t, 1, b.metric(t, "quorate_notifications_total", "receiver", "bus", "type", "cutover.proposed"))
			require.EqualValues(t, 1, b.metric(t, "quorate_notification_latency_seconds", "receiver", "bus"))
		})
		require.Empty(t, b.log.String(), "a receiver that is well is worth no line")
	})
}

// What fails is tried again before anything later of its subject, and holds up no
// other subject.
func TestEventsOfASubjectComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		b.net["bus"].answers(func(w http.ResponseWriter, _ *http.Request, got request) {
			if got.subject == "services/db" {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusOK)
		})
		lead(t, b.n, func() {
			var db, web []uint64
			for range 5 {
				db = append(db, b.event("cutover.signed", "services/db"))
				web = append(web, b.event("rotation.changed", "services/web"))
			}
			time.Sleep(10 * time.Second)
			require.Equal(t, web, b.net["bus"].ids("services/web"), "another subject goes on")
			require.Equal(t, []uint64{db[0]}, slices.Compact(b.net["bus"].ids("services/db")), "the first blocks the later ones")
			require.Equal(t, db[0]-1, b.cursor("bus"), "the next leader begins with what was not taken")
			b.net["bus"].answers(nil)
			time.Sleep(10 * time.Second)
			require.Equal(t, db, slices.Compact(b.net["bus"].ids("services/db")))
			require.Equal(t, web, b.net["bus"].ids("services/web"), "nothing twice")
			require.Equal(t, b.State().Events[len(b.State().Events)-1].Index, b.cursor("bus"))
		})
	})
}

func TestFailuresAreTriedAgainLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		b.net["bus"].answers(func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(http.StatusTeapot) })
		lead(t, b.n, func() {
			start := time.Now()
			b.event("spec.applied", "config")
			time.Sleep(5 * time.Minute)
			var after []time.Duration
			for _, r := range b.net["bus"].requests() {
				after = append(after, r.at.Sub(start))
			}
			s := time.Second
			require.Equal(t, []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s, 243 * s}, after)
		})
	})
}

// For a day of log time; then it is counted, told to the log and let go, and what
// waited behind it goes on.
func TestAnEventIsGivenUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		b.net["bus"].answers(func(w http.ResponseWriter, _ *http.Request, got request) {
			if got.id == b.net["bus"].ids("")[0] {
				w.WriteHeader(http.StatusBadRequest)
			}
		})
		lead(t, b.n, func() {
			first := b.event("spec.applied", "config")
			time.Sleep(12 * time.Hour)
			second := b.event("spec.applied", "config")
			time.Sleep(11 * time.Hour)
			require.NotContains(t, b.net["bus"].ids(""), second)
			require.Less(t, b.cursor("bus"), first)
			time.Sleep(2 * time.Hour)
			b.change(func(*statestore.State) {}) // log time moves on
			time.Sleep(2 * time.Minute)
			require.Contains(t, b.net["bus"].ids(""), second)
			require.EqualValues(t, 1, b.metric(t, "quorate_notifications_failed_total", "receiver", "bus", "reason", "expired"))
			require.Equal(t, second, b.cursor("bus"))
		})
		require.Contains(t, b.log.String(), "event given up: its receiver did not take it for a day")
	})
}

// Every event comes at least once, under the same id, over any number of leaders,
// and what a cursor covers does not come again.
func TestTheNextLeaderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		var all []uint64
		for leader := range 20 {
			n := b.node(nil)
			lead(t, n, func() {
				covered := b.cursor("bus")
				before := len(b.net["bus"].ids(""))
				for range 7 {
					all = append(all, b.event("rotation.changed", "services/web"))
					if leader%2 == 0 { // else the leader is gone before it has sent all
						time.Sleep(300 * time.Millisecond)
					}
				}
				synctest.Wait()
				for _, id := range b.net["bus"].ids("")[before:] {
					require.Greater(t, id, covered, "the cursor covers it")
				}
			})
			if leader%3 == 0 {
				all = append(all, b.event("rotation.changed", "services/web")) // while nobody leads
			}
		}
		lead(t, b.node(nil), func() { time.Sleep(3 * time.Second) })
		got := b.net["bus"].ids("")
		require.Equal(t, all, firsts(got), "each at least once, first heard in order")
		require.Less(t, len(got), 2*len(all))
		// Nothing is left: another leader sends nothing.
		lead(t, b.node(nil), func() { time.Sleep(time.Minute) })
		require.Len(t, b.net["bus"].ids(""), len(got))
	})
}

// firsts returns list without what it has seen before.
func firsts(list []uint64) []uint64 {
	var out []uint64
	for _, id := range list {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// A leader that ends in the middle of a request does not note it as told.
func TestWhatWasUnderWayIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		b.net["bus"].answers(func(_ http.ResponseWriter, r *http.Request, _ request) { <-r.Context().Done() })
		var id uint64
		lead(t, b.n, func() {
			id = b.event("cutover.published", "services/db")
			time.Sleep(3 * time.Second)
		})
		require.Less(t, b.cursor("bus"), id)
		require.Empty(t, b.log.String(), "the receiver did not fail")
		require.Zero(t, b.metric(t, "quorate_notifications_failed_total", "receiver", "bus", "reason", "connection"))
		b.net["bus"].answers(nil)
		lead(t, b.node(nil), func() { time.Sleep(2 * time.Second) })
		require.Equal(t, []uint64{id, id}, b.net["bus"].ids(""))
		require.Equal(t, id, b.cursor("bus"))
	})
}

func TestAHangingReceiverDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus", "slow")
		b.net["slow"].answers(func(_ http.ResponseWriter, r *http.Request, _ request) { <-r.Context().Done() })
		lead(t, b.n, func() {
			var ids []uint64
			for i := range 100 {
				start := time.Now()
				ids = append(ids, b.event("member.changed", "members/n"+strconv.Itoa(i%10)))
				synctest.Wait()
				require.Zero(t, time.Since(start))
				require.Len(t, b.net["bus"].requests(), i+1)
				time.Sleep(50 * time.Millisecond)
			}
			require.Equal(t, ids, b.net["bus"].ids(""))
			require.LessOrEqual(t, len(b.net["slow"].requests()), maxTogether, "requests to one receiver are bounded")
			time.Sleep(10 * time.Second)
			require.GreaterOrEqual(t, b.metric(t, "quorate_notifications_failed_total", "receiver", "slow", "reason", "timeout"), 1.0)
		})
	})
}

// A receiver that answers and then never ends its answer has taken the event.
func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		var read atomic.Int64
		b.net["bus"].answers(func(w http.ResponseWriter, r *http.Request, _ request) {
			for r.Context().Err() == nil {
				n, err := w.Write(make([]byte, 1024))
				if read.Add(int64(n)) > 1<<20 || err != nil {
					return
				}
			}
		})
		lead(t, b.n, func() {
			id := b.event("cutover.proposed", "services/db")
			time.Sleep(2 * time.Second)
			require.Equal(t, []uint64{id}, b.net["bus"].ids(""))
			require.Equal(t, id, b.cursor("bus"))
		})
		require.Less(t, read.Load(), int64(256<<10))
	})
}

func TestCursorsCostFewEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		lead(t, b.n, func() {
			time.Sleep(2 * time.Second)
			first := b.noted()
			for range 1000 { // ten seconds of a hundred a second
				b.event("rotation.changed", "services/web")
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			require.LessOrEqual(t, b.noted()-first, 12)
			quiet := b.noted()
			time.Sleep(time.Hour)
			require.Equal(t, quiet, b.noted(), "an idle log stays idle")
		})
	})
}

// Without a quorum nothing is committed; telling goes on, and the cursor follows
// once there is one.
func TestCursorsWaitForAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		lead(t, b.n, func() {
			time.Sleep(2 * time.Second)
			before := b.cursor("bus")
			b.fail(true)
			id := b.event("rotation.changed", "services/web")
			time.Sleep(5 * time.Second)
			require.Equal(t, []uint64{id}, b.net["bus"].ids(""))
			require.Equal(t, before, b.cursor("bus"))
			b.fail(false)
			time.Sleep(2 * time.Second)
			require.Equal(t, id, b.cursor("bus"))
		})
	})
}

// Events that no route picks cost an entry once in a thousand, so that the cursor
// stays within the history that is kept.
func TestTheCursorFollowsWhatIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		only := hooks("bus")
		only.Routes[0].Types = []string{"cutover.*"}
		b.apply(only)
		lead(t, b.n, func() {
			time.Sleep(2 * time.Second)
			first := b.noted()
			for range 5 * maxPassed {
				b.event("verdict.changed", "services/web")
				time.Sleep(10 * time.Millisecond)
			}
			require.GreaterOrEqual(t, b.noted()-first, 4)
			require.LessOrEqual(t, b.noted()-first, 5)
			require.Greater(t, b.cursor("bus")+maxPassed+200, b.State().Index)
		})
		require.Empty(t, b.net["bus"].ids(""))
	})
}

// On a quiet log it follows once a day, since history has an age too.
func TestTheCursorFollowsOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		only := hooks("bus")
		only.Routes[0].Types = []string{"cutover.*"}
		b.apply(only)
		lead(t, b.n, func() {
			time.Sleep(2 * time.Second)
			first := b.noted()
			for range 10 * 24 {
				b.event("verdict.changed", "services/web")
				time.Sleep(time.Hour)
			}
			require.InDelta(t, 10, b.noted()-first, 1)
		})
	})
}

func TestHistoryThatIsGoneIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		for range 10 {
			b.event("rotation.changed", "services/web")
		}
		b.change(func(st *statestore.State) { st.Events = st.Events[len(st.Events)-3:] })
		lead(t, b.n, func() { time.Sleep(2 * time.Second) })
		require.Len(t, b.net["bus"].ids(""), 3)
		require.EqualValues(t, 1, b.metric(t, "quorate_notifications_failed_total", "receiver", "bus", "reason", "history"))
		require.Contains(t, b.log.String(), "events were dropped from history before a receiver was told them")
	})
}

// An event that is dropped from history while it waits holds up nothing for ever.
func TestAnEventThatIsGoneIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		b.net["bus"].answers(func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(http.StatusBadGateway) })
		lead(t, b.n, func() {
			b.event("rotation.changed", "services/web")
			b.event("rotation.changed", "services/web")
			time.Sleep(500 * time.Millisecond)
			last := b.event("rotation.changed", "services/web")
			synctest.Wait()
			b.change(func(st *statestore.State) { st.Events = st.Events[len(st.Events)-1:] })
			b.net["bus"].answers(nil)
			time.Sleep(time.Minute)
			require.Equal(t, last, b.cursor("bus"))
			require.Contains(t, b.net["bus"].ids(""), last)
			require.EqualValues(t, 2, b.metric(t, "quorate_notifications_failed_total", "receiver", "bus", "reason", "history"))
		})
		require.Equal(t, 2, strings.Count(b.log.String(), "event dropped from history before its receiver took it"))
	})
}

// What waits is bounded; the rest follows when there is room.
func TestABacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		b.net["bus"].answers(func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(http.StatusBadGateway) })
		var ids []uint64
		for range maxWaiting + 500 {
			ids = append(ids, b.event("rotation.changed", "services/web"))
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		tn := &tenure{Notifier: b.n, room: make(chan struct{}, 1), moved: make(chan struct{}, 1), lines: map[string]*line{}}
		tn.feed(ctx, b.State())
		l := tn.lines["bus"]
		l.mu.Lock()
		require.Equal(t, maxWaiting, l.waiting)
		require.Equal(t, ids[maxWaiting-1], l.read)
		l.mu.Unlock()
		stop()
		tn.wg.Wait()

		b.net["bus"].answers(nil)
		lead(t, b.node(nil), func() { time.Sleep(time.Minute) })
		require.Equal(t, ids, firsts(b.net["bus"].ids("")))
	})
}

func TestAReceiverThatIsRemovedIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus", "old")
		b.net["old"].answers(func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(http.StatusBadGateway) })
		lead(t, b.n, func() {
			b.event("rotation.changed", "services/web")
			time.Sleep(time.Second)
			b.apply(hooks("bus"))
			b.event("rotation.changed", "services/web")
			time.Sleep(time.Second)
			tries := len(b.net["old"].requests())
			time.Sleep(time.Hour)
			require.Len(t, b.net["old"].requests(), tries)
			require.EqualValues(t, -1, b.metric(t, "quorate_notifications_failed_total", "receiver", "old", "reason", "status"), "its series are gone")

			// It comes back and hears of nothing from before.
			b.net["old"].answers(nil)
			b.apply(hooks("bus", "old"))
			back := b.State().Index
			id := b.event("rotation.changed", "services/web")
			time.Sleep(time.Minute)
			require.Equal(t, []uint64{id}, b.net["old"].ids("")[tries:])
			require.Greater(t, b.cursor("old"), back)
		})
	})
}
