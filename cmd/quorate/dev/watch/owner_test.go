package watch

import (
	"testing"
	"time"
)

// story is an owner that saw a cutover from eu to us and back, and times in it.
func story() (o *Owner, at func(float64) time.Time) {
	start := time.Unix(1_800_000_000, 0)
	at = func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	claim := func(epoch, index uint64, addr string, moving bool) Claim {
		return Claim{Token: Token{1, epoch}, Index: index, Addrs: addrs(addr), Moving: moving}
	}
	o = NewOwner(2 * time.Second)
	o.Commit(claim(1, 5, "192.0.2.1", false), at(0))
	o.Commit(claim(1, 5, "192.0.2.1", false), at(10))
	o.Commit(claim(1, 7, "192.0.2.1", true), at(11))
	o.Commit(claim(1, 6, "192.0.2.1", false), at(11.5)) // a node that is behind
	o.Hold("cut", at(11.6))
	o.Commit(claim(2, 8, "192.0.2.2", false), at(12))
	o.Commit(claim(1, 7, "192.0.2.1", true), at(12.1)) // likewise
	o.Commit(claim(2, 8, "192.0.2.2", false), at(30))
	o.Commit(claim(3, 12, "192.0.2.1", false), at(31)) // nobody was asked while it moved
	o.Release("cut", at(40))
	return o, at
}

func TestOwnerAllowsTheActiveSideOfTheEpochThen(t *testing.T) {
	tests := []struct {
		name  string
		node  string
		addr  string
		asked float64
		want  bool
	}{
		{"the active side", "a", "192.0.2.1", 5, true},
		{"an address of nobody", "a", "203.0.113.9", 5, false},
		{"the side that will be active later", "a", "192.0.2.3", 5, false},
		{"the old side until the new epoch was heard", "a", "192.0.2.1", 11.9, true},
		{"the new side", "a", "192.0.2.2", 12.5, true},
		{"the old side at once after the new epoch was heard", "a", "192.0.2.1", 12.2, false},
		{"the side that people moved back to", "a", "192.0.2.1", 32, true},
		{"the side before it", "a", "192.0.2.2", 31.5, false},
		{"a node that was cut off keeps what it had", "cut", "192.0.2.1", 25, true},
		{"a node that was cut off may have heard just before", "cut", "192.0.2.2", 25, true},
		{"a node that was cut off answers what is current", "cut", "192.0.2.1", 35, true},
		{"a node that is back has the grace", "cut", "192.0.2.2", 41.5, true},
		{"and no longer", "cut", "192.0.2.2", 42.5, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, at := story()
			if got := o.Allows(tt.node, addrs(tt.addr), at(tt.asked), at(tt.asked+0.01)); got != tt.want {
				t.Errorf("Allows(%s, %s, +%gs) = %v, want %v", tt.node, tt.addr, tt.asked, got, tt.want)
			}
		})
	}
}

func TestOwnerNeverAllowsAnOldSideAfterANewOneOnTheSameNode(t *testing.T) {
	o, at := story()
	ask := func(node, addr string, asked, answered float64) bool {
		return o.Allows(node, addrs(addr), at(asked), at(answered))
	}
	if !ask("cut", "192.0.2.2", 13, 13.1) {
		t.Fatal("the new side")
	}
	if !ask("cut", "192.0.2.1", 13.05, 13.2) {
		t.Error("a question asked before the newer answer had come may still get the older")
	}
	if ask("other", "192.0.2.1", 13.5, 13.6) {
		t.Error("an old side on a node that was not cut off")
	}
	// The hold would allow it, and what the node said itself does not. Epoch 3 is
	// the same address, so a node must be judged before it.
	o.tenures = o.tenures[:2]
	o.tenures[1].until = time.Time{}
	if ask("cut", "192.0.2.1", 13.5, 13.6) {
		t.Error("the old side after the new one")
	}
}

func TestOwnerHearsOfAMoveAfterTheAnswer(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	o := NewOwner(time.Second)
	eu, us := addrs("192.0.2.1"), addrs("192.0.2.2")
	o.Commit(Claim{Token: Token{1, 1}, Addrs: eu}, at(0))
	if o.Allows("a", us, at(100), at(101)) {
		t.Error("nobody has claimed it yet")
	}
	if !o.Allows("b", eu, at(150), at(151)) || !o.Allows("a", eu, at(150), at(151)) {
		t.Error("as far as was heard, that is right")
	}
	o.Commit(Claim{Token: Token{1, 2}, Addrs: us}, at(200))
	if !o.Allows("b", us, at(160), at(161)) {
		t.Error("the answer was right: the claim came later")
	}
	if o.Allows("a", us, at(100), at(101)) {
		t.Error("an older side came after it")
	}
}

func TestOwnerAllowsWithholdingOnlyDuringACutover(t *testing.T) {
	tests := []struct {
		name  string
		node  string
		asked float64
		want  bool
	}{
		{"long before it", "a", 5, false},
		{"between the last time that none was under way and the first that one was", "a", 10.5, true},
		{"during it", "a", 11.2, true},
		{"a node that lags, just after it", "a", 13.5, true},
		{"long after it", "a", 20, false},
		{"during one that was heard of when it was over", "a", 30.5, true},
		{"a node that was cut off during it stays so", "cut", 29, true},
		{"until it is back", "cut", 43, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, at := story()
			if got := o.Withheld(tt.node, at(tt.asked), at(tt.asked+0.01)); got != tt.want {
				t.Errorf("Withheld(%s, +%gs) = %v, want %v", tt.node, tt.asked, got, tt.want)
			}
		})
	}
}
