package config

import (
	"strings"

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
		key("stateful", "Moves only after people approve.", stateful().opt()),
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
