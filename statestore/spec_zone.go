package statestore

// Zone is a delegated zone.
type Zone struct {
	SOA     SOA                            `json:"soa"`
	NS      []string                       `json:"ns,omitempty"` // empty: ns-NODE.ZONE or dns.advertise.name of each answering member
	NSTTL   Duration                       `json:"ns_ttl"`
	Records map[string]map[string][]string `json:"records,omitempty"` // relative owner ("@" the apex) -> type -> rdata in presentation format
	TTLs    map[string]map[string]uint32   `json:"ttls,omitempty"`    // seconds, of what in Records says one: relative owner -> type
	DNSSEC  *DNSSEC                        `json:"dnssec,omitempty"`  // nil: unsigned
}

// SOA holds what of the SOA record people choose; the serial is derived.
type SOA struct {
	MName       string   `json:"mname,omitempty"` // empty: the NS name of the first voter by name
	RName       string   `json:"rname,omitempty"` // empty: hostmaster.ZONE
	Refresh     Duration `json:"refresh"`
	Retry       Duration `json:"retry"`
	Expire      Duration `json:"expire"`
	NegativeTTL Duration `json:"negative_ttl"`
}

// DNS is what all nodes answer alike.
type DNS struct {
	Cookies *Secret `json:"cookies,omitempty"` // of server cookies (RFC 9018); nil: each node draws its own
}

// Secret names a secret that the nodes hold, and the ones beside it during a
// rollover: each step is safe once every node has the files of the one before.
type Secret struct {
	Secret   string `json:"secret"`
	Next     string `json:"next,omitempty"`     // known, not in use yet
	Previous string `json:"previous,omitempty"` // not in use any more, still accepted
}

// DNSSEC says how a zone is signed. The keys are secrets of the nodes, never in the
// log. Next and Previous of both are published; those of the KSK sign the keys too, and
// the parent's DS should name Secret.
type DNSSEC struct {
	Mode      SigningMode `json:"mode"`
	Algorithm Algorithm   `json:"algorithm"`
	Denial    Denial      `json:"denial"`
	Valid     Duration    `json:"valid"`  // of signatures
	DSTTL     Duration    `json:"ds_ttl"` // of the parent's DS record
	KSK       Secret      `json:"ksk"`
	ZSK       Secret      `json:"zsk"`
}

// SigningMode is whether answers are signed. An unsigned zone has no DNSSEC at all.
type SigningMode string

// The modes.
const (
	Signed  SigningMode = "on"
	Leaving SigningMode = "leaving" // signed still; CDS and CDNSKEY ask the parent to remove the DS (RFC 8078 4)
)

// Algorithm is a DNSSEC algorithm.
type Algorithm string

// The algorithms (RFC 8624).
const (
	ECDSAP256SHA256 Algorithm = "ecdsap256sha256"
	ED25519         Algorithm = "ed25519"
)

// Denial is how it is proved that something is not there.
type Denial string

// The ways.
const (
	CompactDenial Denial = "compact" // RFC 9824
	NSECDenial    Denial = "nsec"    // a chain of all names (RFC 4034 4)
)
