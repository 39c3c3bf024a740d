package probe

// Keys of log records.
const (
	keyErr    = "err"
	keyGap    = "gap"
	keyProbe  = "probe"
	keyReason = "reason"
	keySeq    = "seq"
)
