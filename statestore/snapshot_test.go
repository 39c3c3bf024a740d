package statestore

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
)

var update = flag.Bool("update", false, "rewrite golden files")

func snapshotOf(t require.TestingT, st *State) []byte {
	var b bytes.Buffer
	require.NoError(t, WriteSnapshot(&b, st))
	return b.Bytes()
}

func TestSnapshotReadsBackEqual(t *testing.T) {
	r := story(t)
	data := snapshotOf(t, r.st())
	got, err := ReadSnapshot(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, r.st().Hash(), got.Hash())
	require.Equal(t, string(data), string(snapshotOf(t, got)))
	require.NoError(t, got.VerifyAudit())
	require.Same(t, got.Spec, got.Revisions[len(got.Revisions)-1].Spec)
	h, err := ReadSnapshotHeader(bufio.NewReader(bytes.NewReader(data)))
	require.NoError(t, err)
	require.Equal(t, SnapshotHeader{"quorate-snapshot", 1, "demo", r.index, 1, r.st().Revision, 1}, h)
}

func TestG13DamagedSnapshotIsRefusedWhole(t *testing.T) {
	r := story(t)
	data := snapshotOf(t, r.st())
	store := NewStore()
	empty := store.State()
	refused := func(bad []byte, what string) {
		t.Helper()
		require.ErrorIs(t, store.Restore(bytes.NewReader(bad)), ErrSnapshotCorrupt, what)
		require.Same(t, empty, store.State(), what)
	}
	for cut := 1; cut < len(data); cut += 97 {
		refused(data[:len(data)-cut], fmt.Sprintf("cut by %d", cut))
	}
	for i := 80; i < len(data); i += 131 {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		refused(bad, fmt.Sprintf("a bit of byte %d", i))
	}
	refused(append(bytes.Clone(data), "more\n"...), "data after it")
	refused(nil, "nothing")
	refused([]byte("{}\n"), "another file")
	require.NoError(t, store.Restore(bytes.NewReader(data)))
	require.Equal(t, r.st().Hash(), store.State().Hash())
}

func TestNewerSnapshotIsRefusedByName(t *testing.T) {
	bad := bytes.Replace(snapshotOf(t, running(t).st()), []byte(`"format":1`), []byte(`"format":2,"more":true`), 1)
	_, err := ReadSnapshot(bytes.NewReader(bad))
	require.ErrorIs(t, err, ErrSnapshotFormat)
	require.ErrorContains(t, err, "format 2: unknown snapshot format; run a newer quorate")
}

// resealed returns a snapshot with its text edited and its trailer made anew.
func resealed(t testing.TB, data []byte, old, with string) []byte {
	body, _, ok := bytes.Cut(data, []byte(snapshotTrailer))
	require.True(t, ok)
	body = bytes.Replace(body, []byte(old), []byte(with), 1)
	return fmt.Appendf(body, "%s%x\n", snapshotTrailer, sum256(body))
}

func TestSnapshotRecordsAreStrict(t *testing.T) {
	data := snapshotOf(t, running(t).st())
	for _, tt := range []struct{ name, old, with, want string }{
		{"an unknown field", `"value":{"name":"ap-1","nonce"`, `"value":{"x":1,"name":"ap-1","nonce"`, `unknown field "x"`},
		{"a duplicate key", `"value":{"name":"ap-1","nonce"`, `"value":{"name":"ap-1","name":"ap-1","nonce"`, `duplicate key "name"`},
		{"an unknown kind of record", `{"key":"members/ap-1"`, `{"key":"membres/ap-1"`, "unknown kind of record"},
		{"records out of order", `{"key":"members/ap-1"`, `{"key":"members/zz-1"`, `record "members/eu-1" after "members/zz-1"`},
		{"another index in the header", `"index":6`, `"index":7`, "header and records differ"},
	} {
		bad := resealed(t, data, tt.old, tt.with)
		_, err := ReadSnapshot(bytes.NewReader(bad))
		require.ErrorIs(t, err, ErrSnapshotCorrupt, tt.name)
		require.ErrorContains(t, err, tt.want, tt.name)
	}
}

// story is a rig after one of everything.
func story(t testing.TB) *rig {
	r := running(t)
	r.down("eu")
	r.must(r.rotate("dr", "us"))
	r.must(
		FreezeService{Service: "web", Reason: "look <here> & there", For: time.Hour},
		ThawService{Service: "web"},
		FreezeService{Reason: "all", For: time.Hour},
		DrainCluster{Cluster: "eu", Reason: "it burns", For: time.Hour},
		PutToken{ID: "t1", User: "ann", Groups: []string{"admin"}, Hash: [32]byte{1}, For: time.Hour},
		PutToken{ID: "t2", User: "bob", Hash: [32]byte{2}},
		RevokeToken{ID: "t2"},
		PutJoinToken{ID: "j1", Hash: [32]byte{3}, Role: Voter, For: time.Hour},
		PutJoinToken{ID: "j2", Hash: [32]byte{4}, Role: Nonvoter, For: time.Hour},
		UseJoinToken{ID: "j1", Member: member("sa")},
		TrustCA{TrustedCA{Fingerprint: "bb", PEM: "pem2"}},
		RetireCA{Fingerprint: "aa"},
		ObserverSilent{Observer: "ap-1"},
		RemoveMember{Name: "sa-1", Reason: "gone"},
	)
	require.ErrorIs(t, r.request("q1", time.Hour, time.Second, RaiseFeature{Level: 9}), ErrFeatureLevel)
	require.NoError(t, r.request("q2", time.Hour, time.Second, UndrainCluster{Cluster: "eu"}))
	sp := testSpec()
	sp.Services["web"].TTL.Normal *= 2
	sp.Retention.Events = Duration(time.Hour)
	r.must(ApplySpec{Base: 1, Spec: sp, Source: "two"}, DrainCluster{Cluster: "eu", Reason: "again"})
	r.term++
	r.must(Tick{}, ConfirmObservers{Observers: map[health.ObserverID]uint64{"us-1": r.seq("us-1")}})
	r.cast("us-1", health.Up, web("eu"), door("eu"))
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 2 * time.Hour}))
	r.must(UndrainCluster{Cluster: "eu"}) // And the events before it are past retention.
	return r
}

// The log and the snapshot of every release replay to the same state for ever.
// Each story has its own: what a later one brings changes nothing of an older.
func TestG15GoldenLogAndSnapshot(t *testing.T) {
	for name, story := range map[string]func(testing.TB) *rig{"v1": story, "v1-stateful": statefulStory, "v1-placement": placementStory} {
		t.Run(name, func(t *testing.T) { golden(t, name, story) })
	}
}

func golden(t *testing.T, name string, story func(testing.TB) *rig) {
	logPath, snapPath := filepath.Join("testdata", "logs", name+".log"), filepath.Join("testdata", "snapshots", name+".golden")
	if *update {
		r := story(t)
		var b strings.Builder
		for i, data := range r.log {
			fmt.Fprintf(&b, "%d %d %d %s\n", i+1, r.terms[i], data[1], data[2:])
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(logPath), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Dir(snapPath), 0o755))
		require.NoError(t, os.WriteFile(logPath, []byte(b.String()), 0o644))
		require.NoError(t, os.WriteFile(snapPath, snapshotOf(t, r.st()), 0o644))
	}
	log, err := os.ReadFile(logPath)
	require.NoError(t, err)
	golden, err := os.ReadFile(snapPath)
	require.NoError(t, err)
	store := NewStore()
	for entry := range strings.Lines(string(log)) {
		var index, term uint64
		var kind byte
		head, body, _ := strings.Cut(entry, "{")
		_, err := fmt.Sscan(head, &index, &term, &kind)
		require.NoError(t, err)
		res := store.Apply(index, term, entryOf(kind, "{"+strings.TrimSuffix(body, "\n")))
		require.NotErrorIs(t, res.Err, ErrUndecodable)
	}
	require.Equal(t, string(golden), string(snapshotOf(t, store.State())), "the log replays to another state than the release made of it")
	restored, err := ReadSnapshot(bytes.NewReader(golden))
	require.NoError(t, err)
	require.Equal(t, store.State().Hash(), restored.Hash())
	require.NoError(t, restored.VerifyAudit())
}

// Any sequence of commands, cut anywhere by a snapshot and a restore, ends in the
// same state with the same hash; the audit chain verifies all along, time never
// runs back, and no service is ever without an answer.
func TestG15SnapshotEqualsReplay(t *testing.T) {
	r := newRig(t)
	r.must(Initialize{Installation: "demo"}, UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")},
		ApplySpec{Spec: testSpec(), Rotations: []RotationChange{change("dr", "eu", "us")}})
	rapid.Check(t, replays(t, r, anyCommand, func(*rapid.T, *State, *State, Command, error) {}))
}

// replays is the property that any sequence of drawn commands from base on, cut
// anywhere by a snapshot and a restore, ends in the same state. It calls seen after
// each entry.
func replays(t *testing.T, base *rig, draw func(*rapid.T, *rig) Command, seen func(rt *rapid.T, before, st *State, cmd Command, err error)) func(*rapid.T) {
	return func(rt *rapid.T) {
		r := forked(t, base)
		past := []*State{r.st()}
		other := NewStoreAt(r.st()) // Goes through a snapshot at every entry.
		for range rapid.IntRange(1, 40).Draw(rt, "entries") {
			if rapid.IntRange(0, 9).Draw(rt, "election") == 0 {
				r.term++
			}
			before := r.st()
			text := string(snapshotOf(t, before))
			cmd := draw(rt, r)
			err := r.doMeta(cmd, Meta{
				Actor:   rapid.SampledFrom([]string{"ann", "bob", "automation", "node/eu-1"}).Draw(rt, "actor"),
				Request: rapid.SampledFrom([]string{"", "", "r1", "r2"}).Draw(rt, "request"),
				Issued:  start.Add(time.Duration(rapid.IntRange(0, 30).Draw(rt, "issued")) * time.Hour),
				Elapsed: time.Duration(rapid.IntRange(-1, 400).Draw(rt, "elapsed")) * time.Minute,
			})
			st := r.st()
			if text != string(snapshotOf(t, before)) {
				rt.Fatalf("entry %d changed an older state", r.index)
			}
			if err != nil && st.Audit.Count != before.Audit.Count {
				rt.Fatalf("entry %d was refused (%v) and audited", r.index, err)
			}
			if st.Now.Before(before.Now) {
				rt.Fatalf("log time ran back from %v to %v", before.Now, st.Now)
			}
			invariants(rt, before, st)
			namesWhatDiffers(rt, past, st)
			past = append(past, st)
			seen(rt, before, st, cmd, err)

			reread, rerr := ReadSnapshot(bytes.NewReader(snapshotOf(t, other.State())))
			require.NoError(rt, rerr)
			other = NewStoreAt(reread)
			oerr := other.Apply(r.index, r.term, r.log[len(r.log)-1]).Err
			if fmt.Sprint(err) != fmt.Sprint(oerr) {
				rt.Fatalf("entry %d: %v here, %v after a restore", r.index, err, oerr)
			}
			if st.Hash() != other.State().Hash() {
				rt.Fatalf("entry %d: another hash after a restore\n%s\n%s", r.index, snapshotOf(t, st), snapshotOf(t, other.State()))
			}
		}
	}
}

// invariants hold after every entry.
func invariants(t *rapid.T, before, st *State) {
	if err := st.VerifyAudit(); err != nil {
		t.Fatal(err)
	}
	changed := stripped(before) != stripped(st)
	if audited := st.Audit.Count != before.Audit.Count; changed && !audited {
		t.Fatalf("entry %d changed the state without an audit record\n%s\n%s", st.Index, stripped(before), stripped(st))
	}
	for name, s := range st.Services {
		otherTTL := before.Suspect(name) != st.Suspect(name) && st.ttlVaries(name)
		if otherTTL && st.TableIndex != st.Index {
			t.Fatalf("service %s: answers with another TTL and the same table index", name)
		}
		if err := st.checkPools(RotationChange{Service: name, V4: s.Rotation.V4, V6: s.Rotation.V6}, structural); err != nil {
			t.Fatalf("service %s: %v", name, err)
		}
		old, ok := before.Services[name]
		if !ok {
			continue
		}
		if otherTTL && s == old && before.Spec == st.Spec {
			t.Fatalf("service %s: answers with another TTL behind the same pointer", name)
		}
		if s.Rotation.Number < old.Rotation.Number || s.Rotation.Clears.Before(old.Rotation.Clears) {
			t.Fatalf("service %s: rotation went back: %+v, %+v", name, old.Rotation, s.Rotation)
		}
		for target, ts := range s.Targets {
			was := old.Targets[target]
			if was == nil {
				continue
			}
			turned := ts.Verdict.Side != was.Verdict.Side
			if d := ts.Verdict.Number - was.Verdict.Number; d > 1 || turned && d == 0 {
				t.Fatalf("%s: verdict %+v, then %+v", target, was.Verdict, ts.Verdict)
			}
			if turned && ts.Verdict.Side == health.Down && len(ts.Verdict.Deciding) < 2 && len(st.Eligible(name)) > 1 {
				t.Fatalf("%s: a lone observer turned it: %+v", target, ts.Verdict)
			}
		}
	}
}

// stripped is the state as text without what every entry may move unaudited:
// position, time, remembered requests, and the confirmations a term begins with.
func stripped(st *State) string {
	next := *st
	next.Index, next.Term, next.Now = 0, 0, time.Time{}
	next.Requests, next.RequestFloor, next.Observers, next.Delivered = nil, time.Time{}, nil, nil
	b, _ := json.Marshal(next)
	return string(b)
}

// anyCommand draws a command that may well be refused.
func anyCommand(t *rapid.T, r *rig) Command {
	st := r.st()
	clusters := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"eu", "us", "dr"}), 0, 3, rapid.ID[string])
	observer := rapid.SampledFrom([]string{"eu-1", "us-1", "ap-1", "sa-1"})
	carried := func() []RotationChange {
		if rapid.Bool().Draw(t, "carried") {
			return []RotationChange{change(clusters.Draw(t, "clusters")...)}
		}
		return nil
	}
	cluster := rapid.SampledFrom([]string{"eu", "us", "dr"}).Draw(t, "cluster")
	lasts := time.Duration(rapid.IntRange(0, 3).Draw(t, "hours")) * time.Hour
	switch rapid.IntRange(0, 13).Draw(t, "command") {
	case 0:
		return Tick{}
	case 1:
		sp := testSpec()
		sp.Services["web"].TTL.Normal = Duration(rapid.IntRange(5, 7).Draw(t, "ttl")) * Duration(time.Second)
		sp.Clusters["dr"].IPv6 = sp.Clusters["eu"].IPv6
		if rapid.Bool().Draw(t, "other check") {
			sp.Services["web"].Checks.All[0].TCP.Port = 81
		}
		if rapid.Bool().Draw(t, "without") {
			delete(sp.Clusters, cluster)
		}
		return ApplySpec{Base: st.Revision, Spec: sp, Rotations: carried()}
	case 2, 3, 4, 5:
		b := r.vote(observer.Draw(t, "observer"), rapid.SampledFrom([]health.Side{health.Up, health.Down, health.Unknown}).Draw(t, "side"))
		b.Full = rapid.IntRange(0, 2).Draw(t, "full") == 0
		for _, c := range clusters.Draw(t, "targets") {
			b.Votes[web(c)] = health.Vote{Side: rapid.SampledFrom([]health.Side{health.Up, health.Down}).Draw(t, "vote"), Since: start}
			b.Votes[door(c)] = health.Vote{Side: health.Down, Since: start}
		}
		return CastVotes{Batches: []VoteBatch{b}}
	case 6:
		c := ConfirmObservers{Reset: rapid.Bool().Draw(t, "reset"), Observers: map[health.ObserverID]uint64{}}
		for _, name := range sortedKeys(st.Members) {
			if rapid.Bool().Draw(t, "confirm "+name) {
				c.Observers[health.ObserverID(name)] = r.seq(name)
			}
		}
		return c
	case 7:
		return ObserverSilent{Observer: health.ObserverID(observer.Draw(t, "observer"))}
	case 8, 9:
		return r.rotate(clusters.Draw(t, "clusters")...)
	case 10:
		return DrainCluster{Cluster: cluster, Reason: "x", For: lasts, Rotations: carried()}
	case 11:
		return UndrainCluster{Cluster: cluster, Expired: rapid.Bool().Draw(t, "expired"), Rotations: carried()}
	case 12:
		if rapid.Bool().Draw(t, "freeze") {
			return FreezeService{Service: "web", Reason: "x", For: lasts}
		}
		return ThawService{Service: "web"}
	default:
		if rapid.Bool().Draw(t, "remove") {
			return RemoveMember{Name: observer.Draw(t, "observer")}
		}
		return UpsertMember{member(strings.TrimSuffix(observer.Draw(t, "observer"), "-1"))}
	}
}

// The input is a snapshot's header and records; the trailer is made for it, or
// the checksum would keep everything but the seeds out.
func FuzzReadSnapshot(f *testing.F) {
	body, _, _ := bytes.Cut(snapshotOf(f, running(f).st()), []byte(snapshotTrailer))
	f.Add(body)
	body, _, _ = bytes.Cut(snapshotOf(f, placementStory(f).st()), []byte(snapshotTrailer))
	f.Add(body)
	f.Add([]byte(`{"magic":"quorate-snapshot","format":1}` + "\n" + `{"key":"spec","value":{}}` + "\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		st, err := ReadSnapshot(bytes.NewReader(fmt.Appendf(bytes.Clone(body), "%s%x\n", snapshotTrailer, sum256(body))))
		if err != nil {
			require.Nil(t, st)
			return
		}
		again, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, st)))
		require.NoError(t, err)
		require.Equal(t, st.Hash(), again.Hash())
	})
}
