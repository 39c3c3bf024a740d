package notify

// Keys of log records.
const (
	keyAfter    = "after"
	keyBefore   = "before"
	keyErr      = "err"
	keyIndex    = "index"
	keyReceiver = "receiver"
	keySecret   = "secret"
	keySubject  = "subject"
	keyType     = "type"
)
