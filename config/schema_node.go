package config

import (
	"strings"
	"time"
)

// nodeSchema declares every key of node.yaml.
func nodeSchema() *schema {
	return object(
		key("node", "Who this process is.", object(
			key("name", "Unique and stable.", label().req()),
			key("region", "Where it is.", label().req()),
			key("labels", "What observer selectors match.", mapOf(labelKey(), labelValue())),
			key("role", "A voter, or a nonvoter that probes and answers only.", enum("voter", "nonvoter").dflt("voter")),
			key("coordinates", "Latitude and longitude.", coordinates()),
		).req()),
		key("data_dir", "Log, snapshots and keys; 0700.", filePath().dflt("/var/lib/quorate")),
		key("dns", "Where it answers DNS.", object(
			key("listen", "UDP and TCP on each; []: it answers nobody.", listOf(hostPort(true)).dflt("0.0.0.0:53, [::]:53")),
			key("advertise", "What resolvers use.", object(
				key("name", "Its name; ns-NODE.ZONE when not set.", fqdn()),
				key("ipv4", "IPv4 addresses.", listOf(addr4())),
				key("ipv6", "IPv6 addresses.", listOf(addr6())),
			)),
			key("nsid", "What answers carry when asked; the name when not set, \"\": nothing.", str()),
			key("udp_size", "Largest UDP answer in bytes; above 1232 it is 1232.", integer(512, 4096).dflt("1232")),
			key("rate_limit", "Response rate limiting over UDP; none when not set.", object(
				key("responses_per_second", "To one network (/24 or /56) of one kind of answer; ten times as many of all.", integer(1, 1_000_000).req()),
				key("slip", "Every how many-th above it is truncated instead of dropped; 0: none.", integer(0, 100).dflt("2")),
				key("exempt", "Networks it is not for.", listOf(prefix())),
				key("log_only", "Count what would be dropped, and answer it.", boolean().dflt("false")),
			).opt()),
			key("geoip", "Where clients are.", object(
				key("database", "A file in MaxMind's format; none is shipped. Empty: places of clients are not known.", filePath()),
				key("reload", "How often it is looked at; a broken file keeps the old one.", duration(time.Minute, 7*day).dflt("1h")),
			)),
		)),
		key("api", "HTTP API and console.", object(
			key("listen", "Where.", hostPort(true).dflt("127.0.0.1:7653")),
			key("tls", "Its certificate; without one it speaks plain HTTP.", object(
				key("cert", "Certificate file.", filePath().req()),
				key("key", "Key file.", filePath().req()),
				key("client_ca", "CA of client certificates; empty: none asked for.", filePath()),
			).opt()),
			key("external_url", "How people reach it.", webURL()),
			key("metrics", "Metrics.", object(
				key("listen", "A listener of their own without login; empty: /metrics on listen.", scalar("host:port or empty", "HOST:PORT such as 127.0.0.1:9653, or empty", func(s string) (any, bool) {
					_, must := hostPort(true).parse(s)
					return s, s == "" || must == ""
				})),
			)),
		)),
		key("peer", "Node to node, always mutual TLS.", object(
			key("listen", "Where.", hostPort(true).dflt("0.0.0.0:7654")),
			key("advertise", "Where other nodes reach it; may be left out when listen is one address.", hostPort(false)),
			key("tls", "Certificates made beforehand.", object(
				key("ca", "CA file.", filePath().req()),
				key("cert", "Certificate file.", filePath().req()),
				key("key", "Key file.", filePath().req()),
			).opt()),
			key("join", "Nodes to join by.", listOf(hostPort(false))),
			key("join_token_file", "Join token; first start only.", filePath()),
			key("bootstrap", "First start of a new installation.", object(
				key("expect", "Voters it starts with.", integer(1, 9)),
			)),
			key("profile", "Raft timeouts and leases.", enum("wan", "lan").dflt("wan")),
		)),
		key("observer", "How it probes.", object(
			key("enabled", "Whether it does.", boolean().dflt("true")),
			key("max_concurrency", "Probes at once.", integer(1, 10_000).dflt("200")),
			key("source", "Egress address.", object(
				key("ipv4", "IPv4; empty: the system chooses.", optionalAddr(addr4())),
				key("ipv6", "IPv6; empty: the system chooses.", optionalAddr(addr6())),
			)),
			key("resolver", "Resolvers for clusters with a hostname; the system's when empty.", listOf(addrPort())),
			key("canaries", "If none answers, it votes unknown.", listOf(hostPort(false))),
			key("allow", "Private networks that probes may reach.", listOf(prefix())),
		)),
		key("spec_source", "Pull the spec from here.", object(
			key("file", "A file.", filePath().unless("")),
			key("url", "An HTTPS URL.", scalar("URL or empty", "an https URL or empty", func(s string) (any, bool) {
				_, must := webURL().parse(s)
				return s, s == "" || must == ""
			}).unless("")),
			key("every", "How often.", duration(time.Second, day).unless("60s")),
		).nothing().unless()),
		key("secrets", "Where this node finds the values that the spec names; read when they are used.", mapOf(label(), object(
			key("file", "A file that only its owner can read.", filePath()),
			key("env", "An environment variable.", scalar("variable", "the name of an environment variable", func(s string) (any, bool) {
				return s, s != "" && len(s) <= maxString && !strings.ContainsAny(s, "=\x00\n\r ")
			})),
		)).hide()),
		key("log", "Logging.", object(
			key("format", "auto: text on a terminal, else JSON.", enum("auto", "text", "json").dflt("auto")),
			key("level", "Least level.", enum("debug", "info", "warn", "error").dflt("info")),
		)),
		key("limits", "Bounds on the process.", object(
			key("memory", "Soft memory limit; none when not set.", size(32<<20, 1<<40)),
			key("open_streams", "Event streams at once.", integer(1, 100_000).nothing()),
		)),
	)
}

// optionalAddr also takes the empty string, as "none".
func optionalAddr(s *schema) *schema {
	return scalar(s.typ+" or empty", s.must+" or empty", func(text string) (any, bool) {
		if text == "" {
			return nil, true
		}
		v, must := s.parse(text)
		return v, must == ""
	})
}
