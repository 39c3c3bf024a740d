package statestore

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// everyCommand returns one filled command of each kind.
func everyCommand() []Command {
	m := member("eu")
	m.DNS.IPv4, m.Labels = append(m.DNS.IPv4, eu4), map[string]string{"a": "b"}
	basis := Basis{
		Spec: "x", Verdicts: map[health.Target]uint64{web("eu"): 3}, Drains: map[string]uint64{"eu": 1}, Rotation: 2,
		Override: 4, Reports: map[string]uint64{"us": 5},
	}
	rotations := []RotationChange{change("eu", "us")}
	signer := Signer{User: "ann", Groups: []string{"approver"}, Token: "t", Via: ViaToken, Source: eu4}
	evidence := Evidence{
		Service: "db", Kind: Emergency, Source: "eu", Destination: "us", Epoch: 1, Generation: 1,
		SourceSide: health.Down, DestinationSide: health.Up, Spec: "x",
		Gates: []GateResult{{GateSourceDown, Clean}, {GateFenced, NotConfigured}}, Unacknowledged: []string{"eu-1"},
	}
	return []Command{
		Tick{},
		Initialize{Installation: "demo", CA: TrustedCA{Fingerprint: "aa", PEM: "pem", At: start}},
		ApplySpec{Base: 1, Source: "# <mine> & \"yours\"\n", Spec: testSpec(), Reason: "r", Rotations: rotations},
		CastVotes{Batches: []VoteBatch{{Observer: "eu-1", Seq: 2, Prev: 1, Full: true, Recorded: true, Votes: map[health.Target]health.Vote{
			web("eu"): {Side: health.Down, Reason: "timeout", Since: start}, door("eu"): {Side: health.Up, Since: start, Degraded: "cert"},
		}}}},
		ConfirmObservers{Reset: true, Observers: map[health.ObserverID]uint64{"eu-1": 2}},
		ObserverSilent{Observer: "eu-1"},
		Rotate{RotationChange: change("eu"), Basis: basis},
		DrainCluster{Cluster: "eu", Services: []string{"web"}, For: time.Hour, Reason: "r", Rotations: rotations},
		UndrainCluster{Cluster: "eu", Expired: true, Reason: "r", Rotations: rotations},
		FreezeService{Service: "web", For: time.Hour, Reason: "r"},
		ThawService{Service: "web", Expired: true, Reason: "r"},
		UpsertMember{m},
		RemoveMember{Name: "eu-1", Reason: "r"},
		PutToken{ID: "t", User: "ann", Groups: []string{"sre"}, Hash: [32]byte{1, 2}, For: time.Hour},
		RevokeToken{ID: "t"},
		PutJoinToken{ID: "j", Hash: [32]byte{3}, Role: Voter, For: time.Hour},
		UseJoinToken{ID: "j", Member: m},
		TrustCA{TrustedCA{Fingerprint: "bb", PEM: "pem", At: start}},
		RetireCA{Fingerprint: "bb"},
		RaiseFeature{Level: 2},
		ProposeCutover{Service: "db", To: "us", As: Emergency, Reason: "r", Signer: signer, Evidence: evidence, Basis: basis},
		ReviseCutover{ID: "CUT-1", Version: 3, Evidence: evidence, Basis: basis},
		ApproveCutover{ID: "CUT-1", Evidence: evidence.Digest(), Reason: "r", Signer: signer, Waivers: []Waiver{
			{Gate: GateFenced, Outcome: UnknownGate}, {Gate: GateNodesAcknowledged, Nodes: []string{"eu-1"}},
		}},
		RejectCutover{ID: "CUT-1", Reason: "r", Signer: signer},
		AbortCutover{ID: "CUT-1", Reason: "r", Signer: signer},
		CloseCutover{ID: "CUT-1", Version: 3, As: Expired, Reason: "r"},
		RemindCutover{ID: "CUT-1", Number: 2},
		BeginCutover{ID: "CUT-1", Version: 3, Evidence: evidence, Basis: basis},
		PublishCutover{ID: "CUT-1", Version: 4, Acknowledged: []string{"eu-1", "us-1"}, Rotation: change("us")},
		ConfirmActive{Service: "db", Active: "us", Reason: "r", Signer: signer, Rotation: change("us")},
		BeginGeneration{Generation: 2, Member: m, CA: TrustedCA{Fingerprint: "bb", PEM: "pem"}, Reason: "r"},
		NoteDelivery{Receiver: "pager", Index: 7},
		OverrideService{Service: "web", Cluster: "us", For: time.Hour, Reason: "r", Rotations: rotations},
		ClearOverride{Service: "web", Expired: true, Reason: "r", Rotations: rotations},
		DrainClusters{Clusters: []string{"eu", "us"}, Services: []string{"web"}, For: time.Hour, Reason: "r", Rotations: rotations},
		ResolveCluster{Cluster: "dr", Hostname: "lb.dr.example.net", Addrs: []netip.Addr{dr4, eu6}, Rotations: rotations},
		ReportCapacity{Cluster: "eu", Capacity: 40, Stale: true},
		MeasureLatency{RTT: map[string]map[netip.Addr]Duration{"eu": {us4: Duration(81 * time.Millisecond)}}},
	}
}

var byValue = cmp.Options{
	cmpopts.EquateComparable(health.Target{}, eu4),
	cmpopts.EquateEmpty(),
}

func TestEveryCommandDecodesToWhatWasEncoded(t *testing.T) {
	meta := Meta{Actor: "ann", Request: "r-1", Issued: start, Wall: start, Elapsed: time.Second, Rebased: true}
	seen := map[Kind]bool{}
	for _, want := range everyCommand() {
		data, err := Encode(want, meta)
		require.NoError(t, err)
		got, m, err := Decode(data)
		require.NoError(t, err, "%T", want)
		require.Equal(t, meta, m)
		if diff := cmp.Diff(want, got, byValue); diff != "" {
			t.Errorf("%T (-want +got):\n%s", want, diff)
		}
		require.Equal(t, byte(want.Kind()), data[1])
		seen[want.Kind()] = true
	}
	for k := range Kind(255) {
		if _, known := newCommand(k); known != seen[k] {
			t.Errorf("kind %d is decoded: %v, tested: %v", k, known, seen[k])
		}
	}
}

func entryOf(kind byte, text string) []byte { return append([]byte{entryFormat, kind}, text...) }

func TestDecodeIsStrict(t *testing.T) {
	const meta = `"meta":{"actor":"a","wall":"2026-03-01T12:00:00Z","elapsed":0}`
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "entry of 0 bytes"},
		{"a format byte only", []byte{entryFormat}, "entry of 1 bytes"},
		{"another format", append([]byte{9}, entryOf(1, `{}`)[1:]...), "entry format 9"},
		{"an unknown kind", entryOf(99, `{`+meta+`,"body":{}}`), "unknown kind 99"},
		{"an unknown kind that may be skipped", entryOf(0x80, `{`+meta+`,"body":{}}`), "kind 128"},
		{"no JSON", entryOf(1, `nope`), "malformed JSON"},
		{"no object", entryOf(1, `[]`), "no JSON object"},
		{"data after it", entryOf(1, `{`+meta+`,"body":{}} {}`), "malformed JSON"},
		{"an unknown field of the envelope", entryOf(1, `{`+meta+`,"body":{},"x":1}`), `unknown field "x"`},
		{"an unknown field of the meta", entryOf(1, `{"meta":{"x":1},"body":{}}`), `unknown field "x"`},
		{"an unknown field of the body", entryOf(13, `{`+meta+`,"body":{"name":"a","reason":"","x":1}}`), `unknown field "x"`},
		{"an unknown field within the body", entryOf(12, `{`+meta+`,"body":{"member":{"x":1}}}`), `unknown field "x"`},
		{"a duplicate key", entryOf(13, `{`+meta+`,"body":{"name":"a","name":"b"}}`), `duplicate key "name"`},
		{"a duplicate key in disguise", entryOf(13, `{`+meta+`,"body":{"name":"a","n\u0061me":"b"}}`), `duplicate key "name"`},
		{"a duplicate key behind an array", entryOf(13, `{`+meta+`,"body":{"name":["a",{"name":1}],"name":"b"}}`), `duplicate key "name"`},
		{"no body", entryOf(13, `{`+meta+`}`), "no JSON object"},
		{"a null body", entryOf(13, `{`+meta+`,"body":null}`), "no JSON object"},
		{"a word that is none", entryOf(4, `{`+meta+`,"body":{"batches":[{"votes":{"web/eu/192.0.2.1":{"side":"sideways"}}}]}}`), "is not one of unknown, up, down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Decode(tt.data)
			require.ErrorIs(t, err, ErrUndecodable)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestDuplicateKeysPassesWhatIsFine(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `"a"`, `1`, `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`, `{"a":["a","a"],"b":"a"}`, `{"a":"\"","b\"":1,"b":2}`, `{"a":"{","b":"a\\"}`,
	} {
		require.NoError(t, duplicateKeys([]byte(text)), "%s", text)
	}
}

func TestUndecodableEntryChangesNothing(t *testing.T) {
	r := running(t)
	before := r.st()
	changed := r.store.Changed()
	res := r.store.Apply(r.index+1, r.term, entryOf(99, `{}`))
	require.ErrorIs(t, res.Err, ErrUndecodable)
	require.Same(t, before, r.st())
	select {
	case <-changed:
		t.Fatal("the state is said to have changed")
	default:
	}
}

func TestEntryThatTheStateHoldsIsPassedOver(t *testing.T) {
	r := running(t)
	before := r.st()
	res := r.store.Apply(r.index, r.term, r.log[r.index-1])
	require.NoError(t, res.Err)
	require.Same(t, before, r.st())
}

func TestChangedClosesWithTheNextEntry(t *testing.T) {
	r := newRig(t)
	changed := r.store.Changed()
	r.must(Tick{})
	select {
	case <-changed:
	default:
		t.Fatal("the channel is open after a change")
	}
}

func TestTwoStoresFromOneStateShareNothingTheyAppend(t *testing.T) {
	r := running(t)
	r.must(FreezeService{Reason: "room"}, FreezeService{Reason: "to grow"})
	a, b := NewStoreAt(r.st()), NewStoreAt(r.st())
	for store, reason := range map[*Store]string{a: "a", b: "b"} {
		data, err := Encode(FreezeService{Reason: reason}, Meta{Actor: "ann"})
		require.NoError(t, err)
		require.NoError(t, store.Apply(r.index+1, 1, data).Err)
	}
	require.NoError(t, a.State().VerifyAudit())
	require.NoError(t, b.State().VerifyAudit())
}

// A node that knows a skippable kind and one that does not agree on everything:
// the kind itself changes nothing, and position, term and time come from the
// frame that both read.
func TestG15SkippedEntryLeavesOnlyPositionAndTime(t *testing.T) {
	r := running(t)
	before := *r.st()
	meta, err := json.Marshal(Meta{Actor: "x", Wall: start, Elapsed: 3 * time.Second, Request: "r", Issued: start})
	require.NoError(t, err)
	res := r.store.Apply(r.index+5, r.term, entryOf(0xfe, `{"meta":`+string(meta)+`,"body":{"new":[1,2]}}`))
	require.NoError(t, res.Err)
	want := before
	want.Index, want.Now = r.index+5, before.Now.Add(3*time.Second)
	require.Equal(t, want.Hash(), r.st().Hash())
	require.Equal(t, before.Audit, r.st().Audit)
	require.Empty(t, r.st().Requests)
}

func FuzzDecode(f *testing.F) {
	for _, c := range everyCommand() {
		data, err := Encode(c, Meta{Actor: "ann", Wall: start})
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add(entryOf(0xff, `{"meta":{},"body":{}}`))
	r := running(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		store := NewStoreAt(r.st())
		store.Apply(r.index+1, 1, data) // Total: it may refuse, and never panics.
		cmd, m, err := Decode(data)
		if err != nil {
			require.ErrorIs(t, err, ErrUndecodable)
			return
		}
		again, err := Encode(cmd, m)
		require.NoError(t, err)
		_, _, err = Decode(again)
		require.NoError(t, err, "%s", again)
	})
}
