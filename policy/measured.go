package policy

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
)

// Measurement is what one observer measured and told the leader lately. It is no
// vote: what follows from it is committed only where it changes something.
type Measurement struct {
	Observer health.ObserverID
	RTT      map[netip.Addr]time.Duration // smoothed, by endpoint
	Resolved map[string]Resolved          // by cluster
	Capacity map[string]float64           // fresh reports, by cluster; see statestore.CapacityFrom
}

// Resolved is what an observer's resolver says of a cluster's hostname.
type Resolved struct {
	Hostname string
	Addrs    []netip.Addr // sorted, never empty
}
