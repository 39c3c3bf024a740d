package config

import (
	"slices"
	"strings"
)

// notify declares who is told what.
func notify() *schema {
	secretKey := func(name, doc string) *schema { return object(key(name, doc, secretRef())).opt() }
	return object(
		key("receivers", "Receivers by name, each of one kind.", mapOf(label(), object(
			key("pagerduty", "PagerDuty.", secretKey("routing_key", "Routing key.").nothing()),
			key("slack", "Slack.", secretKey("webhook", "Webhook.").nothing()),
			key("webhook", "Takes CloudEvents by POST; see notifications.md.", object(
				key("url", "Where.", webURL().req()),
				key("format", "Body.", enumLater([]string{"cloudevents"}, []string{"json"}).dflt("cloudevents")),
				key("sign", "HMAC key.", secretRef()),
			).opt()),
			key("alertmanager", "Alertmanager.", object(key("url", "Where.", webURL())).opt().nothing()),
		))),
		key("routes", "Which events go where. Every route that matches is followed; a receiver is told once.", listOf(object(
			key("match", "Which; all when not set.", object(
				key("type", "Types of events, such as cutover.proposed; cutover.* is a family, * all.", listOf(eventPattern()).min(1)),
				key("service", "Services. None: all, and events without one.", listOf(label())),
			)),
			key("to", "Receivers.", listOf(label()).req().min(1)),
		))),
	)
}

// eventTypes are the types that statestore's events have, sorted.
var eventTypes = []string{
	"ca.retired", "ca.trusted",
	"cluster.capacity", "cluster.drained", "cluster.resolved", "cluster.undrained",
	"cutover.aborted", "cutover.approved", "cutover.begun", "cutover.expired", "cutover.expiring", "cutover.proposed", "cutover.published",
	"cutover.refused", "cutover.rejected", "cutover.revised", "cutover.signed", "cutover.waived", "cutover.withdrawn",
	"feature_level.raised",
	"generation.begun",
	"installation.initialized",
	"join_token.created",
	"latency.measured",
	"member.added", "member.changed", "member.joined", "member.removed",
	"observer.silent", "observers.confirmed",
	"rotation.changed",
	"service.confirmed", "service.frozen", "service.overridden", "service.override_ended", "service.thawed",
	"spec.applied",
	"token.created", "token.revoked",
	"verdict.changed",
	"votes.changed",
}

// laterEvents are patterns that match no event of this version: losing the quorum
// is no entry of the log.
var laterEvents = []string{"quorum.*", "quorum.lost"}

// eventPattern is a type of events, a family of them, or all.
func eventPattern() *schema {
	s := scalar("event type", "a type of events, a family such as cutover.*, or *", func(string) (any, bool) { return nil, true })
	known := slices.Concat([]string{"*"}, families(eventTypes), eventTypes)
	s.values, s.later = slices.Concat(known, laterEvents), laterEvents
	s.parse = func(text string) (any, string) {
		if slices.Contains(s.values, text) {
			return text, ""
		}
		if n := nearest(text, known); n != "" {
			return nil, "be a type of events, such as " + n
		}
		return nil, "be *, a family such as cutover.*, or one of " + strings.Join(eventTypes, ", ")
	}
	return s
}

// families returns the families of types, as patterns.
func families(types []string) []string {
	var out []string
	for _, t := range types {
		family, _, _ := strings.Cut(t, ".")
		if p := family + ".*"; !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
