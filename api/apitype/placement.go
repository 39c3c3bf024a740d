package apitype

import (
	"net/netip"
	"time"
)

// Override is a pin in force.
type Override struct {
	Cluster string    `json:"cluster"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until,omitzero"`
	Note    string    `json:"note,omitempty"` // why it has no effect now, such as "us is down"
}

// OverrideRequest pins a stateless service to a cluster.
type OverrideRequest struct {
	Cluster string `json:"cluster"`
	For     string `json:"for,omitempty" doc:"a duration such as 30m; empty: until cleared"`
	Reason  string `json:"reason" doc:"why, for the post-mortem"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// ClearOverrideRequest ends a pin.
type ClearOverrideRequest struct {
	Reason string `json:"reason,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// DrainsRequest takes several clusters out at once, judged together.
type DrainsRequest struct {
	Clusters []string `json:"clusters,omitempty" doc:"by name"`
	Match    string   `json:"match,omitempty" doc:"or those whose labels match this selector"`
	Services []string `json:"services,omitempty" doc:"only these services; empty: all"`
	For      string   `json:"for,omitempty" doc:"a duration such as 2h; empty: until undrained"`
	Reason   string   `json:"reason" doc:"why, for the post-mortem"`
	DryRun   bool     `json:"dry_run,omitempty"`
}

// ProbeRequest runs the checks of a service at a cluster once, now.
type ProbeRequest struct {
	Service  string `json:"service,omitempty" doc:"empty: the cluster's front door"`
	Cluster  string `json:"cluster"`
	Endpoint string `json:"endpoint,omitempty" doc:"one address; empty: every endpoint"`
	From     string `json:"from,omitempty" doc:"the node that probes; this one when empty"`
}

// ProbeReport is how those checks went. It changes no vote.
type ProbeReport struct {
	Node    string       `json:"node"`
	Service string       `json:"service,omitempty"`
	Cluster string       `json:"cluster"`
	Runs    []ProbeOnce  `json:"runs"`
	Votes   []ProbedVote `json:"votes"` // what that node votes on each of the endpoints
}

// ProbedVote is the probing node's standing vote on one endpoint.
type ProbedVote struct {
	Endpoint netip.Addr `json:"endpoint"`
	Side     string     `json:"side"`
	Reason   string     `json:"reason,omitempty"`
}

// ProbeOnce is one check of one endpoint.
type ProbeOnce struct {
	Check       string       `json:"check"`
	Kind        string       `json:"kind"` // http, https, tcp, tls, grpc, dns or icmp
	Endpoint    netip.Addr   `json:"endpoint"`
	OK          bool         `json:"ok"`
	Reason      string       `json:"reason"` // of the fixed list
	Detail      string       `json:"detail,omitempty"`
	Degraded    string       `json:"degraded,omitempty"`
	TookSeconds float64      `json:"took_seconds"`
	CertExpires time.Time    `json:"cert_expires,omitzero"`
	Phases      []ProbePhase `json:"phases"`
}

// ProbePhase is one part of a check: resolve, connect, tls, send, first byte, read
// or match.
type ProbePhase struct {
	Phase       string  `json:"phase"`
	OK          bool    `json:"ok"`
	TookSeconds float64 `json:"took_seconds"`
	Text        string  `json:"text,omitempty"` // what was seen: an address, a status, a certificate's name
}

// ClientReach is what a change does to a sample of clients: those that stand for each
// region and each cluster's networks, asked for every service, and the networks that
// asked most for a service in the last hour.
type ClientReach struct {
	Sampled  int            `json:"sampled"` // clients asked for every service
	Services []ServiceReach `json:"services"`
}

// ServiceReach is what a change does to one service's clients. Moved clients get
// another cluster, lost ones none.
type ServiceReach struct {
	Service string       `json:"service"`
	Sampled int          `json:"sampled"` // clients asked for this one
	Moved   int          `json:"moved"`
	Lost    int          `json:"lost"`
	Moves   []ClientMove `json:"moves"` // those that change, and how

	Observed *ObservedReach `json:"observed,omitempty"` // absent: nobody asked lately, or no node knows
}

// ClientMove is one client of the sample and its answers before and after.
type ClientMove struct {
	Client string `json:"client"` // a network, or a region's name

	// Percent is the part of the queries in ServiceReach.Observed that a network made;
	// 0 for a client that only stands for others.
	Percent float64 `json:"percent,omitempty"`

	Region string `json:"region,omitempty"`
	Before string `json:"before"` // clusters with their part, such as "eu" or "eu 80%, us 20%"; else the response code
	After  string `json:"after"`
}

// Simulation is who would answer what, if.
type Simulation struct {
	Node       string             `json:"node"`
	Revision   uint64             `json:"revision"`
	Index      uint64             `json:"index"`
	Conditions []string           `json:"conditions"`
	Quorum     string             `json:"quorum"` // what would become of it, in a line
	Services   []SimulatedService `json:"services"`
	Notes      []string           `json:"notes"` // what people should know, such as a cutover that would be proposed
	Clients    ClientReach        `json:"clients"`
}

// SimulatedService is a service's answers now and then.
type SimulatedService struct {
	Service string    `json:"service"`
	Before  []Percent `json:"before"`
	After   []Percent `json:"after"`
	Text    string    `json:"text"` // one line: what happens and by whom
}

// ReplayRequest asks what recorded votes would have come to under another spec.
type ReplayRequest struct {
	Source string    `json:"source" doc:"spec.yaml, the whole text"`
	Name   string    `json:"name,omitempty" doc:"file name used in positions"`
	Since  time.Time `json:"since,omitzero" doc:"from then on; the last 24 hours when absent"`
}

// Replay compares what happened with what would have happened.
type Replay struct {
	Since    time.Time      `json:"since"` // of the first vote that is still recorded
	Until    time.Time      `json:"until"`
	Votes    int            `json:"votes"` // replayed
	Targets  []ReplayTarget `json:"targets"`
	Warnings []string       `json:"warnings"` // what cannot be told from the record
}

// ReplayTarget is one target whose verdict would have turned otherwise.
type ReplayTarget struct {
	Target string       `json:"target"`
	Was    []ReplayTurn `json:"was"`
	Would  []ReplayTurn `json:"would"`
	Text   string       `json:"text"` // such as "with fall 5 it would not have gone down on 2026-11-30 03:10:02Z"
}

// ReplayTurn is one turn of a verdict.
type ReplayTurn struct {
	At   time.Time `json:"at"`
	Side string    `json:"side"`
}
