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
			key("type", "The policy.", enum("failover", "weighted", "geo", "latency").req()),
			key("order", "For failover: all candidates, best first.", listOf(label()).min(1)),
			key("weights", "For weighted: all candidates, or some and default. Capacity when not set, else equal.", mapOf(label(), integer(0, 65535)).min(1)),
			key("affinity", "Prefer, or avoid, the cluster and the region that the client is in.", enum("none", "local", "remote").dflt("none")),
			key("map", "For geo: the countries and continents a region takes. All others go to the nearest, which default: nearest may say.", mapOf(label(), union(listOf(code()).min(1), nearestPlaces())).min(1)),
			key("spillover", "Where clients go when their cluster is out, or has little capacity left.", object(
				key("to", "How the next is chosen; what happens when order is not set.", enum("nearest")),
				key("order", "Or the next in this order.", listOf(label()).min(1)),
				key("at", "Part of its capacity left below which a share of a cluster's clients goes; 0: only when it is out.", decimal(0, 1)),
			).opt()),
			key("sticky", "Whether a client's network keeps its cluster while that is in rotation; not for failover.", enum("client_subnet", "none").dflt("none")),
		).req()),
		key("ttl", "How long resolvers may keep an answer.", ttlSchema(false)),
		key("on_all_down", "What it answers when no candidate is up.", onAllDown()),
		key("on_stale", "What a node answers once it has not heard a leader for longer.", object(onStale(false)...)),
		key("answer", "How much one answer names.", object(answer(false)...)),
		key("residency", "The only clusters that clients of a country or continent are answered with, whatever happens.", mapOf(code(), listOf(label()).min(1))),
		key("min_healthy", "Endpoints of a family that a cluster must have up to stay in rotation; not more than it has.", integer(1, 64).dflt("1")),
		key("min_hold", "Time a cluster that left stays out.", duration(0, day).nothing().unless("0s")),
		key("recover", "How a cluster that returns gets its weight back.", object(
			key("after", "Wait.", duration(0, day)),
			key("ramp", "Time to the full weight.", duration(0, day)),
			key("mode", "Whether a person starts it.", enum("auto", "manual")),
		).nothing()),
		key("overrides", "Exceptions for single clusters.", mapOf(label(), object(
			key("weight", "Its weight.", integer(0, 65535)),
			key("host", "Host header and SNI of its http, https, tls and grpc checks.", hostPattern()),
			key("ttl", "TTL of answers that name it.", ttlSchema(false)),
		))),
		key("https_record", "Also publish HTTPS records, whose address hints follow the rotation.", object(
			key("alpn", "Protocols.", listOf(alpn())),
		).opt()),
		key("srv", "Also publish _KEY._PROTO SRV records, with the service's first name as target.", object(
			key("port", "Port.", port().req()),
			key("proto", "Protocol.", enum("tcp", "udp").dflt("tcp")),
		).opt()),
		key("stateful", "Moves only after people approve.", stateful().opt()),
	)
}

// nearestPlaces is what may stand for a list of places, under default.
func nearestPlaces() *schema {
	s := scalar("nearest", "a list of codes such as [EU], or nearest under default", func(s string) (any, bool) { return s, s == "nearest" })
	s.values = []string{"nearest"}
	return s
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
