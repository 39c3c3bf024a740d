package apitype

import "time"

// Signing is how a zone is signed, as one node has it.
type Signing struct {
	Zone      string `json:"zone"`
	Node      string `json:"node"`
	Mode      string `json:"mode"` // "off", "on" or "leaving"
	Algorithm string `json:"algorithm,omitempty"`
	Denial    string `json:"denial,omitempty"`

	Problem string       `json:"problem,omitempty"` // what of the keys this node cannot read
	Keys    []SigningKey `json:"keys"`              // that this node has; KSKs first
	Until   time.Time    `json:"signed_until,omitzero"`

	// Parent is the DS data that the parent should have; empty: none. From ParentFrom on
	// it may have it.
	Parent     []string  `json:"parent_ds"`
	ParentFrom time.Time `json:"parent_from,omitzero"`

	Since    time.Time     `json:"since,omitzero"`     // the mode is this
	LeaveDue time.Time     `json:"leave_due,omitzero"` // when a zone that is leaving may be off, at the earliest
	Rolls    []SigningRoll `json:"rolls"`
}

// SigningKey is a key that is published.
type SigningKey struct {
	Role      string `json:"role"`  // "ksk" or "zsk"
	Place     string `json:"place"` // "active", "next" or "previous"
	Secret    string `json:"secret"`
	Tag       uint16 `json:"tag"`
	Algorithm string `json:"algorithm"`
	Signs     bool   `json:"signs"`
	DS        string `json:"ds,omitempty"` // of a KSK
}

// SigningRoll is where the keys of a role stand.
type SigningRoll struct {
	Role     string    `json:"role"`
	Secret   string    `json:"secret"`
	Next     string    `json:"next,omitempty"`
	Previous string    `json:"previous,omitempty"`
	Since    time.Time `json:"since"`

	Then *SigningStep `json:"then,omitempty"` // absent while no roll has begun
}

// SigningStep is the next step of a roll: what the keys become, and from when on.
type SigningStep struct {
	Secret   string    `json:"secret"`
	Previous string    `json:"previous,omitempty"`
	Due      time.Time `json:"due"`
	Ready    bool      `json:"ready"` // by log time
}
