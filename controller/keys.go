package controller

// Keys of log records.
const (
	keyErr      = "err"
	keyGap      = "gap"
	keyIndex    = "index"
	keyObserver = "observer"
	keyReason   = "reason"
	keyService  = "service"
	keySide     = "side"
	keySubject  = "subject"
	keyTarget   = "target"
	keyVerdict  = "verdict"
)
