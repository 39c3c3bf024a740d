// Package routing holds the table that DNS answers from and the one function
// that picks an answer.
//
// Compile makes an immutable Table of a statestore.State; Select answers a Query
// from it. Where a client is comes from the clusters' CIDRs and the node's GeoIP file;
// that, the policy, affinity and round trips give each cluster in rotation one rank,
// and the lowest answers. Select is total: every name, type and client gets an answer
// or a stated refusal, and the Trace it returns says why, so that `explain` and the
// DNS server cannot disagree. The package is pure: it reads no clock, draws no
// random number (the caller hands in Query.Draw) and does no I/O.
package routing

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/statestore"
)

// Kind is what sort of answer a query gets. The zero value is Refused, so that an
// answer nobody filled in says nothing false.
type Kind uint8

// The kinds.
const (
	Refused     Kind = iota // out of zone, or on_stale: refuse
	NoError                 // Answer.Set holds records
	NoData                  // the name exists, or could, without records of that type
	NameError               // neither the name nor anything below it exists
	ServFail                // on_all_down or on_stale of the service says so, or nobody may be answered while it moves
	Delegation              // the name is at or below a cut: Answer.Set holds the name servers of the child zone
	NameTooLong             // a DNAME made the name too long (RFC 6672 2.2)
)

var kindNames = [...]string{Refused: "REFUSED", NoError: "NOERROR", NoData: "NODATA", NameError: "NXDOMAIN", ServFail: "SERVFAIL", Delegation: "DELEGATION", NameTooLong: "YXDOMAIN"}

// String returns the kind as people write it: NOERROR, NODATA, NXDOMAIN, SERVFAIL,
// REFUSED, DELEGATION or YXDOMAIN.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "REFUSED"
}

// Record types that routing itself knows. Others come from static records.
const (
	TypeA     uint16 = 1
	TypeNS    uint16 = 2
	TypeCNAME uint16 = 5
	TypeSOA   uint16 = 6
	TypeHINFO uint16 = 13
	TypeAAAA  uint16 = 28
	TypeSRV   uint16 = 33
	TypeDNAME uint16 = 39
	TypeDS    uint16 = 43
	TypeHTTPS uint16 = 65
	TypeANY   uint16 = 255
)

// Query is one question and who asks it.
type Query struct {
	Name   string       // in presentation format, any case; the final dot may be missing
	Type   uint16       // of class IN
	Client netip.Addr   // source of the query
	Subnet netip.Prefix // from ECS, masked; zero: none

	// Draw is a random number from the caller; equal draws pick equally.
	Draw uint64

	// Stale is how long this node has not heard a leader that holds its lease.
	Stale time.Duration
}

// RRset is the prepared records of one type at one name. It is immutable.
type RRset struct {
	Type  uint16
	TTL   uint32   // seconds
	Rdata [][]byte // uncompressed wire format, never empty
	Text  []string // rdata in presentation format, one for each of Rdata
}

// Alias is a CNAME that was followed, or a DNAME: the CNAME made from it comes next.
type Alias struct {
	Owner string
	Set   *RRset
	Wild  string // as Answer.Wild
}

// Answer is what a query gets. Everything it points to belongs to the table.
type Answer struct {
	Kind Kind

	// Zone is the zone of the name the answer ends at; nil when out of zone.
	Zone *Zone

	Chain []Alias // CNAMEs and DNAMEs followed, in order; usually none
	Owner string  // of Set: the name asked, the last alias's target, or the cut; lower case

	// Set is nil unless Kind is NoError or Delegation. It may be nil with NoError when
	// a CNAME leaves our data: Chain is then the answer.
	Set *RRset

	// Wild is the wildcard ("*.a.example.") that the records of Owner come from; empty:
	// they are its own.
	Wild string

	// DS is that of the child zone of a Delegation; nil: the child is not signed.
	DS *RRset

	Additional []Alias // addresses of the name servers in Set

	Service  string   // empty for static data
	Clusters []string // whose addresses Set holds
	AllDown  statestore.AllDownMode

	// Withheld is why nobody is answered of a stateful service, in a few words;
	// empty: somebody is, or on_stale says otherwise.
	Withheld string

	// Scope is how many leading bits of the client's address decided: every address
	// that has them in common gets this answer too, but for the draw. 0: everybody.
	Scope uint8

	// Stale says that the answer is older than the service's on_stale.after: it is
	// kept, and DNS says so (RFC 8914, Stale Answer).
	Stale bool
}

// Addresses returns the addresses in the answer.
func (a Answer) Addresses() []netip.Addr {
	if a.Set == nil || (a.Set.Type != TypeA && a.Set.Type != TypeAAAA) {
		return nil
	}
	addrs := make([]netip.Addr, 0, len(a.Set.Rdata))
	for _, b := range a.Set.Rdata {
		if addr, ok := netip.AddrFromSlice(b); ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// TTL returns how long the answer may be kept: that of its records, or the
// negative TTL of its zone.
func (a Answer) TTL() time.Duration {
	switch {
	case a.Set != nil:
		return time.Duration(a.Set.TTL) * time.Second
	case len(a.Chain) > 0:
		return time.Duration(a.Chain[len(a.Chain)-1].Set.TTL) * time.Second
	case a.Zone != nil && (a.Kind == NoData || a.Kind == NameError):
		return time.Duration(a.Zone.Negative.TTL) * time.Second
	}
	return 0
}

// Zone is one zone as this table serves it.
type Zone struct {
	Name     string // lower case, with the final dot
	SOA      *RRset
	Negative *RRset // the SOA with the TTL of negative answers
	NS       *RRset // nil when no member answers DNS and no list is given
	Serial   uint32
	Records  int // records in the zone as one client can see them
}

// Table is what a node answers from: complete, immutable, equal on every node at
// equal Generation and Index. A caller swaps tables only forwards by them (Newer).
type Table struct {
	Generation uint64
	Index      uint64 // State.TableIndex
	Revision   uint64
	Serial     uint32

	Zones []*Zone // sorted by name

	layout   *layout
	services serviceBlocks     // by service number of the layout
	clients  *clients          // who is where
	views    map[string]*view  // by what they are made from
	records  []int             // of services, by zone
	state    *statestore.State // what it was made from
	local    Local             // and what this node knew itself
}

// Newer reports whether t may replace old, which may be nil.
func (t *Table) Newer(old *Table) bool {
	if old == nil {
		return true
	}
	if t.Generation != old.Generation {
		return t.Generation > old.Generation
	}
	return t.Index > old.Index
}

// State returns what the table was made from.
func (t *Table) State() *statestore.State { return t.state }

// Suppose makes the table that this node would answer from in another state: what it
// knows itself stays.
func (t *Table) Suppose(st *statestore.State) (*Table, error) { return Update(t, st, t.local) }

// Geo names the build of the GeoIP file that clients are located by; "" if none.
func (t *Table) Geo() string { return t.clients.from.geo.Build() }

// Step is one numbered line of a trace.
type Step struct {
	Step string `json:"step"`           // "name", "alias", "client", "candidates", "state", "rank" or "answer"
	Text string `json:"text"`           // what was decided
	Note string `json:"note,omitempty"` // why, or what was left out
}
