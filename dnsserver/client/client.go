// Package client asks DNS servers single questions, for `quorate query`, the
// demo's watcher and tests.
//
// It sends one question over UDP, takes only an answer with the same id and
// question, and asks again over TCP when that one is truncated. It follows
// nothing and caches nothing.
package client

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Options change how a question is asked. The zero value is a plain question
// with EDNS over UDP and a timeout of 2 s.
type Options struct {
	Timeout time.Duration // for the whole exchange; 0: 2 s
	TCP     bool          // ask over TCP at once
	NoEDNS  bool          // leave OPT out
	NSID    bool          // ask which node answers
	Subnet  netip.Prefix  // ask for clients in here (RFC 7871); zero: for nobody but this one
}

// ErrQuestion marks a name or type that nobody can be asked for.
var ErrQuestion = errors.New("cannot ask")

// Reply is what came back.
type Reply struct {
	Server        string        `json:"server"`
	Name          string        `json:"name"` // as asked, with the final dot
	Type          string        `json:"type"`
	Rcode         string        `json:"rcode"` // NOERROR, NXDOMAIN, ...
	Authoritative bool          `json:"authoritative"`
	Addresses     []netip.Addr  `json:"addresses"`
	Records       []string      `json:"records"`   // the answer section, one record a line
	Authority     []string      `json:"authority"` // the authority section
	TTL           time.Duration `json:"-"`         // smallest of the answer section
	Took          time.Duration `json:"-"`
	TCP           bool          `json:"tcp"`
	Stale         bool          `json:"stale"` // the server said so (RFC 8914)
	NSID          string        `json:"nsid,omitempty"`
	Scope         *uint8        `json:"scope,omitempty"` // prefix length the answer holds for; nil: no client subnet came back
}

// Query asks server (HOST:PORT) for the records of a type ("A") at name.
func Query(ctx context.Context, server, name, qtype string, opts Options) (*Reply, error) {
	c, err := Dial(ctx, server)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // nothing was buffered
	return c.Query(ctx, name, qtype, opts)
}
