package probe

import (
	"time"

	"github.com/quorate/quorate/health"
)

// hysteresis turns a probe's results into its side: fall consecutive bad ones
// turn it down, rise good ones up. The first side needs the same run as a later
// one, since a vote cast on one packet is a vote somebody has to take back.
type hysteresis struct {
	fall, rise int

	side health.Side
	// sure says that side was seen since the last gap. Until then the probe has no
	// opinion, and why says which gap it was; empty for a new probe.
	sure bool
	why  Reason

	runOK    bool      // what the run is of
	run      int       // consecutive results against side; zero: the last one agreed
	runSince time.Time // completion of the run's first result
	bad      Reason    // of the last bad result that counted
}

// add takes a result that completed at and returns the side its run has reached,
// Unknown for none. The side does not change until turn: a run of bad results
// may have to wait for evidence that this node is not the sick party.
func (h *hysteresis) add(ok bool, reason Reason, at time.Time) health.Side {
	if !ok {
		h.bad = reason
	}
	if (ok && h.side == health.Up) || (!ok && h.side == health.Down) {
		h.run, h.sure = 0, true
		return health.Unknown
	}
	if h.run == 0 || h.runOK != ok {
		h.run, h.runOK, h.runSince = 0, ok, at
	}
	h.run++
	return h.reached()
}

// reached returns the side the current run is long enough for, or Unknown.
func (h *hysteresis) reached() health.Side {
	switch {
	case h.run == 0:
		return health.Unknown
	case h.runOK && h.run >= max(h.rise, 1):
		return health.Up
	case !h.runOK && h.run >= max(h.fall, 1):
		return health.Down
	}
	return health.Unknown
}

// turn makes side the probe's side.
func (h *hysteresis) turn(side health.Side) { h.side, h.sure, h.run = side, true, 0 }

// doubt forgets the current run and withholds the side until a result confirms
// it: what was seen before the gap says nothing about now.
func (h *hysteresis) doubt(why Reason) { h.sure, h.why, h.run = false, why, 0 }

// suspect reports whether the next result should come soon.
func (h *hysteresis) suspect() bool { return h.run > 0 || !h.sure }

// opinion returns what the probe may be counted as.
func (h *hysteresis) opinion() (health.Side, Reason) {
	switch {
	case !h.sure:
		return health.Unknown, h.why
	case h.side == health.Down:
		return health.Down, h.bad
	case h.side == health.Up:
		return health.Up, ReasonOK
	}
	return health.Unknown, h.why
}

// degradation turns the warnings of good results into a state: as many in a row as
// turn a probe down make it degraded, as many without as turn it up end that.
type degradation struct {
	is   string // one of the values of Result.Degraded
	next string // what the run is of
	run  int    // consecutive good results that say something else
}

// add takes what a good result warns of.
func (d *degradation) add(why string, fall, rise int) {
	if why == d.is {
		d.run = 0
		return
	}
	if d.run > 0 && (why == "") != (d.next == "") {
		d.run = 0
	}
	d.next = why
	d.run++
	enough := fall
	if why == "" {
		enough = rise
	}
	if d.run >= max(enough, 1) {
		d.is, d.run = why, 0
	}
}
