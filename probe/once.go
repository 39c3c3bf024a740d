package probe

import (
	"context"
	"net/netip"
	"time"
)

// Once runs one check of one endpoint outside the schedule, under the check's
// own timeout, and says what each phase of it saw. It changes no vote and no metric.
func (p *Prober) Once(ctx context.Context, check Check, endpoint netip.Addr) Attempt {
	check = check.withDefaults()
	c, err := p.newChecker(check, endpoint)
	if err != nil {
		return Attempt{Result: Result{At: time.Now().Round(0), Reason: ReasonOther, Detail: excerpt(err.Error())}}
	}
	defer c.close()
	return Attempt{Result: measure(ctx, c, check.Timeout).Result}
}
