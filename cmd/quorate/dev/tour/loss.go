package tour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

// refusals are how many acts the story has had refused when it comes to the record:
// blocked, other evidence, signed twice, self-approval.
const refusals = 4

// record counts the refusals in the log.
func (p *player) record(ctx context.Context, c *client.Client) (string, error) {
	res, err := c.Events(ctx, client.EventQuery{Types: "cutover.refused"})
	if err != nil {
		return "", err
	}
	if len(res.Items) != refusals {
		return "", fmt.Errorf("%d refusals on record, not %d", len(res.Items), refusals)
	}
	return fmt.Sprintf("%d refusals, with who and why: quorate events --type cutover.refused", refusals), nil
}

func (p *player) cut(ctx context.Context) error {
	web, orders := p.cfg.Watch.Stateless, p.cfg.Watch.Stateful
	carol, err := p.as("carol", "")
	if err != nil {
		return err
	}
	const reason = "maintenance of eu"
	var co apitype.Cutover
	p.tell.command("--as carol cutover propose", orders, "--to", "us", "--planned", "--reason", strconv.Quote(reason))
	if err := p.step("carol proposes a planned move, which nobody has signed", func() (string, error) {
		res, err := carol.Propose(ctx, apitype.CutoverRequest{Service: orders, To: "us", Kind: "planned", Reason: reason}, "")
		if err != nil {
			return "", err
		}
		co, err = res.First()
		return co.ID, err
	}); err != nil {
		return err
	}
	if err := p.order(ctx, "cut", "us-1"); err != nil {
		return err
	}
	if err := p.step("us-1 says that it hears nobody", func() (string, error) {
		return "", until(ctx, soon, func(ctx context.Context) error {
			c, err := p.as("bob", "us-1")
			if err != nil {
				return err
			}
			res, err := c.Services(ctx, web)
			if err == nil && !res.Meta.Stale {
				err = errors.New("it says that what it knows is current")
			}
			return err
		})
	}); err != nil {
		return err
	}
	if err := p.step("and answers both names, as agreed last", func() (string, error) {
		_, err := p.ask(ctx, "us-1", web)
		return "", errors.Join(err, p.answers(ctx, orders, "eu", 0, p.nodes...))
	}); err != nil {
		return err
	}
	_, err = p.signed(ctx, "bob", "us-1", co.ID, apitype.ApproveRequest{Evidence: co.Evidence, Reason: reason})
	if err := p.step("no signature is taken there", func() (string, error) { return refused(err, apitype.ProblemNoQuorum) }); err != nil {
		return err
	}
	p.tell.command("--as carol reject", co.ID, "--reason", `"not today"`)
	if err := p.step("the other two decide on: carol rejects it at ap-1", func() (string, error) {
		res, err := carol.Reject(ctx, co.ID, apitype.DecideRequest{Reason: "not today"}, "")
		if err != nil {
			return "", err
		}
		co, err = res.First()
		if err == nil && (co.Phase != "rejected" || co.Approvals.Have != 0) {
			err = fmt.Errorf("%s is %s with %d signatures", co.ID, co.Phase, co.Approvals.Have)
		}
		return co.ID + " " + co.Phase, err
	}); err != nil {
		return err
	}
	if err := p.order(ctx, "heal"); err != nil {
		return err
	}
	return p.step("us-1 is back and knows what the others decided", func() (string, error) {
		return "", until(ctx, soon, func(ctx context.Context) error {
			c, err := p.as("bob", "us-1")
			if err != nil {
				return err
			}
			res, err := c.Cutover(ctx, co.ID)
			if err != nil {
				return err
			}
			seen, err := res.First()
			if err == nil && (res.Meta.Stale || seen.Phase != "rejected") {
				err = fmt.Errorf("it has %s %s, stale %t", co.ID, seen.Phase, res.Meta.Stale)
			}
			return err
		})
	})
}

// pastFlush is above the time for which what a node keeps on its disk may trail.
const pastFlush = 500 * time.Millisecond

func (p *player) alone(ctx context.Context) error {
	first := "eu-1"
	rest := slices.DeleteFunc(slices.Clone(p.nodes), func(n string) bool { return n == first })
	if err := pause(ctx, pastFlush); err != nil {
		return err
	}
	for _, node := range p.nodes {
		p.watch.Away(node)
	}
	if err := p.order(ctx, "kill", "all"); err != nil {
		return err
	}
	if err := p.order(ctx, "start", first); err != nil {
		return err
	}
	if err := p.step(first+" alone answers the last agreed table", func() (string, error) {
		return "orders-db with eu", until(ctx, soon, func(ctx context.Context) error {
			_, err := p.ask(ctx, first, p.cfg.Watch.Stateless)
			return errors.Join(err, p.answers(ctx, p.cfg.Watch.Stateful, "eu", 0, first))
		})
	}); err != nil {
		return err
	}
	p.watch.Back(first)
	if err := p.step("it says that there is no quorum, and no database takes writes", func() (string, error) {
		return "", until(ctx, soon, func(ctx context.Context) error {
			c, err := p.as("alice", first)
			if err != nil {
				return err
			}
			res, err := c.Status(ctx)
			if err != nil {
				return err
			}
			st, err := res.First()
			switch {
			case err != nil:
				return err
			case st.Quorum.Available:
				return errors.New("it claims a quorum")
			case len(p.watch.Writers().Now) > 0:
				return fmt.Errorf("%v takes writes although nobody can know the active side", p.watch.Writers().Now)
			}
			return nil
		})
	}); err != nil {
		return err
	}
	if err := p.order(ctx, "start", rest...); err != nil {
		return err
	}
	return p.step("with the others everything goes on as it was", func() (string, error) {
		for _, node := range rest {
			p.watch.Back(node)
		}
		return "", until(ctx, 2*soon, func(ctx context.Context) error {
			return errors.Join(p.owned(ctx, "eu", 3), p.answers(ctx, p.cfg.Watch.Stateful, "eu", 0, p.nodes...), p.writer("eu"))
		})
	})
}
