package node

// Keys of log records.
const (
	keyAddr     = "addr"
	keyAPI      = "api"
	keyBehind   = "behind"
	keyBuild    = "build"
	keyCA       = "ca"
	keyCutover  = "cutover"
	keyDNS      = "dns"
	keyErr      = "err"
	keyFile     = "file"
	keyFiles    = "files"
	keyJoined   = "joined"
	keyKept     = "kept"
	keyNetworks = "networks"
	keyNext     = "next"
	keyNode     = "node"
	keyPanic    = "panic"
	keyPart     = "part"
	keyPeer     = "peer"
	keyRegion   = "region"
	keyRole     = "role"
	keyStack    = "stack"
	keyVersion  = "version"
	keyZone     = "zone"
)
