// Package database holds the demo's fake databases: one a cluster, of one service,
// with replication between them.
//
// A database takes writes only under an ownership token: it has been told not long
// ago that its cluster is the active side, and it has never seen a higher token.
// That is what a real database, or the proxy before it, does to have one writer
// while DNS answers linger in caches. The package asks nobody itself: whoever reads
// the token from the nodes calls Learn.
package database

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Fresh is how long a database acts on what it was told last. After it, it cannot
// know that it still is the active side, and refuses.
const Fresh = 2 * time.Second

// Token is an ownership token. A higher one fences every lower one.
type Token struct {
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`
}

// Compare orders tokens of one installation.
func (t Token) Compare(o Token) int {
	return cmp.Or(cmp.Compare(t.Generation, o.Generation), cmp.Compare(t.Epoch, o.Epoch))
}

func (t Token) String() string { return fmt.Sprintf("generation %d, epoch %d", t.Generation, t.Epoch) }

// Ownership is what a node that hears its leader says of a service.
type Ownership struct {
	Token
	Active  string // cluster
	Held    bool   // nobody may write: the service is moving, or nobody knows the active side
	Index   uint64 // of the log entry up to which the node had read
	Invalid bool   // the node could not tell
}

// Set is the databases of one service and the replication between them. It is safe
// for concurrent use.
type Set struct {
	installation string
	now          func() time.Time

	mu      sync.Mutex // guards what follows
	bases   map[string]*base
	primary string // the active side that was told last; its rows count
	rows    int    // on the primary
	behind  []time.Time
	lag     time.Duration
	frozen  bool
	lost    int
}

// base is one database.
type base struct {
	up      bool
	highest Token     // never goes back, restarts included
	known   Ownership // what it was told last; zero after a restart
	heard   time.Time // when
}

// NewSet returns a database in each cluster, all down. Now reads the clock.
func NewSet(installation string, clusters []string, now func() time.Time) *Set {
	s := &Set{installation: installation, now: now, bases: map[string]*base{}}
	for _, c := range clusters {
		s.bases[c] = &base{}
	}
	return s
}

// Clusters are those that have a database, sorted.
func (s *Set) Clusters() []string { return slices.Sorted(maps.Keys(s.bases)) }

// Up starts cluster's database. It knows the highest token it has ever seen and
// takes no writes before it has been told a current one.
func (s *Set) Up(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicateLocked()
	b := s.bases[cluster]
	b.up, b.known, b.heard = true, Ownership{}, time.Time{}
}

// Down ends cluster's database. What it had not replicated stays with it.
func (s *Set) Down(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicateLocked()
	s.bases[cluster].up = false
}

// Learn tells every database that is up what a node says. A lower token, or an
// older state of the same one, is no news and makes nothing fresh.
func (s *Set) Learn(o Ownership) {
	if o.Invalid || o.Installation != s.installation {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicateLocked()
	now := s.now()
	for _, b := range s.bases {
		if !b.up || o.Compare(b.highest) < 0 || o.Compare(b.known.Token) == 0 && o.Index < b.known.Index {
			continue
		}
		b.highest, b.known, b.heard = o.Token, o, now
	}
	if o.Held || o.Active == s.primary {
		return
	}
	if b, ok := s.bases[o.Active]; !ok || b.known.Token != o.Token {
		return
	}
	if s.primary != "" {
		s.lost += len(s.behind) // the new side never had them; the old side will drop them
		s.rows -= len(s.behind)
		s.behind = nil
	}
	s.primary = o.Active
}

// Receipt is what a writer is told.
type Receipt struct {
	Cluster  string `json:"cluster"`
	Accepted bool   `json:"accepted"`
	Token    Token  `json:"token"`         // that it was accepted under, or the highest one seen
	Why      string `json:"why,omitempty"` // it was refused

	// What the demo knows of the service's rows, and one database could not.
	Rows   int `json:"rows"`   // on the active side
	Behind int `json:"behind"` // of them, not yet replicated: lost if the active side is
	Lost   int `json:"lost"`   // in moves so far
}

// errDown says that there is nobody to write to.
var errDown = errors.New("the database is down")

// Write tries one write at cluster's database. A zero claim implies the token that
// the database itself acts under.
func (s *Set) Write(cluster string, claim Token) (Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bases[cluster]
	if b == nil || !b.up {
		return Receipt{}, errDown
	}
	why := s.refusalLocked(cluster, b, claim)
	s.replicateLocked()
	if why == "" {
		s.rows++
		s.behind = append(s.behind, s.now())
		s.replicateLocked() // without a lag it arrives at once
	}
	return Receipt{
		Cluster: cluster, Accepted: why == "", Token: b.highest, Why: why,
		Rows: s.rows, Behind: len(s.behind), Lost: s.lost,
	}, nil
}

// refusalLocked says why b does not take a write; empty: it does. A claim of a
// higher token is believed: whoever holds it was given it by somebody who knows
// more. The caller holds mu.
func (s *Set) refusalLocked(cluster string, b *base, claim Token) string {
	if claim != (Token{}) {
		if claim.Installation != s.installation {
			return fmt.Sprintf("the token is of another installation, %q", claim.Installation)
		}
		if claim.Compare(b.highest) > 0 {
			b.highest = claim
		}
		if claim.Compare(b.highest) < 0 {
			return fmt.Sprintf("the token (%s) is lower than the highest seen (%s)", claim, b.highest)
		}
	}
	switch {
	case b.heard.IsZero():
		return "has not read a current token since it started"
	case b.known.Compare(b.highest) < 0:
		return fmt.Sprintf("has seen a higher token (%s) than the one it read (%s)", b.highest, b.known.Token)
	case s.now().Sub(b.heard) > Fresh:
		return fmt.Sprintf("has read no token for more than %s", Fresh)
	case b.known.Held:
		return "the service is moving, or its active side is not confirmed"
	case b.known.Active != cluster:
		return fmt.Sprintf("is not the active side: %s is (%s)", b.known.Active, b.known.Token)
	}
	return ""
}

// SetLag makes replication trail by d.
func (s *Set) SetLag(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicateLocked()
	s.lag, s.frozen = d, false
}

// Freeze stops replication until SetLag.
func (s *Set) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicateLocked()
	s.frozen = true
}

// replicateLocked drops from behind what has arrived by now. A primary that is down
// sends nothing, and a side that is down takes nothing. The caller holds mu, and
// calls it before either changes.
func (s *Set) replicateLocked() {
	if s.frozen {
		return
	}
	for _, b := range s.bases {
		if !b.up {
			return
		}
	}
	arrived := s.now().Add(-s.lag)
	n, _ := slices.BinarySearchFunc(s.behind, arrived, func(at, by time.Time) int {
		if at.After(by) {
			return 1
		}
		return -1
	})
	s.behind = slices.Delete(s.behind, 0, n)
}
