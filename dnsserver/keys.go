package dnsserver

// Keys of log records.
const (
	keyErr   = "err"
	keyPanic = "panic"
	keyStack = "stack"
	keyZone  = "zone"
)
