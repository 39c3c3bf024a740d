package watch

import (
	"net/netip"
	"testing"
	"time"
)

func addrs(ss ...string) []netip.Addr {
	out := make([]netip.Addr, 0, len(ss))
	for _, s := range ss {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestTruthAllowsWhatIsCommittedAndForAGraceWhatWas(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	truth := NewTruth(2 * time.Second)
	truth.Commit(addrs("192.0.2.1", "192.0.2.2"), at(0))
	truth.Commit(addrs("192.0.2.2"), at(10))
	truth.Hold("cut", at(11))
	truth.Commit(addrs("192.0.2.3"), at(20))
	truth.Release("cut", at(30))

	tests := []struct {
		name  string
		node  string
		addrs []netip.Addr
		asked time.Time
		want  bool
	}{
		{"a part of the current set", "a", addrs("192.0.2.3"), at(25), true},
		{"an address never committed", "a", addrs("203.0.113.9"), at(25), false},
		{"a committed address beside one never committed", "a", addrs("192.0.2.3", "203.0.113.9"), at(25), false},
		{"the set before, within the grace", "a", addrs("192.0.2.2"), at(21), true},
		{"the set before, after the grace", "a", addrs("192.0.2.2"), at(23), false},
		{"a cut-off node keeps what was right when it was cut", "cut", addrs("192.0.2.2"), at(29), true},
		{"a cut-off node may still be within the grace of the set before", "cut", addrs("192.0.2.1"), at(29), true},
		{"a healed node has the grace to catch up", "cut", addrs("192.0.2.2"), at(31), true},
		{"and no longer", "cut", addrs("192.0.2.2"), at(33), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := truth.Allows(tt.node, tt.addrs, tt.asked); got != tt.want {
				t.Errorf("Allows(%s, %v, +%s) = %v, want %v", tt.node, tt.addrs, tt.asked.Sub(start), got, tt.want)
			}
		})
	}
}
