package routing

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/routing/records"
	"github.com/quorate/quorate/statestore"
)

// Trace remembers how Select came to an answer. It costs nothing until Steps is called.
type Trace struct {
	table   *Table
	query   Query
	asked   string
	node    *node // the last one looked at; nil: no such name
	wild    bool
	service *service
	pool    *pool // nil: no rotation was looked at
	plan    *plan
	answer  Answer
}

// Steps tells the decision, one line a step, in the order it was taken.
func (t Trace) Steps() []Step {
	steps := append([]Step{t.name()}, t.aliases()...)
	steps = append(steps, t.client())
	if t.service != nil {
		steps = append(steps, t.candidates(), t.state())
		steps = append(steps, t.ranking()...)
	}
	return append(steps, t.result())
}

func (t Trace) name() Step {
	s := Step{Step: "name"}
	n, wild, zone := t.table.layout.find(t.asked)
	switch {
	case zone < 0:
		s.Text = t.asked + " -> in none of our zones"
		s.Note = "zones: " + strings.Join(t.zoneNames(), ", ")
		return s
	case n == nil:
		s.Text = fmt.Sprintf("%s -> no such name in zone %s", t.asked, t.table.Zones[zone].Name)
	case n.cut != nil:
		s.Text = fmt.Sprintf("%s -> delegated by zone %s: %s is served elsewhere", t.asked, t.table.Zones[zone].Name, n.name)
	case n.rename != "" && n.name != t.asked:
		s.Text = fmt.Sprintf("%s -> below the DNAME at %s in zone %s", t.asked, n.name, t.table.Zones[zone].Name)
	case n.service != noService:
		service, kind := t.table.services.at(n.service), "stateless"
		if service.side != nil {
			kind = "stateful"
		}
		s.Text = fmt.Sprintf("%s -> service %s (%s, %s)", t.asked, service.name, kind, service.policy)
	case n.srv != noService && t.query.Type == TypeSRV:
		s.Text = fmt.Sprintf("%s -> the SRV record of service %s", t.asked, t.table.services.at(n.srv).name)
	case n.empty():
		s.Text = fmt.Sprintf("%s -> no records, only names below it, in zone %s", t.asked, t.table.Zones[zone].Name)
	default:
		s.Text = fmt.Sprintf("%s -> static records of zone %s", t.asked, t.table.Zones[zone].Name)
	}
	if wild {
		s.Note = "by a wildcard"
	}
	return s
}

func (t Trace) aliases() []Step {
	var steps []Step
	for _, a := range t.answer.Chain {
		steps = append(steps, Step{Step: "alias", Text: fmt.Sprintf("%s -> %s %s", a.Owner, records.TypeName(a.Set.Type), a.Set.Text[0])})
	}
	if t.links() == maxChain {
		steps[len(steps)-1].Note = fmt.Sprintf("not followed further: more than %d aliases", maxChain)
	}
	return steps
}

func (t Trace) zoneNames() []string {
	names := make([]string, len(t.table.Zones))
	for i, z := range t.table.Zones {
		names[i] = z.Name
	}
	return names
}

func (t Trace) candidates() Step {
	spec := t.table.state.Spec
	in := spec.Candidates(t.service.name)
	s := Step{Step: "candidates", Text: orNone(in)}
	sel := spec.Services[t.service.name].Clusters
	var notes []string
	for _, c := range sortedKeys(spec.Clusters) {
		switch {
		case slices.Contains(in, c):
		case slices.Contains(sel.Exclude, c):
			notes = append(notes, c+" excluded: in clusters.exclude")
		case len(sel.Only) > 0:
			notes = append(notes, c+" excluded: not in clusters.only")
		default:
			notes = append(notes, c+" excluded: labels do not match")
		}
	}
	s.Note = strings.Join(notes, "; ")
	return s
}

// state tells the rotation the answer comes from, and why candidates are not in it.
func (t Trace) state() Step {
	s := Step{Step: "state"}
	switch {
	case t.staleDecided():
		s.Text = fmt.Sprintf("no leader heard for %s, more than on_stale.after %s", t.query.Stale, t.service.onStale.After)
		return s
	case t.service.side != nil:
		return t.owned()
	case t.pool == nil:
		s.Text = "a name and a port: clusters answer at the name"
		return s
	}
	var in, shown []string
	for _, p := range t.pool.picks {
		if p.out {
			continue
		}
		in = append(in, p.clusters...)
		shown = append(shown, t.standingPick(p))
	}
	s.Text = fmt.Sprintf("rotation %d: %s", t.service.rotation, orNone(shown))
	var notes []string
	switch {
	case !t.pool.family:
		notes = append(notes, "no candidate has an "+t.familyName()+" address")
	case t.plan.allDown != "" && !t.plan.resident:
		notes = append(notes, "no candidate is up: on_all_down "+string(t.plan.allDown))
	case t.pool.fallback:
		notes = append(notes, "no rotation committed yet: all candidates stand in")
	}
	notes = append(notes, t.pinned(in)...)
	for _, c := range t.table.state.Spec.Candidates(t.service.name) {
		if why := t.standing(c); why != "" {
			if slices.Contains(in, c) {
				why += ", but in rotation"
			}
			notes = append(notes, c+" "+why)
		}
	}
	if t.answer.Stale {
		notes = append(notes, fmt.Sprintf("kept: no leader heard for %s", t.query.Stale))
	}
	s.Note = strings.Join(notes, "; ")
	return s
}

// standing says what is against a candidate, or "".
func (t Trace) standing(cluster string) string {
	st := t.table.state
	if c := st.Clusters[cluster]; c != nil && c.Drain.Covers(t.service.name) {
		return "drained by " + c.Drain.By
	}
	run := st.Services[t.service.name]
	if run == nil {
		return "never judged"
	}
	return t.judged(run, cluster)
}

// judged says how the verdicts on a cluster's endpoints stand, or "" when all are up.
func (t Trace) judged(run *statestore.ServiceState, cluster string) string {
	have, up, down := 0, 0, 0
	for target, ts := range run.Targets {
		if target.Cluster != cluster || !t.ofType(target.Endpoint) {
			continue
		}
		have++
		switch ts.Verdict.Side {
		case health.Up:
			up++
		case health.Down:
			down++
		}
	}
	switch {
	case have == 0:
		return "has no " + t.familyName() + " address"
	case up == have:
		return ""
	case down == have:
		return "down"
	case up == 0:
		return "not judged up"
	}
	return fmt.Sprintf("has %d of %d endpoints up", up, have)
}

// ofType reports whether records of the type asked are made of an address.
func (t Trace) ofType(a netip.Addr) bool {
	return t.query.Type != TypeA && t.query.Type != TypeAAAA || a.Is4() == (t.query.Type == TypeA)
}

// staleDecided reports whether on_stale alone decided.
func (t Trace) staleDecided() bool {
	return t.answer.Stale && t.service.onStale.Answer != statestore.StaleKeep && t.plan == nil && t.answer.Set == nil
}

// familyName is what an address must be, after "an".
func (t Trace) familyName() string {
	switch t.query.Type {
	case TypeAAAA:
		return "IPv6"
	case TypeHTTPS:
		return "IP"
	}
	return "IPv4"
}

func (t Trace) result() Step {
	a, s := t.answer, Step{Step: "answer"}
	typ := records.TypeName(t.query.Type)
	switch {
	case a.Kind == Delegation:
		s.Text = fmt.Sprintf("referral to %s  TTL %d", strings.Join(a.Set.Text, ", "), a.Set.TTL)
	case a.Set != nil:
		s.Text = fmt.Sprintf("%s %s  TTL %d", records.TypeName(a.Set.Type), strings.Join(a.Set.Text, ", "), a.Set.TTL)
		if t.service != nil && t.service.changing && t.pool != nil {
			s.Text += " (changing)"
		}
	case a.Kind == NoError:
		s.Text = fmt.Sprintf("the aliases  TTL %d", int(a.TTL().Seconds()))
	case a.Kind == NoData || a.Kind == NameError:
		s.Text = fmt.Sprintf("%s  TTL %d", a.Kind, int(a.TTL().Seconds()))
	default:
		s.Text = a.Kind.String()
	}
	s.Note = t.why(typ)
	return s
}

// why gives the reason of the answer in a few words.
func (t Trace) why(typ string) string {
	a := t.answer
	switch {
	case t.signed(typ):
		return "signing adds it: quorate zone dnssec status " + strings.TrimSuffix(t.asked, ".")
	case t.service != nil && t.staleDecided():
		return "on_stale: " + string(t.service.onStale.Answer)
	case a.Kind == Delegation:
		return a.Owner + " is delegated"
	case a.Kind == NameTooLong:
		return "the DNAME makes the name longer than 255 octets (RFC 6672 2.2)"
	case t.service == nil && a.Set == hinfo:
		return "ANY gets the least there is (RFC 8482)"
	case t.service == nil && a.Kind == NoData:
		return "the name has no " + typ + " records"
	case t.service == nil:
		return ""
	case t.pool == nil && t.service.side == nil:
		return "the service's first name and its port"
	case t.pool != nil && !t.pool.family:
		return "no candidate has an " + t.familyName() + " address"
	case t.service.side != nil:
		return t.ownedWhy()
	}
	return t.chosenWhy()
}

// signed reports whether the records asked for are added when the answer is signed: a
// table has none of them.
func (t Trace) signed(typ string) bool {
	zone := t.table.State().Spec.Zones[t.asked]
	return zone != nil && zone.DNSSEC != nil && slices.Contains([]string{"DNSKEY", "CDS", "CDNSKEY"}, typ)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// ParseType returns the number of a record type's name, such as "AAAA".
func ParseType(name string) (uint16, bool) { return records.TypeNumber(name) }

// TypeName returns the name of a record type, or "TYPE123".
func TypeName(number uint16) string { return records.TypeName(number) }
