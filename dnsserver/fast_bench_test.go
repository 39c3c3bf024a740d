package dnsserver

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// manyState is n services of a policy over eight clusters, or n static names.
func manyState(n int, policy statestore.PolicyType) *statestore.State {
	st := testState()
	var shares []statestore.Share
	for i := range 8 {
		addr := []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}
		st.Spec.Clusters[fmt.Sprint("c", i)] = &statestore.Cluster{IPv4: addr}
		shares = append(shares, statestore.Share{Cluster: fmt.Sprint("c", i), Weight: i + 1, Endpoints: addr})
	}
	for i := range n {
		name := fmt.Sprintf("s%05d", i)
		if policy == "" {
			st.Spec.Zones[zone].Records[name] = map[string][]string{"A": {"192.0.2.1"}}
			continue
		}
		s := *st.Spec.Services["web"]
		s.Names, s.Policy.Type = []string{name}, policy
		st.Spec.Services[name] = &s
		st.Services[name] = &statestore.ServiceState{Rotation: statestore.Rotation{Number: 1, V4: statestore.Pool{Shares: shares}}}
	}
	return st
}

// BenchmarkFast answers batches of queries for a thousand names, without sockets.
func BenchmarkFast(b *testing.B) {
	for _, policy := range []statestore.PolicyType{"", statestore.Weighted} {
		b.Run("policy="+string(policy), func(b *testing.B) {
			table, err := routing.Compile(manyState(1000, policy))
			require.NoError(b, err)
			p := newPaths(table)
			p.w.query.Draw = rand.Uint64
			var queries [1000][]byte
			for i := range queries {
				queries[i], err = withEDNS(newQuery(fmt.Sprintf("s%05d.%s", i, zone), dns.TypeA), 1232).Pack()
				require.NoError(b, err)
			}
			batch := make([]packet, udpBatch)
			for i := range batch {
				batch[i] = packet{buf: make([]byte, maxQuery+192), client: someClient}
			}
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				for i := range batch {
					q := queries[(at*7919)%len(queries)]
					batch[i].n, batch[i].reply = copy(batch[i].buf, q), nil
					at++
				}
				p.answerBatch(p.w, batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(at), "ns/query")
		})
	}
}

// BenchmarkPublishOneOfTenThousand prepares one changed service among 10,000.
func BenchmarkPublishOneOfTenThousand(b *testing.B) {
	st := manyState(10000, statestore.Weighted)
	table, err := routing.Compile(st)
	require.NoError(b, err)
	p := newPaths(table)
	var tables []*routing.Table
	for i := range 2 {
		next := *st
		next.TableIndex += uint64(i) + 1
		next.Services = map[string]*statestore.ServiceState{}
		for name, run := range st.Services {
			next.Services[name] = run
		}
		run := *st.Services["s00007"]
		run.Rotation.Number = uint64(i) + 2
		next.Services["s00007"] = &run
		changed, err := routing.Update(table, &next, routing.Local{})
		require.NoError(b, err)
		tables = append(tables, changed)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Publish(tables[i&1])
		i++
	}
}

// BenchmarkPrepareTenThousand prepares 10,000 services anew.
func BenchmarkPrepareTenThousand(b *testing.B) {
	table, err := routing.Compile(manyState(10000, statestore.Weighted))
	require.NoError(b, err)
	p := newPaths(table)
	b.ReportAllocs()
	for b.Loop() {
		p.prepare()
	}
}
