package tour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
)

// The demo's times, as its spec has them.
const (
	ttlNormal    = 5 * time.Second
	ttlChanging  = time.Second
	proposeAfter = 3 * time.Second
	healthyFor   = 5 * time.Second
)

// quiet is how long nothing must happen where automation would act after
// proposeAfter.
const quiet = proposeAfter + time.Second

// chapter is a part of the story.
type chapter struct {
	title, caption string
	play           func(p *player, ctx context.Context) error
}

var chapters = []chapter{
	{
		"Before anything breaks",
		"Every node answers DNS from what all have agreed on. web is stateless: any cluster that is up may be answered. " +
			"orders-db is stateful: one side is active, eu, and only people move it. Its databases take writes only with a current ownership token.",
		(*player).before,
	},
	{
		"One observer goes blind",
		"ap-1 loses sight of eu. Where one checker alone would fail over, the other two outvote it.",
		(*player).blind,
	},
	{
		"A cluster dies",
		"eu loses all its listeners. web leaves it by itself. orders-db does not: a proposal appears, with its evidence, and waits for people. Meanwhile its TTL is short.",
		(*player).dies,
	},
	{
		"People decide",
		"A cutover needs two people, who sign exactly what they have seen. What is not clean must be waived by name: this demo has no fence and measures no lag. Everything else is refused.",
		(*player).decide,
	},
	{
		"The old side returns",
		"eu is back and healthy. It serves web again. For orders-db it stays out: it lacks what us has written since, and its database refuses writes under the old token.",
		(*player).returns,
	},
	{
		"The way back",
		"A failback is a cutover too. Whoever proposes it may not sign it.",
		(*player).back,
	},
	{
		"A node is cut off",
		"us-1 loses its peers, not its clients. It goes on answering, says that what it knows is old, and decides nothing.",
		(*player).cut,
	},
	{
		"Everything dies, one node returns",
		"All nodes are killed and one is started alone, without anybody to agree with.",
		(*player).alone,
	},
}

func (p *player) before(ctx context.Context) error {
	web, orders := p.cfg.Watch.Stateless, p.cfg.Watch.Stateful
	if err := p.step("web is answered by every node, and each cluster has its part", func() (string, error) {
		var shares []string
		for _, cluster := range []string{"ap", "eu", "us"} {
			part := 0.0
			if err := until(ctx, soon, func(ctx context.Context) (err error) {
				if part, err = p.share(ctx, "eu-1", cluster); err == nil && part == 0 {
					err = fmt.Errorf("%s has no part of the answers", cluster)
				}
				return err
			}); err != nil {
				return "", err
			}
			shares = append(shares, fmt.Sprintf("%s %.0f%%", cluster, part))
		}
		for _, node := range p.nodes {
			if _, err := p.ask(ctx, node, web); err != nil {
				return "", err
			}
		}
		return strings.Join(shares, ", "), nil
	}); err != nil {
		return err
	}
	if err := p.step("orders-db is answered with eu by every node", func() (string, error) {
		return "epoch 1, TTL " + ttlNormal.String(), errors.Join(
			p.owned(ctx, "eu", 1),
			until(ctx, soon, func(ctx context.Context) error { return p.answers(ctx, orders, "eu", ttlNormal, p.nodes...) }),
		)
	}); err != nil {
		return err
	}
	return p.step("eu's database takes writes, and no other", func() (string, error) {
		err := until(ctx, soon, func(context.Context) error { return p.writer("eu") })
		return "us refuses: " + p.watch.Writers().Refusals["us"], err
	})
}

func (p *player) blind(ctx context.Context) error {
	if err := p.order(ctx, "blind", "ap-1", "eu"); err != nil {
		return err
	}
	if err := p.step("it votes down, is outvoted, and is named", func() (string, error) {
		text := ""
		return text, until(ctx, soon, func(ctx context.Context) (err error) {
			text, err = p.banner(ctx, "lone-observer", "ap-1")
			return err
		})
	}); err != nil {
		return err
	}
	if err := p.step(fmt.Sprintf("nothing moves and nothing is proposed, for %s", quiet), func() (string, error) {
		return "", during(ctx, quiet, func(ctx context.Context) error {
			part, err := p.share(ctx, "us-1", "eu")
			if err == nil && part == 0 {
				err = errors.New("web has left eu")
			}
			return errors.Join(err, p.answers(ctx, p.cfg.Watch.Stateful, "eu", 0, p.nodes...), p.noneOpen(ctx))
		})
	}); err != nil {
		return err
	}
	if err := p.order(ctx, "heal"); err != nil {
		return err
	}
	return p.step("it sees again, and nobody is named any more", func() (string, error) {
		return "", until(ctx, soon, func(ctx context.Context) error {
			if _, err := p.banner(ctx, "lone-observer", "ap-1"); err == nil {
				return errors.New("ap-1 is still named")
			}
			return nil
		})
	})
}

// banner returns the text of the notice with a code that names what it is about.
func (p *player) banner(ctx context.Context, code, about string) (string, error) {
	c, err := p.as("alice", "")
	if err != nil {
		return "", err
	}
	res, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	st, err := res.First()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(st.Banners, func(b apitype.Banner) bool { return b.Code == code && strings.Contains(b.Subject+" "+b.Text, about) })
	if i < 0 {
		return "", fmt.Errorf("no notice %s names %s", code, about)
	}
	return st.Banners[i].Text, nil
}

func (p *player) dies(ctx context.Context) error {
	orders := p.cfg.Watch.Stateful
	if err := p.order(ctx, "toggle", "eu", "down"); err != nil {
		return err
	}
	began := time.Now()
	if err := p.step("web leaves eu on every node", func() (string, error) {
		err := until(ctx, soon, func(ctx context.Context) error {
			for _, node := range p.nodes {
				if part, err := p.share(ctx, node, "eu"); err != nil || part > 0 {
					return errors.Join(err, fmt.Errorf("%s still answers web with eu", node))
				}
			}
			return nil
		})
		return fmt.Sprintf("after %.1f s", time.Since(began).Seconds()), err
	}); err != nil {
		return err
	}
	var co apitype.Cutover
	if err := p.step("CUT-1 is proposed by quorate, eu -> us, once eu has been down for "+proposeAfter.String(), func() (string, error) {
		err := until(ctx, soon, func(ctx context.Context) (err error) {
			co, err = p.cutover(ctx, "CUT-1")
			return err
		})
		if err == nil && (co.Service != orders || co.Kind != "emergency" || co.Source != "eu" || co.Destination != "us" || co.Approvals.Have != 0) {
			err = fmt.Errorf("it is %s of %s, %s -> %s, with %d signatures", co.Kind, co.Service, co.Source, co.Destination, co.Approvals.Have)
		}
		return fmt.Sprintf("after %.1f s", time.Since(began).Seconds()), err
	}); err != nil {
		return err
	}
	if err := p.step("it says what it rests on", func() (string, error) {
		var gates []string
		for _, g := range co.Gates {
			gates = append(gates, g.Name+" "+strings.ReplaceAll(g.Class, "_", " "))
		}
		if co.Evidence == "" || len(gates) == 0 || len(co.Votes) == 0 {
			return "", errors.New("no evidence, gates or votes")
		}
		return fmt.Sprintf("evidence %s; %s", co.Evidence, strings.Join(gates, ", ")), nil
	}); err != nil {
		return err
	}
	if err := p.step("orders-db is still answered with eu, and its TTL is short", func() (string, error) {
		return "TTL " + ttlChanging.String(), until(ctx, soon, func(ctx context.Context) error {
			return p.answers(ctx, orders, "eu", ttlChanging, p.nodes...)
		})
	}); err != nil {
		return err
	}
	return p.step("nothing moves while nobody signs", func() (string, error) {
		return "", during(ctx, 2*time.Second, func(ctx context.Context) error {
			return p.answers(ctx, orders, "eu", 0, p.nodes...)
		})
	})
}

func (p *player) decide(ctx context.Context) error {
	const reason = "the site is gone"
	co, err := p.cutover(ctx, "CUT-1")
	if err != nil {
		return err
	}
	refusal := func(text, problem, user string, r apitype.ApproveRequest) error {
		_, err := p.signed(ctx, user, "", co.ID, r)
		return p.step(text, func() (string, error) { return refused(err, problem) })
	}
	if err := refusal("refused, with every gate that is in the way", apitype.ProblemBlocked, "alice",
		apitype.ApproveRequest{Evidence: co.Evidence, Reason: reason}); err != nil {
		return err
	}
	if err := refusal("refused: she signs something else than what is so", apitype.ProblemEvidence, "alice",
		apitype.ApproveRequest{Evidence: "0000-0000-0000-0000", Reason: reason}); err != nil {
		return err
	}
	signed, err := p.sign(ctx, "alice", co, reason)
	if err := p.step("alice signs, and waives what nobody has measured", func() (string, error) {
		if err == nil && (signed.Approvals.Have != 1 || signed.Phase != "proposed") {
			err = fmt.Errorf("%d signatures, %s", signed.Approvals.Have, signed.Phase)
		}
		return fmt.Sprintf("%d of %d signatures", signed.Approvals.Have, signed.Approvals.Required), err
	}); err != nil {
		return err
	}
	if err := refusal("refused: one person is one signature", apitype.ProblemSigned, "alice",
		apitype.ApproveRequest{Evidence: co.Evidence, Reason: reason}); err != nil {
		return err
	}
	if err := p.moved(ctx, "bob", signed, reason, "us", 2); err != nil {
		return err
	}
	return p.step("us's database takes writes, and no other", func() (string, error) {
		return "eu " + p.watch.Writers().Refusals["eu"], until(ctx, soon, func(context.Context) error { return p.writer("us") })
	})
}

// moved has user give the last signature and asserts that the name moves.
func (p *player) moved(ctx context.Context, user string, co apitype.Cutover, reason, to string, epoch uint64) error {
	took, err := p.moves(ctx, to, func(ctx context.Context) error {
		_, err := p.sign(ctx, user, co, reason)
		return err
	})
	if err := p.step(fmt.Sprintf("%s signs, and every node answers %s", user, to), func() (string, error) {
		return fmt.Sprintf("%d ms after the last signature was sent", took.Milliseconds()), err
	}); err != nil {
		return err
	}
	return p.step(fmt.Sprintf("%s is active under epoch %d on every node, which is never used again", to, epoch), func() (string, error) {
		err := until(ctx, soon, func(ctx context.Context) error { return p.owned(ctx, to, epoch) })
		if err != nil {
			return "", err
		}
		if co, err = p.cutover(ctx, co.ID); err == nil && co.Phase != "done" {
			err = fmt.Errorf("%s is %s, not done", co.ID, co.Phase)
		}
		var people []string
		for _, s := range co.Approvals.Signatures {
			people = append(people, s.User)
		}
		return fmt.Sprintf("%s done, signed by %s", co.ID, strings.Join(people, " and ")), err
	})
}

func (p *player) returns(ctx context.Context) error {
	if err := p.order(ctx, "toggle", "eu", "up"); err != nil {
		return err
	}
	if err := p.step("web is answered with eu again", func() (string, error) {
		return "", until(ctx, soon, func(ctx context.Context) error {
			if part, err := p.share(ctx, "ap-1", "eu"); err != nil || part == 0 {
				return errors.Join(err, errors.New("eu has no part of the answers"))
			}
			return nil
		})
	}); err != nil {
		return err
	}
	if err := p.step(fmt.Sprintf("orders-db stays with us, for %s, and nothing is proposed", quiet), func() (string, error) {
		return "", during(ctx, quiet, func(ctx context.Context) error {
			return errors.Join(p.answers(ctx, p.cfg.Watch.Stateful, "us", 0, p.nodes...), p.noneOpen(ctx), p.owned(ctx, "us", 2))
		})
	}); err != nil {
		return err
	}
	return p.step("eu's database refuses writes", func() (string, error) {
		return p.watch.Writers().Refusals["eu"], p.writer("us")
	})
}

func (p *player) back(ctx context.Context) error {
	const reason = "back to the preferred side"
	alice, err := p.as("alice", "")
	if err != nil {
		return err
	}
	var co apitype.Cutover
	p.tell.command("--as alice failback", p.cfg.Watch.Stateful, "--reason", strconv.Quote(reason))
	if err := p.step("alice proposes it", func() (string, error) {
		res, err := alice.Propose(ctx, apitype.CutoverRequest{Service: p.cfg.Watch.Stateful, Kind: "failback", Reason: reason}, "")
		if err != nil {
			return "", err
		}
		co, err = res.First()
		return fmt.Sprintf("%s, %s -> %s", co.ID, co.Source, co.Destination), err
	}); err != nil {
		return err
	}
	if err := p.step(fmt.Sprintf("its gates open once eu has been up for %s and the cooldown is over", healthyFor), func() (string, error) {
		return "", until(ctx, 2*soon, func(ctx context.Context) (err error) {
			if co, err = p.cutover(ctx, co.ID); err != nil {
				return err
			}
			for _, g := range co.Gates {
				if !g.Passed && g.Class != "not_configured" {
					return fmt.Errorf("%s: %s", g.Name, g.Why)
				}
			}
			return settled(co)
		})
	}); err != nil {
		return err
	}
	_, err = p.sign(ctx, "alice", co, reason)
	if err := p.step("refused: who proposes does not sign", func() (string, error) { return refused(err, apitype.ProblemSelfApproval) }); err != nil {
		return err
	}
	signed, err := p.sign(ctx, "bob", co, reason)
	if err := p.step("bob signs", func() (string, error) {
		return fmt.Sprintf("%d of %d signatures", signed.Approvals.Have, signed.Approvals.Required), err
	}); err != nil {
		return err
	}
	if err := p.moved(ctx, "carol", signed, reason, "eu", 3); err != nil {
		return err
	}
	if err := p.step("eu's database takes writes, and no other", func() (string, error) {
		return "", until(ctx, soon, func(context.Context) error { return p.writer("eu") })
	}); err != nil {
		return err
	}
	return p.step("everything that was refused is on record", func() (string, error) {
		return p.record(ctx, alice)
	})
}
