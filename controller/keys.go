package controller

// Keys of log records.
const (
	keyBy       = "by"
	keyDown     = "down"
	keyErr      = "err"
	keyGap      = "gap"
	keyIndex    = "index"
	keyNumber   = "number"
	keyObserver = "observer"
	keyQuorum   = "quorum"
	keyReason   = "reason"
	keyService  = "service"
	keySide     = "side"
	keySubject  = "subject"
	keyTarget   = "target"
	keyUp       = "up"
	keyVerdict  = "verdict"
	keyWas      = "was"
)
