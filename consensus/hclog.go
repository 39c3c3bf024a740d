package consensus

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLog hands raft's log lines to slog. raft reports at high levels what is its
// daily business while a peer is away; our own contact tracking reports that once
// (contact.go), so those lines become DEBUG and other errors WARN: an ERROR of ours
// means that somebody must act.
type raftLog struct {
	log  *slog.Logger
	name string
	args []any
}

// noise is what raft says at ERROR for every attempt while a peer is unreachable.
var noise = []string{
	"failed to heartbeat", "failed to appendEntries", "failed to make requestVote", "failed to send snapshot",
	"failed to pipeline", "failed to accept connection", "failed to decode incoming command", "failed to flush response",
	"failed to install snapshot", "failed to take snapshot",
}

func (l *raftLog) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	if level >= hclog.Error {
		to = slog.LevelWarn
		for _, n := range noise {
			if strings.HasPrefix(msg, n) {
				to = slog.LevelDebug
			}
		}
	}
	if !l.log.Enabled(context.Background(), to) {
		return
	}
	pairs := make([]any, 0, len(l.args)+len(args))
	for i, a := range append(append(pairs, l.args...), args...) {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = f[0]
		}
		if i%2 == 0 && a == "error" {
			a = "err"
		}
		pairs = append(pairs, a)
	}
	l.log.Log(context.Background(), to, "raft: "+msg, pairs...)
}

func (l *raftLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLog) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLog) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLog) IsTrace() bool { return false }
func (l *raftLog) IsDebug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }
func (l *raftLog) IsInfo() bool  { return l.IsDebug() }
func (l *raftLog) IsWarn() bool  { return l.IsDebug() }
func (l *raftLog) IsError() bool { return true }

func (l *raftLog) ImpliedArgs() []any { return l.args }
func (l *raftLog) Name() string       { return l.name }

func (l *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{l.log, l.name, append(append([]any(nil), l.args...), args...)}
}

func (l *raftLog) Named(name string) hclog.Logger      { return &raftLog{l.log, name, l.args} }
func (l *raftLog) ResetNamed(name string) hclog.Logger { return l.Named(name) }
func (l *raftLog) SetLevel(hclog.Level)                {} // slog decides
func (l *raftLog) GetLevel() hclog.Level               { return hclog.Debug }

func (l *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}

func (l *raftLog) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
