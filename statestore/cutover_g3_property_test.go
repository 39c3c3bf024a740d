package statestore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
)

// naive is what an approval is about, told over again in the plainest way: it
// reads the log and the verdicts, and knows nothing of cutovers as the state keeps
// them.
type naive struct {
	cuts     map[string]*naiveCut
	open     string
	approval ApprovalPolicy
	moves    int // of the active side
}

type naiveCut struct {
	facts    string // what the evidence was drawn from
	digest   string
	gates    []GateResult
	proposer string // token; empty: automation
	expires  time.Time
	signed   []ApproveCutover
	phase    string // "pending", "begun", "over"
	told     bool   // that it is approved
}

// naiveFacts is everything that evidence is about, as text.
func naiveFacts(st *State) string {
	var silent []string
	for name, m := range st.Members {
		if o := st.Observers[health.ObserverID(name)]; m.Observes && (o == nil || o.Silent) {
			silent = append(silent, name)
		}
	}
	slices.Sort(silent)
	eu, _ := st.Target(db("eu"))
	us, _ := st.Target(db("us"))
	return fmt.Sprint(eu.Verdict.Side, us.Verdict.Side, silent, st.Spec.Services["db"].Stateful.Approval.Required)
}

// naivePeople says who may hold each token.
var naivePeople = map[string][]string{
	"t-ann": {"ann"}, "t-bob": {"bob"}, "t-cyd": {"cyd"}, "t-gil": {"gil"}, "t-hal": {"hal"},
	"t-ann2": {"ann"}, "t-self": {"zed", "ann"}, "t-bobs": {"kim", "bob"}, "t-annb": {"ann", "bob"}, "t-lou": {"lou", "kim", "bob"},
}

// samePerson reports whether one person may hold both tokens.
func samePerson(a, b string) bool {
	return slices.ContainsFunc(naivePeople[a], func(n string) bool { return slices.Contains(naivePeople[b], n) })
}

// mayNow reports whether the signer's token is good and its own, and what kind of
// signature it makes.
func (n *naive) mayNow(st *State, s Signer) (glass, ok bool) {
	tok := st.Tokens[s.Token]
	if tok == nil || tok.User != s.User || s.Via != ViaToken {
		return false, false
	}
	glass = slices.Contains(tok.Groups, "glass")
	return glass, glass || slices.Contains(tok.Groups, "approver")
}

// counted returns the tokens of the people whose signatures count, and how often
// each gate is waived.
func (n *naive) counted(st *State, c *naiveCut) (people []string, gates map[Gate]int) {
	gates = map[Gate]int{}
	for _, s := range c.signed {
		glass, ok := n.mayNow(st, s.Signer)
		if !ok {
			continue
		}
		if slices.ContainsFunc(people, func(p string) bool { return samePerson(p, s.Signer.Token) }) {
			continue
		}
		people = append(people, s.Signer.Token)
		for _, w := range s.Waivers {
			if w.Gate != GateSourceDown || glass {
				gates[w.Gate]++
			}
		}
	}
	return people, gates
}

// lacking returns the gates that those waivers leave.
func (c *naiveCut) lacking(waived map[Gate]int) (lacking []Gate) {
	for _, g := range c.gates {
		need := 2
		switch g.Class {
		case Clean:
			need = 0
		case NotConfigured:
			need = 1
		}
		if waived[g.Gate] < need {
			lacking = append(lacking, g.Gate)
		}
	}
	return lacking
}

func (n *naive) enough(st *State, c *naiveCut) bool {
	people, gates := n.counted(st, c)
	return len(people) >= n.approval.Required && len(c.lacking(gates)) == 0
}

// approved reports whether it was told to be approved and still is.
func (n *naive) approved(st *State, c *naiveCut) bool { return c.told && n.enough(st, c) }

// accepts says whether the signature is good, as the next entry.
func (n *naive) accepts(st *State, a ApproveCutover) bool {
	c := n.cuts[a.ID]
	if c == nil || c.phase != "pending" || n.approved(st, c) || !st.Now.Add(time.Second).Before(c.expires) {
		return false
	}
	glass, ok := n.mayNow(st, a.Signer)
	people, waived := n.counted(st, c)
	again := slices.ContainsFunc(people, func(p string) bool { return samePerson(p, a.Signer.Token) })
	if !ok || samePerson(a.Signer.Token, c.proposer) || again && !n.enough(st, c) {
		return false
	}
	if a.Evidence != c.digest || c.facts != naiveFacts(st) || a.Reason == "" {
		return false
	}
	for _, w := range a.Waivers {
		i := slices.IndexFunc(c.gates, func(g GateResult) bool { return g.Gate == w.Gate })
		if i < 0 || c.gates[i].Class == Clean || w.Gate == GateSourceDown && !glass {
			return false
		}
	}
	for _, g := range c.lacking(waived) {
		if !slices.ContainsFunc(a.Waivers, func(w Waiver) bool { return w.Gate == g }) {
			return false
		}
	}
	return true
}

// late reports whether it waives nothing but what can hold up a cutover that has
// begun.
func (n *naive) late(a ApproveCutover) bool {
	c := n.cuts[a.ID]
	return c != nil && c.phase == "begun" && a.Evidence == c.digest &&
		!slices.ContainsFunc(a.Waivers, func(w Waiver) bool { return w.Gate != GateDestination })
}

// sign records an accepted signature; one that no longer counted makes room.
func (n *naive) sign(st *State, a ApproveCutover) {
	c := n.cuts[a.ID]
	c.signed = slices.DeleteFunc(c.signed, func(s ApproveCutover) bool {
		return samePerson(s.Signer.Token, a.Signer.Token)
	})
	c.signed = append(c.signed, a)
	c.told = c.told || n.enough(st, c)
}

// anyApproval draws an approval: one of now, or one of before that is played
// again, with something wrong about it or not.
func anyApproval(t *rapid.T, r *rig, before []ApproveCutover) ApproveCutover {
	id := rapid.SampledFrom([]string{"t-ann", "t-bob", "t-cyd", "t-gil", "t-hal", "t-ann2", "t-self", "t-bobs", "t-annb", "t-lou", "t-dan", "t-eve"}).Draw(t, "token")
	user := "nobody"
	if tok := r.st().Tokens[id]; tok != nil {
		user = tok.User
	}
	a := ApproveCutover{ID: "CUT-1", Reason: "I looked", Signer: Signer{User: user, Token: id, Via: ViaToken}}
	if ids := r.st().CutoverIDs(); len(ids) > 0 {
		co := r.last()
		if rapid.IntRange(0, 9).Draw(t, "which") == 0 {
			co = r.st().Cutovers[rapid.SampledFrom(ids).Draw(t, "id")]
		}
		a.ID, a.Evidence, a.Waivers = co.ID, co.Digest, needed(co.Evidence)
		if id != "t-gil" && id != "t-hal" {
			a.Waivers = slices.DeleteFunc(a.Waivers, func(w Waiver) bool { return w.Gate == GateSourceDown })
		}
	}
	if len(before) > 0 && rapid.IntRange(0, 2).Draw(t, "again") == 0 {
		signer := a.Signer
		a = before[rapid.IntRange(max(0, len(before)-20), len(before)-1).Draw(t, "played again")]
		if rapid.Bool().Draw(t, "as another") {
			a.Signer = signer
		}
	}
	switch rapid.IntRange(0, 9).Draw(t, "wrong") {
	case 0:
		a.Signer.User = rapid.SampledFrom(everybody).Draw(t, "user")
	case 1:
		a.Signer.Groups = []string{"approver", "admin", "glass"}
		a.Signer.Token = rapid.SampledFrom([]string{a.Signer.Token, "", "t-eve", "t-forged"}).Draw(t, "forged")
	case 2:
		a.Evidence = rapid.SampledFrom([]string{"", "0000-0000-0000-0000"}).Draw(t, "evidence")
	case 3:
		a.Waivers = append(slices.Clone(a.Waivers), Waiver{Gate: GateCooldown})
	case 4:
		a.Waivers = a.Waivers[:len(a.Waivers)/2]
	case 5:
		a.Reason = ""
	}
	return a
}

// Ten thousand stale, replayed, raced and self-minted approvals over random
// histories: none is accepted and nothing moves by one. The good ones among them
// are accepted, so that the model is no empty one, and the active side moves only
// when the model has its people.
func TestG3TenThousandBadApprovalsMoveNothing(t *testing.T) {
	base := stateful(t, func(sp *Spec) {
		a := &sp.Services["db"].Stateful.Approval
		a.TTL, a.Remind = Duration(5*time.Minute), nil
	})
	base.must(
		PutToken{ID: "t-bobs", User: "kim", Groups: []string{"approver"}, Hash: [32]byte{11}, Person: "bob", Makers: []string{"bob"}},
		PutToken{ID: "t-annb", User: "ann", Groups: []string{"approver"}, Hash: [32]byte{12}, Person: "bob", Makers: []string{"bob"}},
		PutToken{ID: "t-lou", User: "lou", Groups: []string{"approver"}, Hash: [32]byte{13}, Person: "bob", Makers: []string{"bob", "kim"}},
	)
	bad, good, moves := 0, 0, 0
	play := func(rt *rapid.T) {
		r := forked(t, base)
		n := &naive{cuts: map[string]*naiveCut{}, approval: base.st().approvalPolicy("db")}
		var before []ApproveCutover
		for range 50 {
			n.around(rt, r)
			for range rapid.IntRange(1, 5).Draw(rt, "approvals") {
				a := anyApproval(rt, r, before)
				before = append(before, a)
				want, st := n.accepts(r.st(), a), r.st()
				err := r.do(a)
				switch {
				case want && err != nil:
					rt.Fatalf("entry %d: a good approval is refused: %+v: %v", r.index, a, err)
				case want:
					n.sign(r.st(), a)
					good++
				case err == nil && n.late(a) && r.lastEvent().Type == "cutover.waived":
					// It decides nothing: the cutover was approved, and has begun.
				case err == nil:
					rt.Fatalf("entry %d: a bad approval is accepted: %+v\nmodel: %+v\nfacts: %s", r.index, a, n.cuts[a.ID], naiveFacts(st))
				default:
					bad++
					if unmoved(st) != unmoved(r.st()) {
						rt.Fatalf("entry %d: a refused approval moved something: %+v", r.index, a)
					}
					if e := r.lastEvent(); e.Index != r.index || e.Type != "cutover.refused" {
						rt.Fatalf("entry %d: the audit shows no refusal but %+v", r.index, e)
					}
				}
			}
		}
		moves += n.moves
	}
	checkUntil(t, play, func() bool { return bad >= 10_000 && good > 300 && moves > 30 })
	t.Logf("%d bad approvals refused, %d good ones accepted, %d moves", bad, good, moves)
}

// around lets something happen beside approvals, and tells the model.
func (n *naive) around(t *rapid.T, r *rig) {
	st := r.st()
	c := n.cuts[n.open]
	step := func(cmd Command, want bool) bool {
		err := r.do(cmd)
		if (err == nil) != want {
			t.Fatalf("entry %d: %T: model says %v, got %v", r.index, cmd, want, err)
		}
		return err == nil
	}
	inTime := func() bool { return st.Now.Add(time.Second).Before(c.expires) }
	ends := func() { c.phase, n.open = "over", "" }
	switch choice := rapid.IntRange(0, 19).Draw(t, "around"); {
	case choice == 0:
		side := rapid.SampledFrom([]health.Side{health.Up, health.Down}).Draw(t, "side")
		turns := db(rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "turns"))
		for _, o := range []string{"eu-1", "us-1", "ap-1"} {
			_ = r.do(CastVotes{Batches: []VoteBatch{r.vote(o, side, turns)}}) // It may be silent.
		}
	case choice == 1 && rapid.Bool().Draw(t, "silence"):
		id := rapid.SampledFrom([]health.ObserverID{"eu-1", "us-1", "ap-1"}).Draw(t, "silent")
		_ = r.do(ObserverSilent{Observer: id}) // It may be silent already.
	case choice == 1:
		r.allVote(health.Up)
	case choice == 2:
		tok := rapid.SampledFrom(tokens).Draw(t, "token")
		if _, ok := st.Tokens[tok.ID]; ok {
			step(RevokeToken{ID: tok.ID}, true)
		} else {
			step(tok, true)
		}
	case choice == 3:
		_ = r.doMeta(Tick{}, Meta{Elapsed: time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second})
	case choice == 4 && (c == nil || c.phase == "pending"):
		sp := dbSpec()
		a := &sp.Services["db"].Stateful.Approval
		a.TTL, a.Required = Duration(5*time.Minute), rapid.IntRange(1, 2).Draw(t, "required")
		a.Remind = nil
		step(ApplySpec{Base: st.Revision, Spec: sp}, true)
		n.approval = *a
	case c == nil:
		n.propose(t, r)
	case c.phase == "begun" && choice == 5:
		if step(AbortCutover{ID: n.open, Reason: "x", Signer: Signer{User: "root", Via: ViaSocket}}, true) {
			ends()
		}
	case c.phase == "begun":
		co := r.last()
		if r.do(PublishCutover{ID: n.open, Version: co.Version, Acknowledged: sortedKeys(st.Members), Rotation: dbRotation(st, co.Destination)}) == nil {
			n.moves++
			ends()
		}
	case choice == 5:
		if step(RejectCutover{ID: n.open, Reason: "x", Signer: Signer{User: "root", Via: ViaSocket}}, inTime() && !n.approved(st, c)) {
			ends()
		}
	case !inTime():
		if step(CloseCutover{ID: n.open, Version: r.last().Version, As: Expired, Reason: "x"}, true) {
			ends()
		}
	case c.facts != naiveFacts(st) && choice < 15:
		rev := r.revision()
		if step(rev, rev.Evidence.Digest() != c.digest) {
			c.facts, c.digest, c.gates, c.signed = naiveFacts(st), r.last().Digest, r.last().Evidence.Gates, nil
			c.told = false
		}
	case choice < 12 && r.last().Phase == Approved:
		if step(r.begin(), c.facts == naiveFacts(st) && n.approved(st, c)) {
			c.phase = "begun"
		}
	}
}

func (n *naive) propose(t *rapid.T, r *rig) {
	kind, s := Planned, as("dan")
	if rapid.Bool().Draw(t, "emergency") {
		kind, s = Emergency, Signer{}
	}
	if rapid.IntRange(0, 2).Draw(t, "by ann") == 0 {
		kind, s = Planned, as("ann")
	}
	if r.do(r.proposal(kind, r.other(), s)) != nil {
		return // Whoever proposes has no token any more.
	}
	co := r.last()
	n.open = co.ID
	n.cuts[co.ID] = &naiveCut{
		facts: naiveFacts(r.st()), digest: co.Digest, gates: co.Evidence.Gates, phase: "pending",
		proposer: s.Token, expires: r.st().Now.Add(n.approval.TTL.D()),
	}
}
