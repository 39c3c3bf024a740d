package statestore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
)

// tally is the counting of one entry: it clones what votes touch, once, judges
// it, and puts it back. With ten thousand services an entry copies the maps of
// pointers and the few services that were voted on.
type tally struct {
	st       *State
	at       entry
	services map[string]*ServiceState        // cloned, not yet in st
	clusters map[string]*ClusterState        // likewise
	own      map[health.Target]*TargetState  // cloned: may be written
	touched  map[health.Target]struct{}      // to be judged
	suspect  map[string]bool                 // of each cloned service, before
	heard    map[health.ObserverID]*Observer // before
	voters   map[string][]voter              // by selector
	changes  []VerdictChange
	cast     []CastVote // those that are recorded
}

// VerdictChange is the detail of one turn in a "verdict.changed" event.
type VerdictChange struct {
	Target   health.Target    `json:"target"`
	Number   uint64           `json:"number"`
	From     health.Side      `json:"from"`
	To       health.Side      `json:"to"`
	Up       int              `json:"up"`       // regions
	Down     int              `json:"down"`     // regions
	Eligible int              `json:"eligible"` // regions
	Need     int              `json:"need"`     // regions that To asks for
	Deciding []health.Decider `json:"deciding"`
}

// VerdictsDetail is Event.Detail of "verdict.changed" and "votes.changed".
type VerdictsDetail struct {
	Changes []VerdictChange `json:"changes,omitempty"`
	Votes   string          `json:"votes,omitempty"`   // what was voted, in a line
	Refused []string        `json:"refused,omitempty"` // batches left out, and why

	// Cast are the votes of recorded batches that were another before, by observer and
	// target, so that they can be judged again under another spec. CastMore counts
	// those beyond maxCast.
	Cast     []CastVote `json:"cast,omitempty"`
	CastMore int        `json:"cast_more,omitempty"`
}

// CastVote is one observer's new vote on a target. A vote that went with a full set
// which does not name the target is unknown.
type CastVote struct {
	Observer health.ObserverID `json:"observer"`
	Target   health.Target     `json:"target"`
	Vote     health.Vote       `json:"vote"`
}

// maxCast bounds the votes an event keeps: a full set of votes may hold tens of
// thousands.
const maxCast = 256

func newTally(st *State, at entry) *tally {
	return &tally{
		st: st, at: at,
		services: map[string]*ServiceState{},
		clusters: map[string]*ClusterState{},
		own:      map[health.Target]*TargetState{},
		touched:  map[health.Target]struct{}{},
		suspect:  map[string]bool{},
		heard:    st.Observers,
		voters:   map[string][]voter{},
	}
}

// target returns t's state to write to, or nil when t is not configured.
func (y *tally) target(t health.Target) *TargetState {
	if ts, ok := y.own[t]; ok {
		return ts
	}
	old := y.st.target(t)
	if old == nil {
		return nil
	}
	ts := &TargetState{Votes: maps.Clone(old.Votes), Verdict: old.Verdict}
	if ts.Votes == nil {
		ts.Votes = map[health.ObserverID]health.Vote{}
	}
	y.own[t] = ts
	if t.FrontDoor() {
		c, ok := y.clusters[t.Cluster]
		if !ok {
			clone := *y.st.Clusters[t.Cluster]
			clone.Targets = maps.Clone(clone.Targets)
			c = &clone
			y.clusters[t.Cluster] = c
		}
		c.Targets[t] = ts
		return ts
	}
	s, ok := y.services[t.Service]
	if !ok {
		clone := *y.st.Services[t.Service]
		y.suspect[t.Service] = clone.suspect(y.heard)
		clone.Targets = maps.Clone(clone.Targets)
		s = &clone
		y.services[t.Service] = s
	}
	s.Targets[t] = ts
	return ts
}

// castVotes stores a batch's votes. Votes on what is not configured are passed
// over: the observer has not seen the spec yet, or no longer.
func (y *tally) castVotes(b VoteBatch) {
	for t, v := range b.Votes {
		ts := y.target(t)
		if ts == nil {
			continue
		}
		v.Since = v.Since.UTC()
		if b.Recorded && ts.Votes[b.Observer] != v {
			y.cast = append(y.cast, CastVote{b.Observer, t, v})
		}
		ts.Votes[b.Observer] = v
		y.touched[t] = struct{}{}
	}
}

// dropVotes forgets an observer's votes on targets that are not in keep.
func (y *tally) dropVotes(id health.ObserverID, keep map[health.Target]health.Vote, recorded bool) {
	for t := range y.st.votesOf(id) {
		if _, stays := keep[t]; stays {
			continue
		}
		if recorded {
			y.cast = append(y.cast, CastVote{Observer: id, Target: t})
		}
		delete(y.target(t).Votes, id)
		y.touched[t] = struct{}{}
	}
}

// votesOf yields the targets an observer has a vote on, in no order.
func (st *State) votesOf(id health.ObserverID) func(yield func(health.Target) bool) {
	return func(yield func(health.Target) bool) {
		for _, s := range st.Services {
			for t, ts := range s.Targets {
				if _, ok := ts.Votes[id]; ok && !yield(t) {
					return
				}
			}
		}
		for _, c := range st.Clusters {
			for t, ts := range c.Targets {
				if _, ok := ts.Votes[id]; ok && !yield(t) {
					return
				}
			}
		}
	}
}

// touchVotesOf has every target judged that one of the observers votes on.
func (y *tally) touchVotesOf(ids []health.ObserverID) {
	for _, id := range ids {
		for t := range y.st.votesOf(id) {
			y.touched[t] = struct{}{}
		}
	}
}

// judge turns the touched targets' verdicts to what their votes support.
func (y *tally) judge() {
	for _, t := range slices.SortedFunc(maps.Keys(y.touched), health.CompareTargets) {
		j, ts := y.judgement(t)
		if ts == nil || j.Side == ts.Verdict.Side && j.Mark == ts.Verdict.Mark {
			continue
		}
		ts = y.target(t)
		prev := ts.Verdict
		ts.Verdict.Mark = j.Mark
		if j.Side == prev.Side {
			continue
		}
		ts.Verdict = health.Verdict{
			Number: prev.Number + 1, Side: j.Side, Mark: j.Mark,
			Since: y.at.now, Index: y.at.index, Deciding: j.Deciding,
		}
		need := j.Need.Up
		if j.Side == health.Down {
			need = j.Need.Down
		}
		y.changes = append(y.changes, VerdictChange{
			Target: t, Number: prev.Number + 1, From: prev.Side, To: j.Side,
			Up: j.Up, Down: j.Down, Eligible: j.Eligible, Need: need, Deciding: j.Deciding,
		})
	}
	y.install()
}

// markOnly renews the touched targets' marks and turns none: votes that were set
// aside can leave a region to its other observer, and nobody has voted.
func (y *tally) markOnly() {
	for t := range y.touched {
		j, ts := y.judgement(t)
		if ts == nil || j.Side != ts.Verdict.Side || j.Mark == ts.Verdict.Mark {
			continue
		}
		y.target(t).Verdict.Mark = j.Mark
	}
	y.install()
}

// judgement judges t as its votes are now, without writing.
func (y *tally) judgement(t health.Target) (health.Judgement, *TargetState) {
	ts, ok := y.own[t]
	if !ok {
		ts = y.st.target(t)
	}
	if ts == nil {
		return health.Judgement{}, nil
	}
	selector := ""
	if s, ok := y.st.Spec.Services[t.Service]; ok {
		selector = s.Quorum.Observers
	}
	vs, ok := y.voters[selector]
	if !ok {
		vs = y.st.voters(selector)
		y.voters[selector] = vs
	}
	rule := y.st.rule(t.Service, len(regionsOf(vs)))
	return health.Judge(ts.Verdict.Side, y.st.ballots(vs, ts), rule), ts
}

// install puts the clones into the state.
func (y *tally) install() {
	if len(y.services) > 0 {
		y.st.renewServices()
		for _, name := range sortedKeys(y.services) {
			y.st.putService(name, y.services[name])
		}
	}
	if len(y.clusters) > 0 {
		next := maps.Clone(y.st.Clusters)
		maps.Copy(next, y.clusters)
		y.st.Clusters = next
	}
	for name, before := range y.suspect {
		if y.services[name].suspect(y.st.Observers) != before && y.st.ttlVaries(name) {
			y.st.TableIndex = y.at.index
		}
	}
}

// ttlVaries reports whether the service answers with another TTL while suspect.
func (st *State) ttlVaries(service string) bool {
	s, ok := st.Spec.Services[service]
	return ok && s.TTL.Normal != s.TTL.Changing
}

// record describes the counting: the verdicts it turned, else the votes.
func (y *tally) record(votes string, refused []string) record {
	slices.SortFunc(y.cast, func(a, b CastVote) int {
		return cmp.Or(cmp.Compare(a.Observer, b.Observer), health.CompareTargets(a.Target, b.Target))
	})
	kept := y.cast[:min(len(y.cast), maxCast)]
	detail := VerdictsDetail{Changes: y.changes, Votes: votes, Refused: refused, Cast: kept, CastMore: len(y.cast) - len(kept)}
	if len(y.changes) == 0 {
		return record{kind: "votes.changed", subject: "observers", text: votes, detail: detail}
	}
	const shown = 3
	var parts []string
	subject := ""
	for i, c := range y.changes {
		of := "services/" + c.Target.Service
		if c.Target.FrontDoor() {
			of = "clusters/" + c.Target.Cluster
		}
		if i == 0 {
			subject = of
		} else if subject != of {
			subject = "targets"
		}
		if i < shown {
			regions := c.Up
			if c.To == health.Down {
				regions = c.Down
			}
			parts = append(parts, fmt.Sprintf("%s %s -> %s by %d of %d regions", c.Target, c.From, c.To, regions, c.Eligible))
		}
	}
	text := strings.Join(parts, "; ")
	if more := len(y.changes) - shown; more > 0 {
		text = fmt.Sprintf("%s; and %d more", text, more)
	}
	return record{kind: "verdict.changed", subject: subject, text: text, detail: detail}
}

// suspects returns the services that are suspect and answer with another TTL then.
func (st *State) suspects() map[string]bool {
	suspect := map[string]bool{}
	for name, s := range st.Services {
		if st.ttlVaries(name) && s.suspect(st.Observers) {
			suspect[name] = true
		}
	}
	return suspect
}
