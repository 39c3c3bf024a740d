package api

// Keys of log records.
const (
	keyErr     = "err"
	keyUser    = "user"
	keyVia     = "via"
	keyRoute   = "route"
	keyRequest = "request"
	keyIndex   = "index"
	keyRemote  = "remote"
	keyAddr    = "addr"
	keyStack   = "stack"
	keyLevel   = "level"
	keyKind    = "kind"
)
