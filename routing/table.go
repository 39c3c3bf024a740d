package routing

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/quorate/quorate/statestore"
)

// serialBits is how far apart the serials of two generations are: 2^26 entries.
const serialBits = 26

// hinfo answers ANY at every name that has something (RFC 8482 4.2): 21 octets,
// far below twice any question.
var hinfo = &RRset{Type: TypeHINFO, TTL: 3600, Rdata: [][]byte{[]byte("\x07RFC8482\x00")}, Text: []string{`"RFC8482" ""`}}

// Compile makes the table of a state. The table is complete but for what the
// error names: records and names that cannot be served, which CheckSpec refuses
// and only a state of another version can hold. The table is never nil, and who
// answers DNS swaps it in and logs the error: one record less is better than
// verdicts that no longer reach the answers.
func Compile(st *statestore.State) (*Table, error) { return Update(nil, st, Local{}) }

// Update makes the table of a state from an earlier one and shares with it what
// did not change: the entries of other services, the names while spec and members
// are the same, and who is where while regions, CIDRs and the GeoIP file are. Without
// local knowledge it answers as Compile(st) does. A nil prev compiles.
func Update(prev *Table, st *statestore.State, local Local) (*Table, error) {
	t := &Table{
		Generation: st.Generation,
		Index:      st.TableIndex,
		Revision:   st.Revision,
		Serial:     uint32(st.Generation<<serialBits + st.TableIndex),
		state:      st,
		local:      local,
	}
	members := servers(st)
	if prev != nil && prev.state.Spec == st.Spec && slices.EqualFunc(prev.layout.members, members, sameServer) {
		t.layout = prev.layout
	} else {
		t.layout = makeLayout(st, members, prev.names())
	}
	t.locate(prev)
	if t.follows(prev) {
		t.patch(prev)
	} else {
		t.makeServices(prev)
	}
	t.Zones = t.makeZones()
	return t, t.layout.err
}

// names returns what exists in a table, nil of none.
func (t *Table) names() *layout {
	if t == nil {
		return nil
	}
	return t.layout
}

// locate takes over who is where, or finds it out.
func (t *Table) locate(prev *Table) {
	if prev != nil && prev.state.Spec == t.state.Spec && prev.local.Geo == t.local.Geo {
		t.clients, t.views = prev.clients, prev.views
		return
	}
	from := placesOf(t.state.Spec, t.local.Geo)
	if prev != nil && prev.clients.from.same(from) {
		t.clients = prev.clients
		return
	}
	t.clients = makeClients(from)
}

// follows reports whether prev has the same services, and clients.
func (t *Table) follows(prev *Table) bool {
	return prev != nil && prev.state.Spec == t.state.Spec && prev.clients == t.clients
}

// patch makes anew only the services of which something else is another: the running
// side, what this node knows of it, the round trips.
func (t *Table) patch(prev *Table) {
	local := maps.Equal(prev.local.Withheld, t.local.Withheld) && maps.Equal(prev.local.Active, t.local.Active)
	latency := maps.EqualFunc(prev.state.Latency, t.state.Latency, maps.Equal[map[netip.Addr]statestore.Duration])
	t.services, t.records = prev.services.share(), slices.Clone(prev.records)
	if names, ok := t.state.ServicesSince(prev.state); ok && local && latency {
		for _, name := range names {
			if i, ok := slices.BinarySearch(t.layout.services, name); ok {
				t.renew(i)
			}
		}
		return
	}
	for i, name := range t.layout.services {
		run, e := t.state.Services[name], prev.services.entry(i)
		if run == e.run && run != nil && (latency || e.policy != statestore.Latency) &&
			(local || prev.local.Withheld[name] == t.local.Withheld[name] && prev.local.Active[name] == t.local.Active[name]) {
			continue
		}
		t.renew(i)
	}
}

// renew makes a service anew, and keeps the old one where both answer alike.
func (t *Table) renew(number int) {
	name, e := t.layout.services[number], t.services.entry(number)
	s := t.makeService(name, e.view)
	if e.same(s) {
		s = e.service
	}
	t.records[t.layout.aliases[number].zone] += t.count(number, s) - t.count(number, e.service)
	t.services.set(number, entry{s, t.state.Services[name]})
}

// makeServices prepares each service, and keeps those of prev that answer alike.
func (t *Table) makeServices(prev *Table) {
	vr := &viewer{spec: t.state.Spec, clients: t.clients, made: map[string]*view{}}
	if prev != nil && prev.clients == t.clients {
		vr.before = prev.views
	}
	t.services, t.records = makeBlocks(len(t.layout.services)), make([]int, len(t.layout.zones))
	for i, name := range t.layout.services {
		s := t.makeService(name, vr.of(name))
		if prev != nil {
			if old := prev.service(name); old != nil && old.same(s) {
				s = old
			}
		}
		t.records[t.layout.aliases[i].zone] += t.count(i, s)
		t.services.set(i, entry{s, t.state.Services[name]})
	}
	t.views = vr.made
}

// service returns a service by name, or nil.
func (t *Table) service(name string) *service {
	if i, ok := slices.BinarySearch(t.layout.services, name); ok {
		return t.services.at(i)
	}
	return nil
}

// count is how many records a service's names have.
func (t *Table) count(number int, s *service) int {
	at := t.layout.aliases[number]
	n := at.names * s.records
	if at.srv {
		n++
	}
	return n
}

// makeZones adds what depends on the index and the rotations to the zones.
func (t *Table) makeZones() []*Zone {
	zones := make([]*Zone, len(t.layout.zones))
	for i := range t.layout.zones {
		zl := &t.layout.zones[i]
		z := &Zone{Name: zl.name, NS: zl.ns, Serial: t.Serial, Records: zl.records + 1 + t.records[i]}
		z.SOA = soaSet(zl, t.Serial, zl.ttl)
		z.Negative = soaSet(zl, t.Serial, min(zl.ttl, seconds(zl.soa.NegativeTTL))) // RFC 2308 3
		zones[i] = z
	}
	return zones
}

func soaSet(zl *zoneLayout, serial, ttl uint32) *RRset {
	timers := []uint32{serial, seconds(zl.soa.Refresh), seconds(zl.soa.Retry), seconds(zl.soa.Expire), seconds(zl.soa.NegativeTTL)}
	wire, _ := packName(nil, zl.mname) // both names were packed when the zone was laid out
	wire, _ = packName(wire, zl.rname)
	text := zl.mname + " " + zl.rname
	for _, v := range timers {
		wire = binary.BigEndian.AppendUint32(wire, v)
		text += fmt.Sprintf(" %d", v)
	}
	return &RRset{Type: TypeSOA, TTL: ttl, Rdata: [][]byte{wire}, Text: []string{text}}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
