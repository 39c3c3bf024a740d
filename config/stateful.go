package config

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

// The approval policies that exist without being written.
const (
	onePerson = "one-person"
	twoPerson = "two-person"
)

// builtinApproval returns a built-in policy, or false. Its break-glass roles would
// be roles nobody has; the local socket signs in an emergency all the same.
func builtinApproval(name string) (statestore.ApprovalPolicy, bool) {
	p := statestore.ApprovalPolicy{
		Name: name, WaiversRequired: 2, From: []string{"approver"}, TTL: statestore.Duration(30 * time.Minute),
	}
	minutes := func(all ...int) []statestore.Duration {
		var out []statestore.Duration
		for _, m := range all {
			out = append(out, statestore.Duration(m)*statestore.Duration(time.Minute))
		}
		return out
	}
	switch name {
	case onePerson:
		p.Required, p.ProposerMayApprove, p.Remind = 1, true, minutes(5, 15)
	case twoPerson:
		p.Required, p.Remind = 2, minutes(2, 5, 15)
	default:
		return p, false
	}
	return p, true
}

// approvalPolicy is a policy that services may name.
type approvalPolicy struct {
	statestore.ApprovalPolicy
	bad bool // reported, or its roles were
}

func (b *specBuilder) approvals() {
	b.policies = map[string]*approvalPolicy{}
	for _, name := range []string{onePerson, twoPerson} {
		p, _ := builtinApproval(name)
		b.policies[name] = &approvalPolicy{ApprovalPolicy: p}
	}
	each(b.root, "approvals", func(name string, v *value) {
		p, builtin := builtinApproval(name)
		if !builtin && !v.set("required") {
			b.c.errorf(v.at, join(v.path, "required"), "must be set, is missing; only %s and %s have one of their own", onePerson, twoPerson)
			v.bad = true
		}
		if v.set("required") {
			p.Required = get[int](v, "required")
		}
		// What a built-in policy does not say stays its own, not the default.
		said := func(key string) bool { return !builtin || v.set(key) }
		if said("waivers_required") {
			p.WaiversRequired = get[int](v, "waivers_required")
		}
		if said("from") {
			p.From = list[string](v, "from")
		}
		if said("proposer_may_approve") {
			p.ProposerMayApprove = get[bool](v, "proposer_may_approve")
		}
		if said("ttl") {
			p.TTL = get[statestore.Duration](v, "ttl")
		}
		if said("remind") {
			p.Remind = list[statestore.Duration](v, "remind")
		}
		p.BreakGlass = list[string](v, "break_glass")
		b.reminders(v, &p)
		bad := v.bad || !v.fineLists("from", "break_glass")
		for _, key := range []string{"from", "break_glass"} {
			b.once(v.child(key))
			if v.set(key) {
				bad = !b.signers(v.child(key)) || bad
			}
		}
		b.policies[name] = &approvalPolicy{p, bad}
	})
}

// reminders checks when people are reminded, and cuts what was not written to the
// life of the proposal.
func (b *specBuilder) reminders(v *value, p *statestore.ApprovalPolicy) {
	if !v.set("remind") {
		p.Remind = slices.DeleteFunc(p.Remind, func(d statestore.Duration) bool { return d >= p.TTL })
		return
	}
	var last statestore.Duration
	for _, item := range itemsOf(v.child("remind")) {
		d, ok := item.v.(statestore.Duration)
		switch {
		case !ok || !item.fine():
		case d >= p.TTL && p.TTL > 0:
			b.errorf(item, "must be below ttl %s, is %s", short(p.TTL.D()), item.text)
		case d <= last:
			b.errorf(item, "must be above the one before, %s, is %s", short(last.D()), item.text)
		default:
			last = d
		}
	}
}

// signers checks that the roles of a list exist and may approve.
func (b *specBuilder) signers(v *value) bool {
	roles, good := b.roles(), true
	for _, item := range itemsOf(v) {
		name, ok := item.v.(string)
		if !ok || !item.fine() {
			continue
		}
		role := roles[name]
		written := b.root.child("access").child("roles").child(name)
		switch {
		case written != nil && (role == nil || !written.fineLists("can")):
			good = false // was reported
		case role == nil:
			b.errorf(item, "must be a role, is %s; %s", quote(name), suggest(name, firstNames(keysOf(roles))))
			good = false
		case !approves(role):
			b.errorf(item, "must be a role that can approve, is %s, which can %s", quote(name), capabilities(role))
			good = false
		}
	}
	return good
}

// roles returns the roles of the spec, or the built-in ones when it names none.
func (b *specBuilder) roles() map[string]*statestore.Role {
	if m := b.root.child("access").child("roles"); m != nil && len(m.keys) > 0 {
		return b.spec.Access.Roles
	}
	return statestore.BuiltinRoles()
}

func keysOf[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func approves(r *statestore.Role) bool {
	return slices.Contains(r.Can, statestore.CanApprove) || slices.Contains(r.Can, statestore.CanAll)
}

func covers(r *statestore.Role, service string) bool {
	return len(r.Services) == 0 || slices.Contains(r.Services, "*") || slices.Contains(r.Services, service)
}

func capabilities(r *statestore.Role) string {
	var out []string
	for _, c := range r.Can {
		out = append(out, string(c))
	}
	return strings.Join(out, ", ")
}

// stateful fills in what makes a service move only after people approve, and
// checks what goes with it.
func (b *specBuilder) stateful(name string, s *statestore.Service, v *value, candidates []string) {
	st := v.child("stateful")
	if !st.fine() {
		return
	}
	s.Stateful = &statestore.Stateful{
		Preferred:    get[string](st, "preferred"),
		ProposeAfter: get[statestore.Duration](st, "propose_after"),
		Cooldown:     get[statestore.Duration](st, "cooldown"),
		Failback:     statestore.Failback{HealthyFor: get[statestore.Duration](st.child("failback"), "healthy_for")},
	}
	if p := st.child("preferred"); p.fine() && len(candidates) > 0 {
		b.candidate(p, candidates)
	}
	if len(candidates) == 1 {
		b.c.warnf(st.at, st.path, "%s is the only candidate: there is no side to move to", candidates[0])
	}
	if kind := v.child("policy").child("type"); kind.fine() && get[string](v.child("policy"), "type") != string(statestore.Failover) {
		b.errorf(kind, "must be failover with stateful, where one side is active and order says which is next, is %s", quote(kind.text))
	}
	b.oneSide(s, v)
	// Nothing but the active side is ever answered, so what defaults say of a
	// service without a candidate that is up is not for this one.
	s.OnAllDown = statestore.OnAllDown{Mode: statestore.ServeLast}
	if own := v.child("on_all_down"); v.set("on_all_down") && own.fine() && own.text != string(statestore.ServeLast) {
		is := own.text
		if is == "" {
			is = "sorry"
		}
		b.errorf(own, "must be serve_last with stateful, which answers with its active side whatever happens, is %s", is)
	}
	b.approval(name, s, st)
}

// oneSide refuses what chooses among clusters: the active side is all there is.
func (b *specBuilder) oneSide(s *statestore.Service, v *value) {
	p := v.child("policy")
	refuse := func(holder *value, key string) {
		if c := holder.child(key); holder.set(key) && c.fine() {
			b.c.errorf(holder.keyAt[key], join(holder.path, key), "must not stand with stateful, which answers everybody with its active side, is set")
		}
	}
	if s.Policy.Affinity != statestore.NoAffinity {
		refuse(p, "affinity")
	}
	refuse(p, "spillover")
	refuse(v, "residency")
	if s.MinHealthy > 1 {
		refuse(v, "min_healthy")
	}
	if a := v.child("answer"); a.set("clusters") && get[int](a, "clusters") > 1 {
		refuse(a, "clusters")
	}
}

// approval inlines the policy that the service names.
func (b *specBuilder) approval(name string, s *statestore.Service, st *value) {
	at := st.child("approval")
	if !at.fine() {
		return
	}
	policy := get[string](st, "approval")
	p := b.policies[policy]
	switch {
	case p == nil && b.root.child("approvals").child(policy) != nil:
		return // was reported
	case p == nil:
		b.errorf(at, "must be a policy of approvals, is %s; %s", quote(policy), suggest(policy, firstNames(keysOf(b.policies))))
		return
	}
	s.Stateful.Approval = p.ApprovalPolicy
	s.Stateful.Approval.From = slices.Clone(p.From)
	s.Stateful.Approval.Remind = slices.Clone(p.Remind)
	s.Stateful.Approval.BreakGlass = slices.Clone(p.BreakGlass)
	if p.bad {
		return
	}
	roles := b.roles()
	can := func(role string) bool {
		r := roles[role]
		return r != nil && approves(r)
	}
	// Roles that are written at the policy were checked there; the approver of a
	// policy that says nothing is missed here, where the policy is used.
	for _, role := range p.From {
		if !can(role) {
			b.errorf(at, "must be a policy whose roles can approve, is %s, which takes signatures from %s; access.roles has %s",
				quote(policy), role, strings.Join(firstNames(keysOf(roles)), ", "))
			return
		}
	}
	if !slices.ContainsFunc(p.From, func(role string) bool { return covers(roles[role], name) }) {
		b.c.warnf(at.at, at.path, "no role of policy %s (%s) is for service %s: only the local socket could sign", policy, strings.Join(p.From, ", "), name)
	}
}

// openEnded warns when a cluster that is added later would become a side of a
// stateful service.
func (b *specBuilder) openEnded(v *value) {
	sel := v.child("clusters")
	if !v.set("stateful") || sel.set("only") {
		return
	}
	if match := sel.child("match"); sel.set("match") && match.fine() {
		b.c.warnf(match.at, match.path, "open-ended: a new cluster with these labels becomes a candidate of a stateful service; name the clusters in only")
	} else if !sel.set("match") {
		at := v
		if v.set("clusters") {
			at = sel
		}
		b.c.warnf(at.at, join(v.path, "clusters"), "open-ended: every new cluster becomes a candidate of a stateful service; name the clusters in only")
	}
}
