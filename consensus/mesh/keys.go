package mesh

// Keys of log records.
const (
	keyErr       = "err"
	keyExpired   = "expired"
	keyFrom      = "from"
	keyListen    = "listen"
	keyNode      = "node"
	keyPeer      = "peer"
	keyProto     = "proto"
	keyReason    = "reason"
	keyRole      = "role"
	keyValidFrom = "valid_from"
)
