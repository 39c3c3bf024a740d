package config

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// receiverKinds are the keys of a receiver that say what it is.
var receiverKinds = []string{"pagerduty", "slack", "webhook", "alertmanager"}

// notify fills in receivers and routes. A receiver of a kind without behaviour in
// this version, which the walk has noted, is left out of both.
func (b *specBuilder) notify() {
	each(b.root.child("notify"), "receivers", func(name string, v *value) {
		var kinds []string
		for _, k := range receiverKinds {
			if v.set(k) {
				kinds = append(kinds, k)
			}
		}
		if len(kinds) != 1 {
			is := "without"
			if len(kinds) > 1 {
				is = strings.Join(kinds, " and ")
			}
			b.errorf(v, "must have one of %s, is %s", strings.Join(receiverKinds, ", "), is)
			return
		}
		hook := v.child("webhook")
		if !hook.fine() {
			return
		}
		b.plainURL(hook.child("url"))
		if b.spec.Notify.Receivers == nil {
			b.spec.Notify.Receivers = map[string]*statestore.Receiver{}
		}
		b.spec.Notify.Receivers[name] = &statestore.Receiver{
			Webhook: &statestore.Webhook{URL: get[string](hook, "url"), Sign: get[string](hook.child("sign"), "secret")},
		}
	})
	for _, v := range itemsOf(b.root.child("notify").child("routes")) {
		if v.fine() {
			b.route(v)
		}
	}
}

func (b *specBuilder) route(v *value) {
	match := v.child("match")
	route := statestore.Route{Types: list[string](match, "type"), Services: list[string](match, "service")}
	if len(route.Types) == 0 {
		route.Types = []string{"*"}
	}
	route.Types = slices.DeleteFunc(route.Types, func(t string) bool { return slices.Contains(laterEvents, t) })
	for _, l := range []*value{match.child("type"), match.child("service"), v.child("to")} {
		b.once(l)
	}
	for _, item := range itemsOf(match.child("service")) {
		if s, ok := item.v.(string); ok && item.fine() && !b.known("services", s) {
			b.errorf(item, "must be a service, is %s", b.unknown("services", s))
		}
	}
	receivers := b.root.child("notify").child("receivers")
	for _, item := range itemsOf(v.child("to")) {
		name, ok := item.v.(string)
		switch {
		case !ok || !item.fine():
		case receivers.child(name) == nil:
			hint := "there are no receivers"
			if receivers != nil && len(receivers.keys) > 0 {
				hint = suggest(name, firstNames(receivers.keys))
			}
			b.errorf(item, "must be a receiver, is %s; %s", quote(name), hint)
		case b.spec.Notify.Receivers[name] != nil:
			route.To = append(route.To, name)
		}
	}
	if len(route.To) > 0 && len(route.Types) > 0 {
		b.spec.Notify.Routes = append(b.spec.Notify.Routes, route)
	}
}
