package consensus

// Keys of log records.
const (
	keyErr      = "err"
	keyFailures = "failures"
	keyID       = "id"
	keyLeader   = "leader"
	keyMethod   = "method"
	keyPanic    = "panic"
	keyPeer     = "peer"
	keyReason   = "reason"
	keyStack    = "stack"
	keyTerm     = "term"
	keyWas      = "was"
)
