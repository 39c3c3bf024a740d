package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// seedEnv runs one seed again: QUORATE_SIM_SEED=7 go test -run Random ./integration/sim
const seedEnv = "QUORATE_SIM_SEED"

// Random faults, and the rules of watch throughout; then everything heals, and
// what is true is decided, on every node, with nothing lost.
func TestRandomFaults(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if s := os.Getenv(seedEnv); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, options{spec: statefulSpec(proposeAfter(5 * time.Second))}, func(t *testing.T, i *installation) {
				newChaos(t, i, seed).run(300 * time.Second)
			})
		})
	}
}

// chaos draws faults from a seed.
type chaos struct {
	t     *testing.T
	i     *installation
	rand  *rand.Rand
	truth map[string]health.Side
	token int
}

func newChaos(t *testing.T, i *installation, seed uint64) *chaos {
	return &chaos{
		t: t, i: i, rand: rand.New(rand.NewPCG(seed, 0)),
		truth: map[string]health.Side{"eu": health.Up, "us": health.Up, "ap": health.Up},
	}
}

func (c *chaos) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		what := c.act()
		c.t.Logf("%8s  %s", time.Since(c.i.start).Round(time.Millisecond), what)
		time.Sleep(time.Duration(c.rand.Int64N(int64(5 * time.Second))))
	}
	for _, n := range c.i.all() {
		n.sight.clear()
	}
	c.i.finish()
	// What people signed is done, unless its destination is gone: they decide that.
	c.i.until("nothing to be under way", func() bool {
		n := c.i.all()[0]
		co := n.open()
		if co != nil && policy.Stuck(n.view.State(), co) != "" {
			_ = c.i.propose(n.name, statestore.AbortCutover{ID: co.ID, Reason: "its destination is down", Signer: who("bob")}) // tried again
		}
		return co == nil || co.Phase == statestore.Proposed
	})
	// I16: what everybody sees is decided soon after the heal.
	c.i.until("the truth to be decided everywhere", func() bool {
		return c.i.everywhere(func(n *node) bool {
			for cluster, side := range c.truth {
				if n.side(cluster) != side {
					return false
				}
			}
			return n.counting() == len(c.i.nodes) && len(policy.Plan(n.view.State(), policy.Waits{})) == 0
		})
	})
	c.i.settle()
	st := c.i.all()[0].view.State()
	c.t.Logf("db is on %s under epoch %d after %d cutovers", st.Ownership("db").Active, st.Ownership("db").Epoch, st.CutoverSeq)
}

// act does one thing and says what.
func (c *chaos) act() string {
	i, n := c.i, c.node()
	switch c.rand.IntN(18) {
	case 0:
		i.raft.Isolate(n.name)
		return "isolate " + n.name
	case 1:
		m := c.node()
		i.raft.Net.Drop(n.name, m.name)
		return "drop " + n.name + " to " + m.name
	case 2:
		a, b := c.node().name, c.node().name
		i.split(a, b)
		return "part " + a + " and " + b + " from the rest"
	case 3, 4:
		i.raft.Net.Heal()
		return "heal"
	case 5:
		if len(i.running()) <= 3 || !n.up() {
			return "nothing"
		}
		n.kill()
		return "kill " + n.name
	case 6:
		n.restart()
		return "restart " + n.name
	case 7, 8:
		cluster, side := c.cluster(), []health.Side{health.Up, health.Down}[c.rand.IntN(2)]
		c.truth[cluster] = side
		i.cluster(cluster, side)
		return fmt.Sprint(cluster, " is ", side)
	case 9:
		cluster, side := c.cluster(), []health.Side{health.Up, health.Down, health.Unknown}[c.rand.IntN(3)]
		n.sight.mistake(cluster, side)
		return fmt.Sprint(n.name, " sees ", cluster, " ", side)
	case 10:
		d := time.Duration(c.rand.Int64N(int64(4*time.Hour))) - 2*time.Hour
		n.step(d)
		n.stall(time.Duration(c.rand.Int64N(int64(10 * time.Second))))
		return fmt.Sprint("wall clock of ", n.name, " by ", d)
	case 11:
		n.hold()
		time.Sleep(time.Duration(c.rand.Int64N(int64(5 * time.Second))))
		n.release()
		return n.name + " applied nothing for a while"
	case 12, 13, 14, 15, 16:
		if !n.up() {
			return "nothing"
		}
		return c.person(n)
	default:
		if !n.up() {
			return "nothing"
		}
		c.token++
		err := i.propose(n.name, statestore.PutToken{ID: fmt.Sprint("t", c.token), User: "ann", Groups: []string{"ops"}, Hash: [32]byte{1}})
		return fmt.Sprint("write at ", n.name, ": ", err)
	}
}

// person does something about db at a node, as people would who look at it there.
func (c *chaos) person(n *node) string {
	i, name, co := c.i, []string{"alice", "bob", "carol"}[c.rand.IntN(3)], n.open()
	var err error
	did := "signs"
	switch {
	case co == nil:
		did = "proposes"
		err = i.wants(n.name, name, statestore.CutoverKinds()[c.rand.IntN(3)], "")
	case c.rand.IntN(8) == 0 && co.Phase == statestore.Fencing:
		did = "aborts"
		err = i.propose(n.name, statestore.AbortCutover{ID: co.ID, Reason: "no", Signer: who(name)})
	case c.rand.IntN(8) == 0:
		did = "rejects"
		err = i.propose(n.name, statestore.RejectCutover{ID: co.ID, Reason: "no", Signer: who(name)})
	default:
		err = i.signs(n.name, name)
	}
	return fmt.Sprint(name, " ", did, " at ", n.name, ": ", err)
}

func (c *chaos) node() *node { return c.i.all()[c.rand.IntN(len(c.i.nodes))] }

func (c *chaos) cluster() string { return []string{"ap", "eu", "us"}[c.rand.IntN(3)] }
