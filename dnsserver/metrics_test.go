package dnsserver

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func counted(t testing.TB, c prometheus.Collector) float64 {
	t.Helper()
	return testutil.ToFloat64(c)
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := testConfig(testTable(t))
	cfg.Registerer = reg
	cfg.Age = func() time.Duration { return 3 * time.Second }
	s := New(cfg)
	ask(t, s, newQuery("web.gslb.test.", dns.TypeA), UDP)
	ask(t, s, newQuery("nope.gslb.test.", 65280), TCP)
	ask(t, s, newQuery("secret.example.com.", dns.TypeA), UDP)
	ask(t, s, newQuery("big.gslb.test.", dns.TypeA), UDP)
	want := `
# HELP quorate_dns_answers_total Answers that named a cluster.
# TYPE quorate_dns_answers_total counter
quorate_dns_answers_total{cluster="eu",service="big"} 0
quorate_dns_answers_total{cluster="eu",service="db"} 0
quorate_dns_answers_total{cluster="eu",service="web"} 1
quorate_dns_answers_total{cluster="many",service="big"} 1
quorate_dns_answers_total{cluster="many",service="db"} 0
quorate_dns_answers_total{cluster="many",service="web"} 0
quorate_dns_answers_total{cluster="us",service="big"} 0
quorate_dns_answers_total{cluster="us",service="db"} 0
quorate_dns_answers_total{cluster="us",service="web"} 0
# HELP quorate_dns_ecs_queries_total Queries that named their client's subnet.
# TYPE quorate_dns_ecs_queries_total counter
quorate_dns_ecs_queries_total{zone="gslb.test."} 0
# HELP quorate_dns_queries_total Queries that were read.
# TYPE quorate_dns_queries_total counter
quorate_dns_queries_total{family="4",proto="tcp",qtype="other",zone="gslb.test."} 1
quorate_dns_queries_total{family="4",proto="udp",qtype="A",zone="gslb.test."} 2
quorate_dns_queries_total{family="4",proto="udp",qtype="A",zone="none"} 1
# HELP quorate_dns_rate_limited_total Queries over their client's rate, by what was done with them.
# TYPE quorate_dns_rate_limited_total counter
quorate_dns_rate_limited_total{action="drop",zone="gslb.test."} 0
quorate_dns_rate_limited_total{action="log",zone="gslb.test."} 0
quorate_dns_rate_limited_total{action="slip",zone="gslb.test."} 0
# HELP quorate_dns_responses_total Answers given, by response code.
# TYPE quorate_dns_responses_total counter
quorate_dns_responses_total{rcode="NOERROR",zone="gslb.test."} 2
quorate_dns_responses_total{rcode="NXDOMAIN",zone="gslb.test."} 1
quorate_dns_responses_total{rcode="REFUSED",zone="none"} 1
quorate_dns_responses_total{rcode="SERVFAIL",zone="gslb.test."} 0
# HELP quorate_dns_table_age_seconds Time since this node last heard a leader that holds its lease.
# TYPE quorate_dns_table_age_seconds gauge
quorate_dns_table_age_seconds 3
# HELP quorate_dns_truncated_total Answers that were too long for UDP.
# TYPE quorate_dns_truncated_total counter
quorate_dns_truncated_total{zone="gslb.test."} 1
# HELP quorate_dns_zone_records Records in the zone as one client can see them.
# TYPE quorate_dns_zone_records gauge
quorate_dns_zone_records{zone="gslb.test."} 76
# HELP quorate_dns_zone_serial SOA serial of the zone.
# TYPE quorate_dns_zone_serial gauge
quorate_dns_zone_serial{zone="gslb.test."} 6.7108873e+07
`
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want),
		"quorate_dns_answers_total", "quorate_dns_ecs_queries_total", "quorate_dns_queries_total", "quorate_dns_rate_limited_total", "quorate_dns_responses_total", "quorate_dns_table_age_seconds",
		"quorate_dns_truncated_total", "quorate_dns_zone_records", "quorate_dns_zone_serial"))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}
