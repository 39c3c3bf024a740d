package config

import (
	"net/netip"
	"time"
)

// Node is a node.yaml with every default filled in. It is not changed after it
// was read.
type Node struct {
	Name        string
	Region      string
	Labels      map[string]string
	Voter       bool
	Coordinates []float64 // latitude, longitude; nil: not set

	DataDir string

	DNS      NodeDNS
	API      NodeAPI
	Peer     NodePeer
	Observer NodeObserver
	Log      NodeLog

	Secrets Secrets // nil: none

	MemoryLimit int64 // bytes; 0: none

	// Unused are the set keys without behaviour in this version; a server that
	// starts refuses them by name.
	Unused []Note
}

// NodeDNS says where the node answers DNS.
type NodeDNS struct {
	Listen    []string // HOST:PORT, UDP and TCP on each; empty: this node answers nobody
	Advertise Advertise
	NSID      string     // empty: answers carry none
	UDPSize   int        // bytes; answers over UDP are never longer, nor above 1232
	RateLimit *RateLimit // nil: answers are not limited
	GeoIP     GeoIP
}

// RateLimit bounds the answers over UDP to one client network.
type RateLimit struct {
	PerSecond int
	Slip      int
	Exempt    []netip.Prefix
	LogOnly   bool
}

// GeoIP is where the node reads the places of clients.
type GeoIP struct {
	Database string        // a file in MaxMind's format; empty: none
	Reload   time.Duration // time between two looks at the file
}

// Advertise is what resolvers use to reach the node.
type Advertise struct {
	Name string // FQDN with trailing dot; empty: ns-NODE.ZONE
	IPv4 []netip.Addr
	IPv6 []netip.Addr
}

// NodeAPI says where the HTTP API and the console are.
type NodeAPI struct {
	Listen        string  // HOST:PORT
	TLS           *APITLS // nil: plain HTTP
	ExternalURL   string  // empty: not known from outside
	MetricsListen string  // empty: /metrics is on Listen
}

// APITLS names the API's certificate files.
type APITLS struct {
	Cert     string
	Key      string
	ClientCA string // empty: client certificates are not asked for
}

// NodePeer says how nodes reach each other.
type NodePeer struct {
	Listen        string   // HOST:PORT
	Advertise     string   // HOST:PORT at which other nodes reach this one
	TLS           *PeerTLS // nil: the certificate from init or join, in the data directory
	Join          []string // HOST:PORT of nodes to join by
	JoinTokenFile string   // read at the first start only; empty: none
	Expect        int      // bootstrap.expect; 0: not set
	Profile       string   // "wan" or "lan"
}

// PeerTLS names certificate files made beforehand.
type PeerTLS struct {
	CA   string
	Cert string
	Key  string
}

// NodeObserver says how the node probes.
type NodeObserver struct {
	Enabled        bool
	MaxConcurrency int
	SourceIPv4     netip.Addr // invalid: the system chooses
	SourceIPv6     netip.Addr
	Resolvers      []netip.AddrPort // for clusters with a hostname; empty: the system's
	Canaries       []string         // HOST:PORT
	Allow          []netip.Prefix   // private ranges that probes may reach
}

// NodeLog says how the node logs.
type NodeLog struct {
	Format string // "auto", "text" or "json"
	Level  string // "debug", "info", "warn" or "error"
}
