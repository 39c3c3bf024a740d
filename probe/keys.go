package probe

// The keys of this package's log lines.
const (
	keyErr    = "err"
	keyGap    = "gap"
	keyProbe  = "probe"
	keyReason = "reason"
	keySeq    = "seq"
)
