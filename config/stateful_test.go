package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// kept returns the stateful service db of a spec with more top-level keys.
func kept(t *testing.T, stateful, more string) *statestore.Service {
	t.Helper()
	r, errs := ParseSpec("spec.yaml", []byte(keptDoc(stateful, more)))
	require.Empty(t, Format(errs))
	require.Empty(t, FormatNotes(r.Unused))
	return r.Spec.Services["db"]
}

func keptDoc(stateful, more string) string {
	return `
version: 1
defaults: { on_all_down: serve_all }
zones: { gslb.example.com: {} }
clusters:
  eu: { region: eu-west, ipv4: [192.0.2.10] }
  us: { region: us-east, ipv4: [198.51.100.10] }
services:
  db:
    policy: { type: failover, order: [eu, us] }
    check: { http: {} }
    stateful: { preferred: us, ` + stateful + ` }
` + more
}

func minutes(all ...int) []statestore.Duration {
	var out []statestore.Duration
	for _, m := range all {
		out = append(out, sec(60*m))
	}
	return out
}

func TestStatefulDefaultsWhenNothingIsSaid(t *testing.T) {
	s := kept(t, "", "")
	require.Equal(t, &statestore.Stateful{
		Preferred: "us", ProposeAfter: sec(60), Cooldown: statestore.Duration(time.Hour), Failback: statestore.Failback{HealthyFor: sec(600)},
		Approval: statestore.ApprovalPolicy{
			Name: "one-person", Required: 1, WaiversRequired: 2, From: []string{"approver"}, ProposerMayApprove: true,
			TTL: sec(1800), Remind: minutes(5, 15),
		},
	}, s.Stateful)
	require.Equal(t, statestore.OnAllDown{Mode: statestore.ServeLast}, s.OnAllDown, "whatever the defaults say")
}

func TestApprovalPolicies(t *testing.T) {
	two := statestore.ApprovalPolicy{
		Name: "two-person", Required: 2, WaiversRequired: 2, From: []string{"approver"}, TTL: sec(1800), Remind: minutes(2, 5, 15),
	}
	own := statestore.ApprovalPolicy{Name: "dba", Required: 3, WaiversRequired: 2, From: []string{"approver"}, TTL: sec(1800), Remind: minutes(5, 15)}
	change := func(p statestore.ApprovalPolicy, f func(*statestore.ApprovalPolicy)) statestore.ApprovalPolicy {
		f(&p)
		return p
	}
	tests := []struct {
		name, approval, more string
		want                 statestore.ApprovalPolicy
	}{
		{"two-person is built in", "two-person", "", two},
		{"what is not written of a built-in policy stays its own", "two-person", "approvals: { two-person: { waivers_required: 3 } }", change(two, func(p *statestore.ApprovalPolicy) { p.WaiversRequired = 3 })},
		{"an empty built-in policy is itself", "two-person", "approvals: { two-person: {} }", two},
		{"a built-in policy may be overridden", "two-person", "approvals: { two-person: { required: 1, proposer_may_approve: true, remind: [] } }", change(two, func(p *statestore.ApprovalPolicy) { p.Required, p.ProposerMayApprove, p.Remind = 1, true, nil })},
		{"inherited reminders end before the proposal does", "two-person", "approvals: { two-person: { ttl: 5m } }", change(two, func(p *statestore.ApprovalPolicy) { p.TTL, p.Remind = sec(300), minutes(2) })},
		{"a policy of one's own excludes the proposer", "dba", "approvals: { dba: { required: 3 } }", own},
		{"break glass is carried", "dba", "approvals: { dba: { required: 3, break_glass: [admin], remind: [1m] } }", change(own, func(p *statestore.ApprovalPolicy) { p.BreakGlass, p.Remind = []string{"admin"}, minutes(1) })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, kept(t, "approval: "+tt.approval, tt.more).Stateful.Approval)
		})
	}
}

// Keys that ask for what happens anyway may be written.
func TestStatefulKeysThatAskForNothing(t *testing.T) {
	kept(t, "activation: approve, on_data_risk: require_waiver, while_moving: servfail, hold: none, gates: [], rpo: { on_unknown: require_waiver }", "")
	for _, key := range []string{
		"activation: { standing: { from: eu } }", "on_data_risk: stop_writes", "while_moving: keep", "hold: ttl", "gates: [cooldown]", "rpo: { limit: 30s }",
		"lag: {}", "fence: {}", "lease: {}", "promote: {}", "verify: {}", "failback: { resync: {} }",
	} {
		r, errs := ParseSpec("s", []byte(keptDoc(key, "")))
		require.Empty(t, Format(errs), key)
		require.Len(t, r.Unused, 1, key)
		require.Equal(t, "has no behaviour in this version", r.Unused[0].Msg, key)
	}
}

func TestStatefulWarnings(t *testing.T) {
	r, errs := ParseSpec("s", []byte(keptDoc("", "access: { roles: { approver: { can: [approve], services: [other] } } }")+"  other: { policy: { type: weighted }, check: { http: {} } }\n"))
	require.NotEmpty(t, errs, "other is no service here")
	require.Nil(t, r)

	doc := strings.Replace(keptDoc("", "access: { roles: { approver: { can: [approve], services: [web] } } }\n"), "services:\n", "services:\n  web: { policy: { type: weighted }, check: { http: {} } }\n", 1)
	r, errs = ParseSpec("s", []byte(doc))
	require.Empty(t, Format(errs))
	require.Contains(t, FormatNotes(r.Warnings), "services.db.stateful.approval: no role of policy one-person (approver) is for service db: only the local socket could sign")

	r, errs = ParseSpec("s", []byte(strings.NewReplacer("preferred: us", "preferred: eu", "order: [eu, us]", "order: [eu]", "    check:", "    clusters: { only: [eu] }\n    check:").Replace(keptDoc("", ""))))
	require.Empty(t, Format(errs))
	require.Contains(t, FormatNotes(r.Warnings), "services.db.stateful: eu is the only candidate: there is no side to move to")
}

func TestNotifyIsCarried(t *testing.T) {
	r, errs := ParseSpec("s", []byte(keptDoc("", `
notify:
  receivers:
    bus: { webhook: { url: "https://events.example.net/in?x=1", format: cloudevents, sign: { secret: bus-hmac } } }
    plain: { webhook: { url: "http://192.0.2.1:8080" } }
    chat: { slack: { webhook: { secret: chat } } }
  routes:
    - { match: { type: ["cutover.*", spec.applied], service: [db] }, to: [bus, chat] }
    - { match: {}, to: [plain] }
    - { to: [chat] }
    - { match: { type: [quorum.lost] }, to: [bus] }
`)))
	require.Empty(t, Format(errs))
	require.Equal(t, statestore.Notify{
		Receivers: map[string]*statestore.Receiver{
			"bus":   {Webhook: &statestore.Webhook{URL: "https://events.example.net/in?x=1", Sign: "bus-hmac"}},
			"plain": {Webhook: &statestore.Webhook{URL: "http://192.0.2.1:8080"}},
		},
		Routes: []statestore.Route{
			{Types: []string{"cutover.*", "spec.applied"}, Services: []string{"db"}, To: []string{"bus"}},
			{Types: []string{"*"}, To: []string{"plain"}},
		},
	}, r.Spec.Notify)
	require.Equal(t, []string{"notify.receivers.chat.slack", "notify.routes[3].match.type[0]"}, paths(r.Unused))
}

// A password in a URL would be read by all who read the spec; no message repeats it.
func TestAPasswordInAURLIsNotRepeated(t *testing.T) {
	_, errs := ParseSpec("s", []byte(keptDoc("", `notify: { receivers: { bus: { webhook: { url: "https://u:hunter2@events.example.net/" } } } }`)))
	require.Contains(t, Format(errs), "must be without a user and password")
	require.NotContains(t, Format(errs), "hunter2")
	_, errs = ParseSpec("s", []byte(strings.Replace(keptDoc("", ""), "ipv4: [192.0.2.10]", `ipv4: [192.0.2.10], capacity_from: { prometheus: { url: "https://u:hunter2@m.example.net/", metric: up } }`, 1)))
	require.Contains(t, Format(errs), "clusters.eu.capacity_from.prometheus.url: must be without a user and password")
	require.NotContains(t, Format(errs), "hunter2")
}

// eventTypes is complete: a route can name whatever Apply makes.
func TestEventTypesAreThoseOfTheStateMachine(t *testing.T) {
	require.True(t, slices.IsSorted(eventTypes))
	files, err := filepath.Glob("../statestore/*.go")
	require.NoError(t, err)
	shape := regexp.MustCompile(`^[a-z_]+\.[a-z_]+$`)
	keys := map[string]bool{} // of the spec, which findings name
	for _, f := range specSchema().fields {
		keys[f.name] = true
	}
	seen := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && shape.MatchString(s) && (slices.Contains(eventTypes, s) || !keys[s[:strings.Index(s, ".")]]) {
					seen[s] = true
					if !slices.Contains(eventTypes, s) {
						t.Errorf("%s has the event type %q, which no route can name", name, s)
					}
				}
			}
			return true
		})
	}
	for _, p := range []statestore.CutoverPhase{statestore.Rejected, statestore.Expired, statestore.Withdrawn} {
		seen["cutover."+string(p)] = true // made from the phase that ends it
	}
	for _, kind := range eventTypes {
		if !seen[kind] {
			t.Errorf("no event has the type %q", kind)
		}
	}
}
