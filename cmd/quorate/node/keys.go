package node

// Keys of log records.
const (
	keyAddr    = "addr"
	keyAPI     = "api"
	keyCA      = "ca"
	keyCutover = "cutover"
	keyDNS     = "dns"
	keyErr     = "err"
	keyFiles   = "files"
	keyJoined  = "joined"
	keyKept    = "kept"
	keyNext    = "next"
	keyNode    = "node"
	keyPanic   = "panic"
	keyPart    = "part"
	keyPeer    = "peer"
	keyRegion  = "region"
	keyRole    = "role"
	keyStack   = "stack"
	keyVersion = "version"
)
