package routing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
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

// CheckSpec says what of a spec could not be served, one line each: records that
// do not parse or may not stand where they do, names in no zone, names of two
// services, aliases that lead to themselves.
func CheckSpec(sp *statestore.Spec) error {
	l := makeLayout(&statestore.State{Spec: sp}, nil)
	return errors.Join(l.err, l.loops())
}

// Update makes the table of a state from an earlier one and shares with it what
// did not change: the entries of other services, and the names while spec and
// members are the same. Without local knowledge it answers as Compile(st) does. A
// nil prev compiles.
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
		t.layout = makeLayout(st, members)
	}
	t.services = t.makeServices(prev)
	t.Zones = t.makeZones()
	t.countRecords()
	return t, t.layout.err
}

// makeServices prepares each service, or takes it from prev.
func (t *Table) makeServices(prev *Table) []*service {
	st := t.state
	list := make([]*service, len(t.layout.services))
	for i, name := range t.layout.services {
		run := st.Services[name]
		var old *service
		if prev != nil {
			old = prev.service(name, i)
		}
		if old != nil && prev.state.Spec == st.Spec && run != nil && prev.state.Services[name] == run &&
			prev.local.Withheld[name] == t.local.Withheld[name] && prev.local.Active[name] == t.local.Active[name] {
			list[i] = old // nothing it is made from has changed
			continue
		}
		list[i] = makeService(name, st.Spec, run, st.Suspect(name), t.local)
		if old != nil && old.same(list[i]) {
			list[i] = old
		}
	}
	return list
}

// service returns a service by name; hint is its number if the layout is the same.
func (t *Table) service(name string, hint int) *service {
	if hint < len(t.services) && t.services[hint].name == name {
		return t.services[hint]
	}
	if i, ok := slices.BinarySearch(t.layout.services, name); ok {
		return t.services[i]
	}
	return nil
}

// makeZones adds what depends on the index and the rotations to the zones.
func (t *Table) makeZones() []*Zone {
	zones := make([]*Zone, len(t.layout.zones))
	for i := range t.layout.zones {
		zl := &t.layout.zones[i]
		z := &Zone{Name: zl.name, NS: zl.ns, Serial: t.Serial, Records: zl.records + 1}
		z.SOA = soaSet(zl, t.Serial, zl.ttl)
		z.Negative = soaSet(zl, t.Serial, min(zl.ttl, seconds(zl.soa.NegativeTTL))) // RFC 2308 3
		zones[i] = z
	}
	return zones
}

// countRecords adds what the services answer to the zones' counts.
func (t *Table) countRecords() {
	for i, s := range t.services {
		if at := t.layout.aliases[i]; at.names > 0 {
			t.Zones[at.zone].Records += at.names * s.records
		}
	}
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
