package config

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// service declares a service of spec.yaml.
func service() *schema {
	return object(
		key("zone", "Its zone; may be left out when there is one.", fqdn()),
		key("names", "Its names in the zone; its key when not set.", listOf(serviceName()).min(1)),
		key("owner", "Who to ask.", str()),
		key("clusters", "Its candidates; all clusters when not set.", object(
			key("match", "Label selector over clusters.", selector()),
			key("only", "These clusters.", listOf(label()).min(1)),
			key("exclude", "But not these.", listOf(label())),
		)),
		key("checks", "How endpoints are probed.", object(
			key("all", "Checks that must all be good.", listOf(label())),
			key("any", "Checks of which one must be good.", listOf(label())),
		)),
		key("check", "A single check, inline.", check(true)),
		key("quorum", "How votes become a verdict.", object(quorum(false)...)),
		key("policy", "How a cluster in rotation is chosen.", object(
			key("type", "The policy.", enumLater([]string{"failover", "weighted"}, []string{"geo", "latency"}).req()),
			key("order", "For failover: all candidates, best first.", listOf(label()).min(1)),
			key("weights", "For weighted: all candidates, or some and default. Capacity when not set, else equal.", mapOf(label(), integer(0, 65535)).min(1)),
			key("affinity", "Prefer or avoid the client's own cluster.", enum("none", "local", "remote").nothing().unless("none")),
			key("map", "For geo: which clients a region takes.", mapOf(label(), union(enum("nearest"), listOf(code()))).nothing()),
			key("spillover", "Where clients go when their cluster is out or full.", object(
				key("to", "How the next is chosen.", enum("nearest")),
				key("order", "Or the next in this order.", listOf(label())),
				key("at", "Part of the capacity left below which it starts.", decimal(0, 1)),
			).nothing()),
			key("sticky", "What keeps its cluster while that is in rotation.", enum("client_subnet", "none").nothing().unless("none")),
		).req()),
		key("ttl", "How long resolvers may keep an answer.", ttlSchema(false)),
		key("on_all_down", "What it answers when no candidate is up.", onAllDown()),
		key("on_stale", "What a node answers once it has not heard a leader for longer.", object(onStale(false)...)),
		key("answer", "How much one answer names.", object(answer(false)...)),
		key("residency", "Clusters that clients of a place may be answered with.", mapOf(code(), listOf(label())).nothing().unless()),
		key("min_healthy", "Endpoints a cluster must have up.", integer(1, 64).nothing().unless("1")),
		key("min_hold", "Time a cluster that left stays out.", duration(0, day).nothing().unless("0s")),
		key("recover", "How a cluster that returns gets its weight back.", object(
			key("after", "Wait.", duration(0, day)),
			key("ramp", "Time to the full weight.", duration(0, day)),
			key("mode", "Whether a person starts it.", enum("auto", "manual")),
		).nothing()),
		key("overrides", "Exceptions for single clusters.", mapOf(label(), object(
			key("weight", "Its weight.", integer(0, 65535)),
			key("host", "Its Host header and SNI.", hostPattern()),
			key("ttl", "Its TTL.", ttlSchema(false)),
		)).nothing().unless()),
		key("https_record", "Also publish HTTPS records.", object(
			key("alpn", "Protocols.", listOf(str())),
		).nothing()),
		key("srv", "Also publish SRV records.", object(
			key("port", "Port.", port()),
			key("proto", "Protocol.", enum("tcp", "udp")),
		).nothing()),
		key("stateful", "Moves only after people approve.", stateful().nothing()),
	)
}

func stateful() *schema {
	return object(
		key("preferred", "The side it belongs on.", label().req()),
		key("activation", "What a cutover needs.", union(enum("approve"), object(
			key("standing", "Signatures given in advance.", object(
				key("from", "Side it leaves.", label()),
				key("to", "Side it goes to.", label()),
				key("expires", "When they lapse.", str()),
			)),
		))),
		key("propose_after", "Time down before automation proposes.", duration(time.Second, day)),
		key("approval", "Which approvals policy.", label()),
		key("rpo", "Loss that is acceptable.", object(
			key("limit", "Most lag, as time or size.", scalar("duration or size", "a duration such as 30s or a size such as 16MiB", func(s string) (any, bool) {
				if d, ok := parseDuration(s); ok {
					return d, true
				}
				v, must := size(0, 1<<40).parse(s)
				return v, must == ""
			})),
			key("on_unknown", "When the lag is not known.", enum("require_waiver")),
		)),
		key("on_data_risk", "When data may be lost.", enum("require_waiver", "accept_within_limit", "stop_writes")),
		key("lag", "How lag is read.", object(
			key("prometheus", "From a metric.", object(
				key("url", "Where.", hookURL()),
				key("metric", "Name.", str()),
				key("labels", "Labels.", mapOf(labelKey(), str())),
				key("max_age", "Age from which it is unknown.", duration(time.Second, day)),
			)),
			key("http", "From JSON.", object(
				key("url", "Where.", hookURL()),
				key("json", "JSONPath.", str()),
				key("unit", "Unit.", enum("seconds", "bytes")),
				key("max_age", "Age from which it is unknown.", duration(time.Second, day)),
			)),
		)),
		key("gates", "Conditions of a cutover.", listOf(enum("source_down_by_quorum", "destination_healthy", "lag_within_rpo", "source_fenced",
			"writer_lease", "nodes_acknowledged", "resync_confirmed", "no_other_cutover", "not_frozen", "cooldown"))),
		key("fence", "How the source is fenced.", hook()),
		key("lease", "The source's writer lease.", object(
			key("ttl", "Length.", duration(time.Second, time.Hour)),
			key("renew", "Time between renewals.", duration(time.Second, time.Hour)),
			key("demote_within", "Time a demotion takes.", duration(time.Second, time.Hour)),
			key("enforced_by", "What ends a writer without a lease.", enum("watchdog", "database", "none")),
		)),
		key("while_moving", "What is answered from fencing on.", enum("servfail", "nodata", "sorry", "keep")),
		key("promote", "How the destination is promoted.", hook()),
		key("verify", "What is checked after the switch.", object(
			key("check", "A check.", label()),
			key("within", "Time it has.", duration(time.Second, day)),
			key("on_failure", "What happens then.", enum("alert", "pause")),
		)),
		key("hold", "Wait for old answers.", scalar("ttl, none or duration", "ttl, none or a duration", func(s string) (any, bool) {
			_, ok := parseDuration(s)
			return s, ok || s == "ttl" || s == "none"
		})),
		key("cooldown", "No second emergency proposal sooner.", duration(0, 7*day)),
		key("failback", "What a failback needs.", object(
			key("healthy_for", "Time healthy.", duration(0, 7*day)),
			key("resync", "How it is known to follow.", object(
				key("http", "From JSON.", object(
					key("url", "Where.", hookURL()),
					key("json", "JSONPath.", str()),
					key("max_age", "Age from which it is unknown.", duration(time.Second, day)),
				)),
			)),
		)),
	)
}

func hook() *schema {
	return object(
		key("http", "A request.", object(
			key("url", "Where.", hookURL()),
			key("method", "Method.", enum("POST", "PUT")),
			key("auth", "Bearer token.", secretRef()),
			key("sign", "HMAC key.", secretRef()),
			key("timeout", "Time it has.", duration(shortest, time.Hour)),
		)),
		key("run_from", "Who calls it.", enum("leader", "region", "guard")),
	)
}

func notify() *schema {
	secretKey := func(name, doc string) *schema { return object(key(name, doc, secretRef())) }
	return object(
		key("receivers", "Receivers by name.", mapOf(label(), object(
			key("pagerduty", "PagerDuty.", secretKey("routing_key", "Routing key.")),
			key("slack", "Slack.", secretKey("webhook", "Webhook.")),
			key("webhook", "Any webhook.", object(
				key("url", "Where.", webURL()),
				key("format", "Body.", enum("cloudevents", "json")),
				key("sign", "HMAC key.", secretRef()),
			)),
			key("alertmanager", "Alertmanager.", object(key("url", "Where.", webURL()))),
		))),
		key("routes", "Which events go where.", listOf(object(
			key("match", "Which.", object(
				key("type", "Types of events.", listOf(str())),
				key("service", "Services.", listOf(label())),
			)),
			key("to", "Receivers.", listOf(label())),
		))),
	)
}

// labelKey and labelValue have Kubernetes' grammar, which selectors assume.
func labelKey() *schema {
	return scalar("label name", "a label name", func(s string) (any, bool) {
		return s, len(validation.IsQualifiedName(s)) == 0
	})
}

func labelValue() *schema {
	s := scalar("label value", "a label value: letters, digits, - _ . in a string", func(s string) (any, bool) {
		return s, len(validation.IsValidLabelValue(s)) == 0 && !strings.ContainsRune(s, '\n')
	})
	s.typ = "string"
	return s
}
