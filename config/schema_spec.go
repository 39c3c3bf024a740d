package config

import "time"

// specSchema declares every key of spec.yaml.
func specSchema() *schema {
	return object(
		key("version", "Version of this schema.", integer(1, 1).req()),
		key("defaults", "What services and checks get that say nothing themselves.", object(
			key("ttl", "How long resolvers may keep an answer.", ttlSchema(true)),
			key("check", "When to probe, and when a vote turns.", object(timing(true)...)),
			key("quorum", "How votes become a verdict.", object(quorum(true)...)),
			key("on_all_down", "What a service answers when no candidate is up.", onAllDown().dflt("serve_last")),
			key("on_stale", "What a node answers once it has not heard a leader for longer.", object(onStale(true)...)),
			key("answer", "How much one answer names.", object(answer(true)...)),
		)),
		key("zones", "The delegated zones.", mapOf(fqdn(), zone()).req().min(1)),
		key("dns", "What all nodes answer alike.", object(
			key("cookies", "DNS cookies (RFC 9018). Without a secret each node draws its own.", object(
				key("secret", "The secret all nodes share: 16 octets, or 32 hexadecimal digits.", secretName()),
				key("next", "The secret to come, during a rollover: its cookies are good already.", secretName()),
				key("previous", "The secret before, during a rollover: its cookies are good still.", secretName()),
			)),
			key("owner_records", "Publish _owner.SERVICE TXT with the ownership token.", boolean().nothing().unless("false")),
		)),
		key("regions", "Where a region is, and which clients count as inside it.", mapOf(label(), object(
			key("coordinates", "Latitude and longitude, north and east positive; without them nobody is near it.", coordinates()),
			key("countries", "Countries whose clients are in it, by ISO 3166-1 alpha-2 code.", listOf(country())),
		))),
		key("clusters", "The places that serve.", mapOf(label(), cluster()).req().min(1)),
		key("checks", "Checks that services name.", mapOf(label(), check(false))),
		key("services", "The routed names.", mapOf(label(), service()).req()),
		key("approvals", "Policies that say whose signatures a cutover needs. one-person and two-person exist without being written, and keep what is not written of them.", mapOf(label(), approval())),
		key("access", "Who may do what. Without roles: viewer, operator, approver, admin.", object(
			key("oidc", "Sign-on of people.", object(
				key("issuer", "URL of the provider.", webURL()),
				key("client_id", "Client id.", str()),
				key("client_secret", "Client secret.", secretRef()),
				key("groups_claim", "Claim that holds the groups.", str()),
			).nothing()),
			key("roles", "Roles by name.", mapOf(label(), object(
				key("groups", "Groups whose members have the role.", listOf(str())),
				key("tokens", "Tokens that have the role.", listOf(str())),
				key("can", "Capabilities.", listOf(enum("read", "drain", "freeze", "override", "propose", "approve", "waive", "apply", "admin", "*")).req().min(1)),
				key("services", "Services it is for; none or \"*\": all.", listOf(scalar("label or *", "the name of a service or *", func(s string) (any, bool) {
					return s, s == "*" || isLabel(s)
				}))),
			))),
			key("signers", "Ed25519 public keys of people whose approvals must be signed.", mapOf(scalar("user", "a user name", func(s string) (any, bool) {
				return s, s != "" && len(s) <= 128
			}), str()).nothing().unless()),
			key("console_anonymous", "What the console shows without login.", enum("none", "read").nothing().unless("none")),
		)),
		key("safety", "Rules judged on the state after a change.", object(
			key("min_serving_clusters", "Clusters a service must keep.", integer(1, 255).dflt("1")),
			key("max_drained", "Clusters drained at once; 0: no bound.", integer(0, 255).dflt("1")),
			key("max_automatic_changes", "What automation may change before it freezes.", object(
				key("causes", "Clusters lost; all services of one are one cause.", integer(1, 1000).dflt("4")),
				key("per", "In this time.", duration(time.Second, day).dflt("10m")),
				key("then", "What happens next.", enum("freeze").dflt("freeze")),
			)),
			key("plan", "How much one plan may change without force.", object(
				key("max_update_ratio", "Part of the objects that change.", decimal(0, 1).dflt("0.3")),
				key("max_delete_ratio", "Part of the objects that go.", decimal(0, 1).dflt("0.3")),
				key("ns_changes", "Whether a change of name servers needs force.", enum("need_force", "allow").dflt("need_force")),
			)),
			key("flap", "How a target that flaps is held out.", object(
				key("half_life", "In which a penalty halves.", duration(time.Second, day)),
				key("suppress", "Penalty from which it is held out.", decimal(0, 1000)),
				key("reuse", "Penalty below which it returns.", decimal(0, 1000)),
			).nothing()),
		)),
		key("notify", "Who is told what.", notify()),
		key("audit", "Where the head of the audit chain is sent.", object(
			key("sink", "A receiver.", label()),
			key("every", "Records between two sends.", integer(1, 1_000_000)),
		).nothing().unless()),
		key("retention", "How much history is kept.", object(
			key("events", "Age of the oldest event.", duration(time.Hour, 3650*day).dflt("90d")),
			key("revisions", "Revisions of the spec.", integer(1, 10_000).dflt("200")),
			key("probe_samples", "Age of the oldest probe sample.", duration(time.Minute, 365*day).nothing()),
		)),
	)
}

// timing holds the keys that say when a check probes. Defaults stand only in
// defaults.check; a check without a key takes them from there.
func timing(withDefaults bool) []field {
	fields := []field{
		key("interval", "Time between two probes.", duration(shortest, time.Hour).dflt("10s")),
		key("timeout", "Time a probe may take; at most the interval.", duration(shortest, time.Hour).dflt("3s")),
		key("fall", "Bad results in a row that turn the vote down.", integer(1, 100).dflt("3")),
		key("rise", "Good results in a row that turn the vote up.", integer(1, 100).dflt("2")),
		key("recheck", "Time between probes after a contrary result; interval/5 when not set, at least 100ms.", duration(shortest, time.Hour)),
	}
	return strip(fields, withDefaults)
}

// strip removes the defaults of fields that inherit.
func strip(fields []field, withDefaults bool) []field {
	if !withDefaults {
		for _, f := range fields {
			f.s.def = ""
		}
	}
	return fields
}

func quorum(withDefaults bool) []field {
	return strip([]field{
		key("observers", "Label selector over nodes; empty: all.", selector()),
		key("down", "Regions that turn a verdict down; a number below a majority is refused.", threshold().dflt("majority")),
		key("up", "Regions that turn a verdict up; a number below a majority is refused.", threshold().dflt("majority")),
		key("group_by", "What has one vote.", enum("region").dflt("region")),
		key("min_votes", "Fewer eligible regions are refused by plan.", integer(1, 255).dflt("2")),
		key("stale_after", "An observer whose last probe is older votes unknown.", staleAfter().dflt("3x")),
	}, withDefaults)
}

// A TTL above a week outlives any failover and most mistakes.
const longestTTL = 7 * day

func ttlSchema(withDefaults bool) *schema {
	return union(object(strip([]field{
		key("normal", "Most of the time.", seconds(time.Second, longestTTL).dflt("30s")),
		key("changing", "While a target of the service is suspect or a cutover is open; at most normal.", seconds(time.Second, longestTTL).dflt("5s")),
	}, withDefaults)...), seconds(time.Second, longestTTL))
}

func onAllDown() *schema {
	modes := enum("serve_last", "serve_all", "nodata", "servfail")
	modes.must += " or {sorry: ADDRESS}"
	plain := modes.parse
	modes.parse = func(text string) (any, string) {
		v, must := plain(text)
		if must != "" {
			must = "be " + modes.must
		}
		return v, must
	}
	return union(modes, object(
		key("sorry", "Addresses to answer instead.", union(addr(), listOf(addr()).min(1)).req()),
	).opt())
}

func onStale(withDefaults bool) []field {
	return strip([]field{
		key("after", "Time without a leader.", duration(time.Second, 30*day).dflt("30s")),
		key("answer", "What is answered then.", enum("keep", "servfail", "refuse").dflt("keep")),
	}, withDefaults)
}

func answer(withDefaults bool) []field {
	return strip([]field{
		key("clusters", "Clusters named in one answer.", integer(1, 64).dflt("1")),
		key("addresses", "At most this many of their endpoints that are up.", integer(1, 64).dflt("8")),
	}, withDefaults)
}

func zone() *schema {
	return object(
		key("soa", "The SOA record; its serial is derived.", object(
			key("mname", "Primary name server; auto: that of the first voter by name.", scalar("auto or a name", "auto or a domain name", func(s string) (any, bool) {
				if s == "auto" {
					return "", true
				}
				v, must := fqdn().parse(s)
				return v, must == ""
			}).dflt("auto")),
			key("rname", "Mailbox as a name; hostmaster.ZONE when not set.", fqdn()),
			key("refresh", "SOA refresh.", seconds(time.Second, longestTTL).dflt("1h")),
			key("retry", "SOA retry.", seconds(time.Second, longestTTL).dflt("15m")),
			key("expire", "SOA expire.", seconds(time.Second, 365*day).dflt("7d")),
			key("negative_ttl", "How long resolvers may keep that a name is not there.", seconds(time.Second, day).dflt("30s")),
		)),
		key("ns", "Name servers; auto: ns-NODE.ZONE, or dns.advertise.name, of each node that answers.", union(enum("auto"), listOf(fqdn()).min(1))),
		key("ns_ttl", "TTL of NS and glue.", seconds(time.Second, longestTTL).dflt("1h")),
		key("records", "Static records: owner, type, and data or {ttl, data}.", mapOf(ownerName(), mapOf(recordType(), recordSet()))),
		key("zone_file", "A master file beside the file that names it; the command line reads it, and sends its records.", filePath()),
		key("updates", "Dynamic updates (RFC 2136).", object(
			key("tsig", "TSIG keys by name.", mapOf(fqdn(), object(
				key("algorithm", "MAC algorithm.", enum("hmac-sha256", "hmac-sha384", "hmac-sha512")),
				key("secret", "Name of the secret.", secretName()),
			))),
			key("allow", "NAME/TYPE patterns that may be updated.", listOf(str())),
		).nothing().unless()),
		key("dnssec", "Online signing.", object(
			key("mode", "Whether answers are signed. From on to off by way of leaving, which asks the parent to remove the DS.", enum("off", "on", "leaving").dflt("off")),
			key("algorithm", "Signing algorithm.", enum("ecdsap256sha256", "ed25519").dflt("ecdsap256sha256")),
			key("denial", "How it is proved that something is not there: compact (RFC 9824), or nsec, a chain through which the zone's names can be listed.", enum("compact", "nsec").dflt("compact")),
			key("signatures_valid", "Validity of signatures.", duration(time.Hour, 60*day).dflt("7d")),
			key("ds_ttl", "TTL of the parent's DS record; steps that the parent has part in wait for it.", seconds(time.Second, longestTTL).dflt("1d")),
			key("ksk", "Key signing key; the parent's DS names it.", signingKey()),
			key("zsk", "Zone signing key.", signingKey()),
		)),
	)
}

func cluster() *schema {
	return object(
		key("id", "Number of the cluster, unique; identity.", integer(1, 255)),
		key("region", "Where it is.", label().req()),
		key("labels", "What selectors match.", mapOf(labelKey(), labelValue())),
		key("ipv4", "IPv4 endpoints.", listOf(addr4())),
		key("ipv6", "IPv6 endpoints.", listOf(addr6())),
		key("cidrs", "Networks whose clients are local to it.", listOf(prefix())),
		key("capacity", "Default weight; all clusters of a service or none.", integer(1, 1_000_000)),
		key("capacity_from", "Where the cluster reports what it can take: http or prometheus.", object(
			key("http", "A JSON document that its endpoints serve; https on port 443, else http.", object(append([]field{
				key("path", "Path and query.", urlPath().dflt("/")),
				key("port", "Port.", port().dflt("443")),
				key("json", "JSONPath of the number, in the unit of capacity.", jsonPath().req()),
			}, freshness()...)...).opt()),
			key("prometheus", "A metric in Prometheus' text exposition; the sum of the series that match counts.", object(append([]field{
				key("url", "Where it is scraped.", webURL().req()),
				key("metric", "Name.", metricName().req()),
				key("of", "Metric that is all of it: the number is then metric/of, times capacity.", metricName()),
				key("labels", "Labels that a series must have.", mapOf(metricLabel(), str())),
			}, freshness()...)...).opt()),
		).opt()),
		key("check", "The front door, which counts for every service.", check(true).opt()),
		key("hostname", "Resolved by the observers, instead of ipv4 and ipv6.", fqdn()),
	)
}

// freshness holds what both kinds of capacity_from say about their reports. An
// observer asks three times within max_age.
func freshness() []field {
	return []field{
		key("max_age", "Age from which capacity counts instead of the report.", duration(3*time.Second, day).dflt("60s")),
		key("change", "Percent of capacity; smaller changes are not replicated.", integer(1, 100).dflt("10")),
	}
}

// secretName is the name of a secret, whose value stands in each node's own file.
func secretName() *schema {
	return scalar("secret name", "the name of a secret", func(s string) (any, bool) { return s, s == "" || isLabel(s) }).unless("")
}

func secretRef() *schema {
	return object(key("secret", "Name in node.yaml's secrets.", secretName())).unless()
}

// signingKey holds the secrets of one role, with those of a roll.
func signingKey() *schema {
	return object(
		key("secret", "Name in node.yaml's secrets: a private key in PEM or of BIND.", secretName()),
		key("next", "The key to come, during a roll: published already.", secretName()),
		key("previous", "The key before, during a roll: published still.", secretName()),
	)
}

func coordinates() *schema {
	s := listOf(decimal(-180, 180))
	s.typ, s.least = "latitude and longitude", 2
	return s
}
