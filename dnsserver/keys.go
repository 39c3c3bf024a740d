package dnsserver

// Keys of log records.
const (
	keyPanic = "panic"
	keyStack = "stack"
)
