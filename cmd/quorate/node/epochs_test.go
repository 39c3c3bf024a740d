package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
	"github.com/quorate/quorate/statestore/lkg"
)

// ownedAt is a state with a stateful service, db over eu and us, and a stateless
// one, web on us, at a place in the history of tables.
func ownedAt(tableIndex uint64, o statestore.Ownership) *statestore.State {
	st := stateAt(max(1, o.Generation), tableIndex)
	o.Generation = max(1, o.Generation)
	pool := func(cluster string, addrs []netip.Addr) statestore.Rotation {
		return statestore.Rotation{Number: tableIndex, V4: statestore.Pool{Shares: []statestore.Share{{Cluster: cluster, Weight: 1, Endpoints: addrs}}}}
	}
	eu, us := []netip.Addr{netip.MustParseAddr("192.0.2.10")}, []netip.Addr{netip.MustParseAddr("198.51.100.10")}
	st.Spec.Clusters = map[string]*statestore.Cluster{"eu": {IPv4: eu}, "us": {IPv4: us}}
	service := func(name string) *statestore.Service {
		return &statestore.Service{
			Zone: "gslb.test.", Names: []string{name}, Policy: statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us"}},
			OnStale: statestore.OnStale{Answer: statestore.StaleKeep},
		}
	}
	st.Spec.Services = map[string]*statestore.Service{"db": service("db"), "web": service("web")}
	st.Spec.Services["db"].Stateful = &statestore.Stateful{Preferred: "eu"}
	active := map[string][]netip.Addr{"eu": eu, "us": us}[o.Active]
	st.Services = map[string]*statestore.ServiceState{
		"db":  {Rotation: pool(o.Active, active), Ownership: &o},
		"web": {Rotation: pool("us", us)},
	}
	st.Members = map[string]*statestore.Member{"eu-1": {Name: "eu-1"}}
	if o.Next > 0 {
		st.Cutovers = map[string]*statestore.Cutover{o.Open: {
			ID: o.Open, Service: "db", Source: "eu", Destination: "us", Epoch: o.Epoch, Next: o.Next, Generation: o.Generation, Phase: statestore.Fencing,
		}}
	}
	return st
}

func active(cluster string, epoch uint64) statestore.Ownership {
	return statestore.Ownership{Active: cluster, Epoch: epoch}
}

// fencing is a cutover from eu under way that has reserved next.
func fencing(epoch, next uint64) statestore.Ownership {
	return statestore.Ownership{Active: "eu", Epoch: epoch, Next: next, Open: "CUT-17"}
}

func unconfirmed(cluster string, epoch uint64) statestore.Ownership {
	return statestore.Ownership{Active: cluster, Epoch: epoch, Generation: 2, Unconfirmed: true}
}

// disk is a floor whose writes can fail or hang, and are watched.
type disk struct {
	mu    sync.Mutex
	floor lkg.Floor
	fails error
	hangs chan struct{}
	wrote func()
	tries int
}

func (d *disk) Floor() lkg.Floor {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.floor
}

func (d *disk) SetFloor(fl lkg.Floor) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tries++
	if d.hangs != nil {
		hangs := d.hangs
		d.mu.Unlock()
		<-hangs
		d.mu.Lock()
	}
	if d.fails != nil {
		return d.fails
	}
	if d.wrote != nil {
		d.wrote()
	}
	next := lkg.Floor{Generation: d.floor.Generation, Services: map[lkg.Key]lkg.Mark{}}
	for k, m := range d.floor.Services {
		next.Services[k] = m
	}
	for k, m := range fl.Services {
		next.Services[k] = m
	}
	d.floor = next
	return nil
}

func (d *disk) tried() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries
}

func (d *disk) set(edit func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	edit(d)
}

func testPublisher(f floor) *publisher {
	return &publisher{log: slog.New(slog.DiscardHandler), floor: f, swapped: make(chan struct{}, 1)}
}

// answers is what a publisher's table says to a client: a cluster, or a code.
func answers(p *publisher, service string) string {
	t := p.table.Load()
	if t == nil {
		return "nothing"
	}
	a, _ := routing.Select(t, routing.Query{Name: service + ".gslb.test.", Type: routing.TypeA})
	if a.Kind != routing.NoError {
		return a.Kind.String()
	}
	return a.Clusters[0]
}

func acks(p *publisher, st *statestore.State) []controller.Acknowledgement {
	return acknowledgements(st, p.table.Load(), "eu-1")
}

func TestG2AnEpochIsOnDiskBeforeItIsAnswered(t *testing.T) {
	d := &disk{}
	p := testPublisher(d)
	seen := []string{}
	d.wrote = func() { seen = append(seen, answers(p, "db")) }
	began := ownedAt(11, fencing(12, 13))
	require.NoError(t, p.publish(ownedAt(10, active("eu", 12))))
	require.NoError(t, p.publish(began))
	require.Equal(t, "SERVFAIL", answers(p, "db"))
	require.Equal(t, []controller.Acknowledgement{{Cutover: "CUT-17", Epoch: 13}}, acks(p, began))
	require.NoError(t, p.publish(ownedAt(12, active("us", 13))))
	require.Equal(t, "us", answers(p, "db"))
	require.Equal(t, []string{"nothing", "eu", "SERVFAIL"}, seen, "each write found the table before")
	require.Equal(t, lkg.Mark{Generation: 1, Epoch: 13, Active: lkg.KeyOf("us")}, d.Floor().Services[lkg.KeyOf("db")])
	require.NoError(t, p.publish(ownedAt(13, active("us", 13))))
	require.Equal(t, 3, d.tried(), "what is there is not written again")
}

func TestWhoIsNoMemberOrHasNotSwappedAcknowledgesNothing(t *testing.T) {
	p := testPublisher(&disk{})
	began := ownedAt(11, fencing(12, 13))
	require.Empty(t, acknowledgements(began, nil, "eu-1"), "no table")
	require.NoError(t, p.publish(ownedAt(10, active("eu", 12))))
	require.Empty(t, acks(p, began), "the table before")
	require.NoError(t, p.publish(ownedAt(11, fencing(12, 13))))
	require.Len(t, acks(p, began), 1)
	require.Empty(t, acknowledgements(began, p.table.Load(), "us-1"))
	require.Empty(t, acks(p, ownedAt(12, active("us", 13))), "it ended")
	require.Empty(t, acks(p, ownedAt(12, fencing(14, 15))), "another one")
}

// feed is where a running publisher's states come from.
type feed struct {
	mu      sync.Mutex
	st      *statestore.State
	changed chan struct{}
}

func (f *feed) State() *statestore.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st
}

func (f *feed) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// put hands in a state and waits until the publisher has done what it does at once.
func (f *feed) put(st *statestore.State) {
	f.mu.Lock()
	f.st = st
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	synctest.Wait()
}

// whileRunning runs test beside a publisher whose db is on eu under epoch 12.
func whileRunning(t *testing.T, test func(p *publisher, d *disk, f *feed)) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		p, f := testPublisher(d), &feed{st: ownedAt(10, active("eu", 12)), changed: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.run(ctx, f) })
		synctest.Wait()
		require.Equal(t, "eu", answers(p, "db"))
		test(p, d, f)
		stop()
		wg.Wait()
	})
}

// A node that cannot make the new epoch durable withholds that service, does not
// acknowledge, keeps trying, and everything else goes on.
func TestG2AFailingDiskWithholdsThatServiceOnly(t *testing.T) {
	whileRunning(t, func(p *publisher, d *disk, f *feed) {
		d.set(func(d *disk) { d.fails = errors.New("input/output error") })
		began := ownedAt(11, fencing(12, 13))
		f.put(began)
		require.Equal(t, "SERVFAIL", answers(p, "db"))
		require.Empty(t, acks(p, began), "not durable, not acknowledged")
		require.Equal(t, "us", answers(p, "web"))
		require.EqualValues(t, 11, p.table.Load().Index, "the table goes on")

		published := ownedAt(12, active("us", 13))
		f.put(published)
		require.Equal(t, "SERVFAIL", answers(p, "db"), "nor is the destination answered")
		e, _ := p.table.Load().Epoch("db")
		require.Equal(t, "its epoch is not on this node's disk yet: input/output error", e.Withheld)
		tries := d.tried()
		time.Sleep(10 * floorRetry)
		require.InDelta(t, tries+10, d.tried(), 1, "it goes on trying, at its pace")

		d.set(func(d *disk) { d.fails = nil })
		time.Sleep(floorRetry)
		synctest.Wait()
		require.Equal(t, "us", answers(p, "db"))
		require.EqualValues(t, 12, p.table.Load().Index)
		tries = d.tried()
		time.Sleep(time.Minute)
		require.Equal(t, tries, d.tried(), "nothing is left to write")
	})
}

func TestAMendedDiskAcknowledgesLate(t *testing.T) {
	whileRunning(t, func(p *publisher, d *disk, f *feed) {
		d.set(func(d *disk) { d.fails = errors.New("no space left on device") })
		began := ownedAt(11, fencing(12, 13))
		f.put(began)
		require.Empty(t, acks(p, began))
		<-p.swapped
		d.set(func(d *disk) { d.fails = nil })
		time.Sleep(floorRetry)
		synctest.Wait()
		<-p.swapped // who acknowledges is told at once
		require.Len(t, acks(p, began), 1)
	})
}

// A disk that hangs costs other services one short wait, and then nothing.
func TestAHangingDiskStopsNoTable(t *testing.T) {
	whileRunning(t, func(p *publisher, d *disk, f *feed) {
		hang := make(chan struct{})
		d.set(func(d *disk) { d.hangs = hang })
		began := ownedAt(11, fencing(12, 13))
		start := time.Now()
		f.put(began)
		require.Equal(t, "eu", answers(p, "db"), "the table before, while it may be a matter of milliseconds")
		time.Sleep(floorWait)
		synctest.Wait()
		require.Equal(t, "SERVFAIL", answers(p, "db"))
		require.Empty(t, acks(p, began))
		for i := range uint64(20) {
			f.put(ownedAt(12+i, fencing(12, 13)))
			require.Equal(t, 12+i, p.table.Load().Index)
		}
		require.Equal(t, floorWait, time.Since(start), "once")
		d.set(func(d *disk) { d.hangs = nil })
		close(hang)
		synctest.Wait()
		require.Len(t, acks(p, began), 1, "it came through after all")
	})
}

// Another service's epoch does not wait for the retry of one that cannot be kept.
func TestANewEpochIsWrittenAtOnce(t *testing.T) {
	whileRunning(t, func(p *publisher, d *disk, f *feed) {
		d.set(func(d *disk) { d.fails = errors.New("input/output error") })
		f.put(ownedAt(11, fencing(12, 13)))
		d.set(func(d *disk) { d.fails = nil })
		f.put(ownedAt(12, active("us", 13)))
		require.Equal(t, "us", answers(p, "db"))
	})
}

// openFloor is a real file; closing and opening it again is a restart.
func openFloor(t *testing.T, dir string) *lkg.File {
	t.Helper()
	f, err := lkg.Open(dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestG2ARestartBelowTheFloorAnswersNothingOld: the journal is flushed apart from
// the floor, so a crash may leave an older state than was acknowledged.
func TestG2ARestartBelowTheFloorAnswersNothingOld(t *testing.T) {
	old := func() *statestore.State { return ownedAt(10, active("eu", 12)) }
	tests := []struct {
		name  string
		had   statestore.Ownership // went to before the crash
		then  statestore.Ownership // heard after it
		after string
	}{
		{"while it moved", fencing(12, 13), fencing(12, 13), "SERVFAIL"},
		{"published meanwhile", fencing(12, 13), active("us", 13), "us"},
		{"aborted meanwhile", fencing(12, 13), active("eu", 14), "eu"},
		{"after it was published", active("us", 13), active("us", 13), "us"},
		{"after it was published, still behind", active("us", 13), fencing(12, 13), "SERVFAIL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			p := testPublisher(openFloor(t, dir))
			require.NoError(t, p.publish(old()))
			require.NoError(t, p.publish(ownedAt(11, tt.had)))

			p = testPublisher(openFloor(t, dir))
			require.NoError(t, p.publish(old()))
			require.Equal(t, "SERVFAIL", answers(p, "db"), "withheld")
			require.Equal(t, "us", answers(p, "web"))
			e, _ := p.table.Load().Epoch("db")
			require.Equal(t, "it has gone on to generation 1, epoch 13 before, and waits for a state that has too", e.Withheld)
			require.NoError(t, p.publish(ownedAt(12, tt.then)))
			require.Equal(t, tt.after, answers(p, "db"))
		})
	}
}

func TestAnUnconfirmedServiceAnswersWhatThisNodeKnew(t *testing.T) {
	tests := []struct {
		name string
		had  []statestore.Ownership // this node went to before the recovery
		on   statestore.StaleAnswer
		want string
	}{
		{"what it last answered", []statestore.Ownership{active("eu", 12), active("us", 13)}, statestore.StaleRefuse, "us"},
		{"what the state says, where it knows nothing", nil, statestore.StaleKeep, "eu"},
		{"nobody, where it knows nothing and on_stale says so", nil, statestore.StaleServFail, "SERVFAIL"},
		{"nobody, where a cutover was under way", []statestore.Ownership{active("eu", 12), fencing(12, 13)}, statestore.StaleKeep, "SERVFAIL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			p := testPublisher(openFloor(t, dir))
			for i, o := range tt.had {
				require.NoError(t, p.publish(ownedAt(uint64(10+i), o)))
			}
			before := p.floor.Floor()
			recovered := ownedAt(3, unconfirmed("eu", 12))
			recovered.Spec.Services["db"].OnStale.Answer = tt.on
			for range 2 { // the recovery, and a restart after it
				require.NoError(t, p.publish(recovered))
				require.Equal(t, tt.want, answers(p, "db"))
				require.Equal(t, before.Services, p.floor.Floor().Services, "nothing is known better")
				p = testPublisher(openFloor(t, dir))
			}
			confirmed := ownedAt(4, statestore.Ownership{Active: "us", Epoch: 14, Generation: 2})
			require.NoError(t, p.publish(confirmed))
			require.Equal(t, "us", answers(p, "db"))
		})
	}
}

// TestI1ADelayedNodeNeverGoesBack is the shape of AWS us-east-1: what a node hears
// and what it finds on its disk come late, twice and in any order, with crashes
// and a failing disk in between. What it answers never sinks in (generation,
// epoch), and one epoch has one cluster.
func TestI1ADelayedNodeNeverGoesBack(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		history := drawHistory(rt)
		dir, err := os.MkdirTemp(root, "")
		require.NoError(rt, err)
		file, err := lkg.Open(dir, nil)
		require.NoError(rt, err)
		defer func() { _ = file.Close() }()
		d := &flaky{File: file}
		p := testPublisher(d)
		var highest lkg.Mark
		side := map[[2]uint64]string{}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			d.fails = rapid.IntRange(0, 4).Draw(rt, "disk") == 0
			if rapid.IntRange(0, 4).Draw(rt, "crash") == 0 {
				p = testPublisher(d)
			}
			require.NoError(rt, p.publish(rapid.SampledFrom(history).Draw(rt, "heard")))
			e, ok := p.table.Load().Epoch("db")
			require.True(rt, ok)
			if e.Answers == "" {
				require.Equal(rt, "SERVFAIL", answers(p, "db"))
				continue
			}
			require.Equal(rt, e.Answers, answers(p, "db"))
			at := lkg.Mark{Generation: e.Generation, Epoch: e.Epoch, Active: lkg.KeyOf(e.Answers)}
			require.True(rt, highest.Allows(at), "%v after %v", at, highest)
			highest = at
			require.Contains(rt, []string{"", e.Answers}, side[[2]uint64{e.Generation, e.Epoch}])
			side[[2]uint64{e.Generation, e.Epoch}] = e.Answers
		}
	})
}

// drawHistory is a line of states: cutovers that begin, and are published or aborted.
func drawHistory(rt *rapid.T) []*statestore.State {
	now := active("eu", 1)
	list := []*statestore.State{ownedAt(1, now)}
	for i := range rapid.IntRange(1, 6).Draw(rt, "cutovers") {
		began := now
		began.Next, began.Open = now.Epoch+1, fmt.Sprintf("CUT-%d", i)
		now = statestore.Ownership{Active: map[string]string{"eu": "us", "us": "eu"}[now.Active], Epoch: began.Next}
		if rapid.Bool().Draw(rt, "aborted") {
			now = statestore.Ownership{Active: began.Active, Epoch: began.Next + 1}
		}
		list = append(list, ownedAt(uint64(2*i+2), began), ownedAt(uint64(2*i+3), now))
	}
	return list
}

// flaky is a real floor whose writes may fail.
type flaky struct {
	*lkg.File
	fails bool
}

func (f *flaky) SetFloor(fl lkg.Floor) error {
	if f.fails {
		return errors.New("input/output error")
	}
	return f.File.SetFloor(fl)
}
