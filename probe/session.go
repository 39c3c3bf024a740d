package probe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/health"
)

// session is what a Reporter knows of its dealings with the leader. Only the
// goroutine of Run touches it.
type session struct {
	r   *Reporter
	ctx context.Context
	wg  sync.WaitGroup

	acked    map[health.Target]health.Vote // what the state holds after ackedSeq
	ackedSeq uint64
	lastSeq  uint64 // the highest this node has used or heard
	nonce    uint64
	full     bool      // the leader needs everything
	dirty    bool      // votes may differ from acked
	recheck  int       // heartbeats until what the state lost is sent again; 0: nothing is to be
	attempts []attempt // reports whose outcome is unknown, oldest first

	batch    context.CancelFunc // cancels the batch under way; nil: none
	beating  context.CancelFunc // cancels the heartbeat under way; nil: none
	batchGen uint64             // tells replies of cancelled reports from live ones
	beatGen  uint64
	backoff  time.Duration
	refused  int  // reports in a row that the leader could not use
	waiting  bool // a retry is timed; changes wait for it, heartbeats do not
	replies  chan reply
}

// attempt is a set of votes that was sent under a sequence number.
type attempt struct {
	seq   uint64
	full  bool
	votes map[health.Target]health.Vote // all of them after it, not the difference
}

// reply is how one report ended.
type reply struct {
	report   Report
	beat     bool
	gen      uint64
	ackedSeq uint64 // when it was sent
	ack      Ack
	err      error
}

// offer sends what there is to send: changes if any, else, when a heartbeat is
// due, a heartbeat. A heartbeat says that the acknowledged votes still hold, so
// none is sent while they do not.
func (s *session) offer(beatDue bool) {
	if s.batch != nil || s.waiting && !beatDue {
		return // nothing can be sent, so nothing need be compared
	}
	var votes, changes map[health.Target]health.Vote
	if s.full || s.dirty {
		votes = s.r.cfg.Votes.Votes()
		changes = diff(s.acked, votes)
		s.dirty = len(changes) > 0
	}
	switch {
	case s.full || len(changes) > 0:
		s.sendBatch(votes, changes)
	case beatDue && s.beating == nil:
		s.beatGen++
		s.beating = s.send(Report{Seq: s.ackedSeq}, true, s.beatGen)
	}
}

// resend makes the next changes include what was acknowledged and is lost in the
// state since. It waits while anything is on its way: that may still arrive.
func (s *session) resend() {
	if s.recheck == 0 || s.r.cfg.Held == nil || s.full || s.batch != nil || len(s.attempts) > 0 {
		return
	}
	if s.recheck--; s.recheck > 0 {
		return
	}
	known := make(map[health.Target]health.Vote, len(s.acked))
	for t, v := range s.acked {
		if s.r.cfg.Held(t) {
			known[t] = v
		}
	}
	if len(known) < len(s.acked) {
		s.acked, s.dirty = known, true
	}
}

// sendBatch sends changes, or all votes, under a sequence number that was never
// used for other votes: the outcome of an earlier one may be unknown, and two
// contents under one number could not be told apart.
func (s *session) sendBatch(votes, changes map[health.Target]health.Vote) {
	if !s.full {
		changes, after := cutShort(s.acked, votes, changes)
		if n := len(s.attempts); n > 0 {
			if last := s.attempts[n-1]; !last.full && len(diff(last.votes, after)) == 0 {
				s.transmit(last.seq, changes) // the same again: it may have been applied
				return
			}
		}
		if len(s.attempts) < maxAttempts {
			s.attempt(changes, after)
			return
		}
		s.full = true
	}
	if len(s.attempts) >= maxAttempts {
		s.attempts = s.attempts[:0]
	}
	s.attempt(cutShort(nil, votes, diff(nil, votes)))
}

// attempt sends changes under the next number; after are all votes after them.
func (s *session) attempt(changes, after map[health.Target]health.Vote) {
	s.lastSeq++
	s.attempts = append(s.attempts, attempt{s.lastSeq, s.full, after})
	s.transmit(s.lastSeq, changes)
}

// cutShort returns as many of the changes as one report holds, and all votes after
// them. What a full set leaves out follows at once, as changes; until then this
// observer has no vote on it, and a vote that is missing turns no verdict.
func cutShort(known, votes, changes map[health.Target]health.Vote) (part, after map[health.Target]health.Vote) {
	if len(changes) <= maxVotes {
		return changes, votes
	}
	part = make(map[health.Target]health.Vote, maxVotes)
	for _, t := range slices.SortedFunc(maps.Keys(changes), health.CompareTargets)[:maxVotes] {
		part[t] = changes[t]
	}
	after = make(map[health.Target]health.Vote, len(known)+maxVotes)
	for t, v := range votes {
		if _, changed := changes[t]; !changed {
			after[t] = v
		} else if sent, ok := part[t]; ok {
			after[t] = sent
		} else if k, ok := known[t]; ok {
			after[t] = k
		}
	}
	return part, after
}

func (s *session) transmit(seq uint64, votes map[health.Target]health.Vote) {
	s.batchGen++
	r := Report{Seq: seq, Prev: s.ackedSeq, Full: s.full, Votes: votes}
	s.batch = s.send(r, false, s.batchGen)
}

// send sends one report and returns what cancels it.
func (s *session) send(r Report, beat bool, gen uint64) context.CancelFunc {
	cfg := &s.r.cfg
	r.Nonce, r.TableIndex, r.Version, r.Clock = s.nonce, cfg.TableIndex(), cfg.Version, time.Now().Round(0).UTC()
	ctx, cancel := context.WithTimeout(s.ctx, cfg.Timeout)
	ackedSeq := s.ackedSeq
	s.wg.Go(func() {
		defer cancel()
		ack, err := cfg.Sink.Report(ctx, r)
		select {
		case s.replies <- reply{r, beat, gen, ackedSeq, ack, err}:
		case <-s.ctx.Done():
		}
	})
	return cancel
}

// abort gives up on what is under way.
func (s *session) abort() {
	if s.batch != nil {
		s.batch()
		s.batch = nil
		s.batchGen++
	}
	if s.beating != nil {
		s.beating()
		s.beating = nil
		s.beatGen++
	}
}

// take takes a reply and returns how long to wait before sending changes again,
// zero for not at all.
func (s *session) take(re reply) time.Duration {
	if re.beat {
		if re.gen == s.beatGen {
			s.beating = nil
		}
	} else if re.gen == s.batchGen {
		s.batch = nil
	}
	stale := re.beat && re.gen != s.beatGen || !re.beat && re.gen != s.batchGen
	if re.err != nil {
		if stale || re.beat {
			return 0 // the next heartbeat comes by itself
		}
		s.r.cfg.Log.Debug("report has no known outcome", keySeq, re.report.Seq, keyErr, re.err)
		return s.pause()
	}
	if stale {
		return 0 // the answer of a leader that is no more
	}
	s.nonce = re.ack.Nonce
	s.lastSeq = max(s.lastSeq, re.ack.Seq)
	settled := s.settle(re.ack.Seq)
	switch {
	case settled && !re.ack.NeedFull:
		s.backoff, s.refused = retryMin, 0
		return 0
	case re.beat && (s.batch != nil || re.ackedSeq != s.ackedSeq):
		return 0 // overtaken by a batch
	case re.ack.NeedFull, re.ack.Seq != re.report.Prev && re.ack.Seq != re.report.Seq:
		// The leader's state and ours have parted: it knows fewer votes, or more.
		s.full = true
		s.refused++
		if s.refused > 2 {
			// One refusal tells the number to go above, one more the nonce to echo.
			return s.pause()
		}
		return 0
	}
	return s.pause() // taken, not yet applied
}

// pause returns the next pause and doubles the one after it.
func (s *session) pause() time.Duration {
	p := s.backoff
	s.backoff = min(2*s.backoff, retryMax)
	return p
}

// settle notes that the state holds seq and reports whether that is known to
// mean all that was sent up to it.
func (s *session) settle(seq uint64) bool {
	for i, a := range s.attempts {
		if a.seq != seq {
			continue
		}
		s.acked, s.ackedSeq, s.dirty = a.votes, seq, true
		if a.full {
			s.full = false
		}
		s.attempts = append(s.attempts[:0], s.attempts[i+1:]...)
		return true
	}
	return seq == s.ackedSeq && len(s.attempts) == 0
}

// diff returns what of votes a leader that knows known has to be told: changed
// sides, the reasons of unknown ones and what degrades up ones. A target that was never voted on and
// has nothing to say yet is left out.
func diff(known, votes map[health.Target]health.Vote) map[health.Target]health.Vote {
	out := map[health.Target]health.Vote{}
	for t, v := range votes {
		k, ok := known[t]
		switch {
		case !ok && v.Side == health.Unknown && v.Reason == "":
		case !ok, k.Side != v.Side, v.Side == health.Unknown && k.Reason != v.Reason, k.Degraded != v.Degraded:
			out[t] = v
		}
	}
	return out
}
