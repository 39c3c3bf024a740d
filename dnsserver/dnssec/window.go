package dnssec

import (
	"encoding/binary"
	"time"
)

const (
	// early is how far before its making a signature is valid from, for validators
	// whose clocks are behind.
	early = int64(time.Hour / time.Second)

	// renewals is how many signatures of a set are made while the first would be valid:
	// each is replaced after a quarter of its life, so that three quarters of it are
	// left to find out that signing stopped.
	renewals = 4
)

// windows cuts time into pieces in which one signature of a set serves. All nodes
// cut alike, and each set at another moment: nothing makes all signatures at once,
// and the same set has the same inception and expiration everywhere.
type windows struct {
	length int64 // seconds
	valid  int64 // seconds, from the window's start
}

// shortestWindow keeps signatures of a mistaken, very short validity from being made
// for every query.
const shortestWindow = 60

func windowsOf(valid time.Duration) windows {
	v := int64(valid / time.Second)
	return windows{length: max(v/renewals, shortestWindow), valid: max(v, renewals*shortestWindow)}
}

// span is when a signature is made for, and used, in Unix seconds.
type span struct {
	inception, expiration int64
	next                  int64 // the next window begins: a newer signature is wanted
	last                  int64 // after this it is not used at all
}

// at returns the span of the window that now is in, for the set of the digest.
func (w windows) at(digest *[digestSize]byte, now int64) span {
	phase := int64(binary.BigEndian.Uint64(digest[:]) % uint64(w.length))
	start := now - mod(now-phase, w.length)
	end := start + w.valid
	return span{
		inception: start - early, expiration: end,
		next: start + w.length, last: end - w.valid/8,
	}
}

// mod is the remainder that is never negative.
func mod(a, b int64) int64 { return (a%b + b) % b }

// good reports whether a signature may be used: a clock that was set may have left
// its window to either side.
func (s span) good(now int64) bool { return s.inception <= now && now < s.last }

// current reports whether it is the one to use.
func (s span) current(now int64) bool { return s.next-now > 0 && now >= s.inception+early }
