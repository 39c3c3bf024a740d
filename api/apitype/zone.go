package apitype

// Zone is a zone as the node that was asked serves it.
type Zone struct {
	Zone     string    `json:"zone"`
	Node     string    `json:"node"`
	Serial   uint32    `json:"serial"`
	Records  int       `json:"records"` // that one client can see
	Services []string  `json:"services"`
	Sets     []ZoneSet `json:"sets"` // in canonical order of their owners
}

// ZoneSet is the records of one type at one name. What a service answers with differs
// by client and time: explain tells.
type ZoneSet struct {
	Owner   string   `json:"owner"`
	Type    string   `json:"type"`
	TTL     uint32   `json:"ttl_seconds"`
	Data    []string `json:"data"`              // in presentation format; empty for what a service decides
	Service string   `json:"service,omitempty"` // whose name it is
	Derived bool     `json:"derived,omitempty"` // made from the members and the zone's keys
}
