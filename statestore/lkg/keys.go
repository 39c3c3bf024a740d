package lkg

// Keys of log records.
const (
	keyAfter = "after"
	keyBytes = "bytes"
	keyDir   = "dir"
	keyErr   = "err"
	keyFile  = "file"
	keyIndex = "index"
)
