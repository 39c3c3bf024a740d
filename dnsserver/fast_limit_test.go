package dnsserver

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// TestBothPathsLimitTheSame: the answers that a network gets of each kind, those that
// slip and those that are dropped are the same, one after the other.
func TestBothPathsLimitTheSame(t *testing.T) {
	for _, rule := range []RateLimit{{PerSecond: 3, Slip: 2}, {PerSecond: 3}, {PerSecond: 3, Slip: 1, LogOnly: true}} {
		for _, tt := range []struct {
			name  string
			ask   func(i int) string
			qtype uint16
		}{
			{"an answer", func(int) string { return "web." + zone }, dns.TypeA},
			{"no data", func(int) string { return "web." + zone }, dns.TypeTXT},
			{"names that do not exist", func(i int) string { return fmt.Sprintf("nope%d.%s", i, zone) }, dns.TypeA},
			{"names in no zone", func(i int) string { return fmt.Sprintf("nope%d.example.com.", i) }, dns.TypeA},
			{"aliases to names that another zone does not have", func(i int) string {
				return []string{"7.1.2.3.", "tonone." + zone, fmt.Sprintf("nope%d.%s", i, zone), "nope.in." + zone}[i%4]
			}, dns.TypeA},
			{"nobody is answered", func(int) string { return "moves." + zone }, dns.TypeA},
		} {
			t.Run(fmt.Sprint(tt.name, rule), func(t *testing.T) {
				fast, general := newPathsWith(richTable(t), Config{RateLimit: rule}), newPathsWith(richTable(t), Config{RateLimit: rule})
				limited := 0
				for i := range 12 {
					query, err := withEDNS(newQuery(tt.ask(i), tt.qtype), 1232).Pack()
					require.NoError(t, err)
					buf := make([]byte, maxQuery)
					fast.w.begin(fast.current(), 0)
					size, ok := fast.fast(fast.w, buf, copy(buf, query), someClient.Addr(), 0)
					require.True(t, ok)
					want := general.Respond(general.table, query, someClient, UDP)
					require.Equal(t, want == nil, size == 0, "query %d", i)
					if want == nil {
						limited++
						continue
					}
					require.Equal(t, expanded(t, want), expanded(t, buf[:size]), "query %d", i)
					if want[2]&2 != 0 {
						limited++
					}
				}
				require.Equal(t, !rule.LogOnly, limited > 0)
				fast.w.end()
				require.Equal(t, totals(&general.metrics.counters), totals(&fast.metrics.counters))
			})
		}
	}
}

// totals is everything that was counted more often than never.
func totals(c *counters) map[string]uint64 {
	known, values := c.sums()
	out := map[string]uint64{}
	for i, k := range known {
		if values[i] > 0 {
			out[fmt.Sprint(k)] = values[i]
		}
	}
	return out
}
