package config

import "time"

// stateful declares what makes a service move only after people approve.
func stateful() *schema {
	return object(
		key("preferred", "The side a new service starts on, and a failback goes to.", label().req()),
		key("activation", "What a cutover needs.", union(enum("approve").unless("approve"), object(
			key("standing", "Signatures given in advance.", object(
				key("from", "Side it leaves.", label()),
				key("to", "Side it goes to.", label()),
				key("expires", "When they lapse.", str()),
			)),
		)).nothing()),
		key("propose_after", "Time down before automation proposes; a person may at once.", duration(time.Second, day).dflt("60s")),
		key("approval", "Which policy of approvals; one-person and two-person are built in.", label().dflt(onePerson)),
		key("rpo", "Loss that is acceptable.", object(
			key("limit", "Most lag, as time or size.", scalar("duration or size", "a duration such as 30s or a size such as 16MiB", func(s string) (any, bool) {
				if d, ok := parseDuration(s); ok {
					return d, true
				}
				v, must := size(0, 1<<40).parse(s)
				return v, must == ""
			})),
			key("on_unknown", "When the lag is not known.", enum("require_waiver").unless("require_waiver")),
		).nothing().unless()),
		key("on_data_risk", "When data may be lost.", enum("require_waiver", "accept_within_limit", "stop_writes").nothing().unless("require_waiver")),
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
		).nothing()),
		key("gates", "Conditions of a cutover.", listOf(enum("source_down_by_quorum", "destination_healthy", "lag_within_rpo", "source_fenced",
			"writer_lease", "nodes_acknowledged", "resync_confirmed", "no_other_cutover", "not_frozen", "cooldown")).nothing().unless()),
		key("fence", "How the source is fenced.", hook().nothing()),
		key("lease", "The source's writer lease.", object(
			key("ttl", "Length.", duration(time.Second, time.Hour)),
			key("renew", "Time between renewals.", duration(time.Second, time.Hour)),
			key("demote_within", "Time a demotion takes.", duration(time.Second, time.Hour)),
			key("enforced_by", "What ends a writer without a lease.", enum("watchdog", "database", "none")),
		).nothing()),
		key("while_moving", "What is answered from fencing on.", enum("servfail", "nodata", "sorry", "keep").nothing().unless("servfail")),
		key("promote", "How the destination is promoted.", hook().nothing()),
		key("verify", "What is checked after the switch.", object(
			key("check", "A check.", label()),
			key("within", "Time it has.", duration(time.Second, day)),
			key("on_failure", "What happens then.", enum("alert", "pause")),
		).nothing()),
		key("hold", "Wait for old answers.", scalar("ttl, none or duration", "ttl, none or a duration", func(s string) (any, bool) {
			_, ok := parseDuration(s)
			return s, ok || s == "ttl" || s == "none"
		}).nothing().unless("none", "0s")),
		key("cooldown", "After a cutover no emergency by automation and no failback sooner, unless a person asks.", duration(0, 7*day).dflt("1h")),
		key("failback", "What a failback needs beside what every cutover needs.", object(
			key("healthy_for", "Time the destination has been up.", duration(0, 7*day).dflt("10m")),
			key("resync", "How it is known to follow.", object(
				key("http", "From JSON.", object(
					key("url", "Where.", hookURL()),
					key("json", "JSONPath.", str()),
					key("max_age", "Age from which it is unknown.", duration(time.Second, day)),
				)),
			).nothing()),
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

// approval declares a named approval policy. The defaults are those of a policy
// with a name of its own; the built-in ones keep theirs.
func approval() *schema {
	return object(
		key("required", "Distinct people who must sign; may be left out of the built-in ones.", integer(1, 9)),
		key("waivers_required", "Distinct people who must waive a gate that is not clean.", integer(1, 9).dflt("2")),
		key("from", "Roles that may sign.", listOf(label()).min(1).dflt("approver")),
		key("proposer_may_approve", "Whether the proposer's signature counts.", boolean().dflt("false")),
		key("ttl", "How long a proposal stays open.", duration(time.Minute, 7*day).dflt("30m")),
		key("remind", "When approvers are reminded, after the proposal; rising, below ttl.", listOf(duration(time.Second, 7*day)).dflt("5m, 15m")),
		key("break_glass", "Roles that may sign in an emergency; each use is told to everybody.", listOf(label())),
	)
}
