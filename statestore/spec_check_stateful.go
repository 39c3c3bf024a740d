package statestore

import "slices"

// maxApprovers is the most signatures a policy may ask for.
const maxApprovers = 9

// checkSaidStateful checks what a service says of its stateful side.
func checkSaidStateful(f *findings, path string, sp *Spec, name string) {
	s := sp.Services[name]
	if s.Stateful == nil {
		return
	}
	if !slices.Contains(sp.Candidates(name), s.Stateful.Preferred) {
		f.add(path+".stateful.preferred", "must be one of its clusters, is %q", s.Stateful.Preferred)
	}
	if m := s.OnAllDown.Mode; m != "" && m != ServeLast {
		f.add(path+".on_all_down", "must be serve_last for a stateful service, is %q", m)
	}
	if s.Stateful.ProposeAfter < 0 || s.Stateful.Cooldown < 0 || s.Stateful.Failback.HealthyFor < 0 {
		f.add(path+".stateful", "must not have a negative time")
	}
	path += ".stateful.approval"
	p := s.Stateful.Approval
	if p.Required < 1 || p.Required > maxApprovers {
		f.add(path+".required", "must be 1 to %d, is %d", maxApprovers, p.Required)
	}
	if p.WaiversRequired < 1 || p.WaiversRequired > maxApprovers {
		f.add(path+".waivers_required", "must be 1 to %d, is %d", maxApprovers, p.WaiversRequired)
	}
	if len(p.From) == 0 {
		f.add(path+".from", "must name a role")
	}
	roles := sp.Access.Roles
	if len(roles) == 0 {
		roles = BuiltinRoles()
	}
	for _, role := range slices.Concat(p.From, p.BreakGlass) {
		if roles[role] == nil {
			f.add(path, "no role is named %q", role)
		}
	}
	if p.TTL <= 0 {
		f.add(path+".ttl", "must be positive, is %s", p.TTL)
	}
	for i, d := range p.Remind {
		if d <= 0 || d >= p.TTL || i > 0 && d <= p.Remind[i-1] {
			f.add(path+".remind", "must rise and be below the ttl of %s, is %v", p.TTL, p.Remind)
			break
		}
	}
}

// checkNotify checks that every route ends somewhere.
func checkNotify(f *findings, sp *Spec) {
	for _, name := range sortedKeys(sp.Notify.Receivers) {
		r := sp.Notify.Receivers[name]
		if r == nil || r.Webhook == nil || r.Webhook.URL == "" {
			f.add("notify.receivers."+name, "must be a webhook with a url")
		}
	}
	for _, route := range sp.Notify.Routes {
		if len(route.Types) == 0 || len(route.To) == 0 {
			f.add("notify.routes", "must have types and receivers")
		}
		for _, to := range route.To {
			if sp.Notify.Receivers[to] == nil {
				f.add("notify.routes", "no receiver is named %q", to)
			}
		}
	}
}
