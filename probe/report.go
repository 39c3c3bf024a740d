package probe

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/quorate/quorate/health"
)

// Report is what an observer tells the leader: a heartbeat when Votes is nil and
// Full is false, else vote changes since Prev (or all votes when Full).
type Report struct {
	Seq   uint64                        `json:"seq"`            // after these votes; a heartbeat's is the last acknowledged one
	Prev  uint64                        `json:"prev,omitempty"` // the acknowledged seq these changes build on
	Full  bool                          `json:"full,omitempty"`
	Votes map[health.Target]health.Vote `json:"votes,omitempty"`

	Nonce      uint64    `json:"nonce"` // the last one the leader sent; its freshness counts from there
	TableIndex uint64    `json:"table_index"`
	Version    string    `json:"version"`
	Clock      time.Time `json:"clock"` // this node's wall clock, shown as an offset; decides nothing
}

// Ack is the leader's answer. Seq is what the state holds for this observer.
type Ack struct {
	Nonce    uint64 `json:"nonce"`
	NeedFull bool   `json:"need_full,omitempty"`
	Seq      uint64 `json:"seq"`
}

// Sink takes reports to the leader, whoever that is. An error means the outcome
// is unknown: the report may have been applied.
type Sink interface {
	Report(ctx context.Context, r Report) (Ack, error)
}

// Votes is where a Reporter reads this observer's votes; a Prober is one.
type Votes interface {
	// Votes returns the current votes, in a map that never changes.
	Votes() map[health.Target]health.Vote
	// Changed returns a channel that is closed at the next change of votes.
	Changed() <-chan struct{}
}

// ReporterConfig is what a Reporter needs.
type ReporterConfig struct {
	Votes Votes
	Sink  Sink

	Version       string
	TableIndex    func() uint64          // nil: 0
	LeaderChanged func() <-chan struct{} // closed at the next change of leader; nil: never told

	// Held reports whether the state, as far as this node knows it, still has this
	// observer's vote on a target, or has no such target. Nil: always.
	Held func(health.Target) bool

	Heartbeat time.Duration // zero: 1 s
	Timeout   time.Duration // of one report; zero: 2 s
	Log       *slog.Logger  // nil: none
}

const (
	defaultHeartbeat     = time.Second
	defaultReportTimeout = 2 * time.Second
	// retryMin and retryMax bound the pause before changes are sent again.
	retryMin = 200 * time.Millisecond
	retryMax = 2 * time.Second
	// recheckBeats is how many heartbeats after a newer spec the votes that the state
	// lost are sent again: by then the prober votes by that spec, and not by the old.
	recheckBeats = 2
	// maxAttempts is how many unanswered reports are remembered, to recognise a
	// late acknowledgement. Beyond it the leader gets everything instead.
	maxAttempts = 16
	// maxVotes bounds a report. All votes on ten thousand services are megabytes, which
	// a busy leader takes longer to commit than a report may last: it would then be
	// sent again and again, and its sender be held for silent.
	maxVotes = 2048
)

// Reporter keeps the leader told of this observer's votes: changes at once,
// heartbeats every second, everything when the leader asks. It never blocks
// probing: it reads votes and owns nothing of the Prober.
type Reporter struct {
	cfg     ReporterConfig
	resync  chan struct{} // holds one token
	recheck chan struct{} // holds one token
}

// NewReporter returns a Reporter that does nothing until Run.
func NewReporter(cfg ReporterConfig) *Reporter {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, defaultHeartbeat)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultReportTimeout)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.TableIndex == nil {
		cfg.TableIndex = func() uint64 { return 0 }
	}
	if cfg.LeaderChanged == nil {
		cfg.LeaderChanged = func() <-chan struct{} { return nil }
	}
	return &Reporter{cfg: cfg, resync: make(chan struct{}, 1), recheck: make(chan struct{}, 1)}
}

// Resync makes the next report a full one: after this node's state was restored
// from a snapshot it may have missed that the leader dropped votes.
func (r *Reporter) Resync() {
	select {
	case r.resync <- struct{}{}:
	default: // one is asked for already
	}
}

// Recheck has the votes that the state lost sent again: a newer spec drops those on
// targets that came back or are probed otherwise, also where the vote stays what it
// was, since the probes it rests on run on for other services.
func (r *Reporter) Recheck() {
	select {
	case r.recheck <- struct{}{}:
	default: // one is asked for already
	}
}

// Run reports until ctx is done, waits for the reports under way and returns nil.
// It is called once.
func (r *Reporter) Run(ctx context.Context) error {
	s := session{
		r: r, ctx: ctx,
		acked:   map[health.Target]health.Vote{},
		full:    true, // what an earlier life of this node reported is not known
		dirty:   true,
		backoff: retryMin,
		replies: make(chan reply, 2), // one batch and one heartbeat at most
	}
	beat := time.NewTicker(r.cfg.Heartbeat)
	defer beat.Stop()
	retry := time.NewTimer(0)
	retry.Stop()
	defer s.wg.Wait()
	defer s.abort()
	leader := r.cfg.LeaderChanged()
	changed := r.cfg.Votes.Changed()
	s.offer(true)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			s.resend()
			s.offer(true)
		case <-changed:
			changed = r.cfg.Votes.Changed()
			s.dirty = true
			s.offer(false)
		case <-retry.C:
			s.waiting = false
			s.offer(false)
		case <-r.resync:
			s.full = true
			s.offer(false)
		case <-r.recheck:
			s.recheck = recheckBeats
		case <-leader:
			leader = r.cfg.LeaderChanged()
			// What the old leader has not answered it never will.
			s.abort()
			s.backoff, s.refused, s.waiting = retryMin, 0, false
			s.offer(true)
		case re := <-s.replies:
			if pause := s.take(re); pause > 0 {
				s.waiting = true
				retry.Reset(pause)
			} else {
				s.offer(false)
			}
		}
	}
}
