package probe

// Keys of log records.
const (
	keyCluster = "cluster"
	keyErr     = "err"
	keyGap     = "gap"
	keyProbe   = "probe"
	keyReason  = "reason"
	keySeq     = "seq"
)
