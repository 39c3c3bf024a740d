package probe

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Once runs one check of one endpoint outside the schedule, under the check's
// own timeout, and says what each phase of it saw. It changes no vote and no metric.
func (p *Prober) Once(ctx context.Context, check Check, endpoint netip.Addr) Attempt {
	check = check.withDefaults()
	rec := &recorder{}
	rec.start("resolve")
	rec.ok(endpoint.Unmap().String() + " is the committed address")
	c, err := p.newChecker(check, endpoint)
	if err != nil {
		return Attempt{Result: Result{At: time.Now().Round(0), Reason: ReasonOther, Detail: excerpt(err.Error())}, Phases: rec.phases}
	}
	defer c.close()
	o := measure(ctx, c, &check, rec)
	return Attempt{o.Result, rec.phases}
}

// maxPhaseText bounds Phase.Text, in bytes.
const maxPhaseText = 400

// recorder notes the phases of one run. A nil recorder notes nothing; texts are
// only made for one that is not nil.
type recorder struct {
	phases []Phase
	name   string // of the phase under way; empty: none
	since  time.Time
}

// start begins a phase.
func (r *recorder) start(name string) {
	if r != nil {
		r.name, r.since = name, time.Now()
	}
}

// ok ends the phase under way well.
func (r *recorder) ok(text string) { r.end(true, text) }

// fail ends the phase under way, if any, with what went wrong.
func (r *recorder) fail(err error) {
	if r == nil || r.name == "" {
		return
	}
	text := err.Error()
	var bad *badError
	if errors.As(err, &bad) && bad.want != "" {
		text += "; expected: " + bad.want
	}
	r.end(false, text)
}

func (r *recorder) end(ok bool, text string) {
	r.phases = append(r.phases, Phase{r.name, ok, time.Since(r.since), escaped(text, maxPhaseText)})
	r.name = ""
}
