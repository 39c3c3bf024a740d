package watch

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// A node that answers a stateful name as a script says, one answer a second, while
// orders-db moves from eu to us at second 10.
func TestTheWatcherCatchesWrongAnswersOfAStatefulName(t *testing.T) {
	eu, us := addrs("192.0.2.1"), addrs("192.0.2.2")
	withheld := []netip.Addr(nil)
	tests := []struct {
		name    string
		answers map[int][]netip.Addr // second -> answer; others: what is right
		want    Counts
	}{
		{"all is right", nil, Counts{Withheld: 2}},
		{"the new side too early", map[int][]netip.Addr{5: us}, Counts{Withheld: 2, Wrong: 1}},
		{"the old side after the new one", map[int][]netip.Addr{15: eu}, Counts{Withheld: 2, Wrong: 1}},
		{"the old side for ever", map[int][]netip.Addr{11: eu, 12: eu, 13: eu, 14: eu}, Counts{Withheld: 2, Wrong: 4}},
		{"withheld while nothing moves", map[int][]netip.Addr{3: withheld, 18: withheld}, Counts{Withheld: 2, Empty: 2}},
		{"an address of nobody", map[int][]netip.Addr{5: addrs("203.0.113.9")}, Counts{Withheld: 2, Wrong: 1}},
		{"both sides at once", map[int][]netip.Addr{15: append(addrs("192.0.2.1"), us...)}, Counts{Withheld: 2, Wrong: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owner := NewOwner(time.Second)
				w := New(Config{Servers: map[string]string{"a": ""}, Owner: owner})
				for second := range 20 {
					right, moving := eu, second == 8 || second == 9
					claim := Claim{Token: Token{1, 1}, Index: uint64(second), Addrs: eu, Moving: moving}
					switch {
					case moving:
						right = withheld
					case second >= 10:
						right, claim.Token, claim.Addrs = us, Token{1, 2}, us
					}
					owner.Commit(claim, time.Now())
					answer, planted := tt.answers[second]
					if !planted {
						answer = right
					}
					asked := time.Now()
					time.Sleep(10 * time.Millisecond)
					reply := &dnsclient.Reply{Rcode: "NOERROR", Addresses: answer}
					if len(answer) == 0 {
						reply.Rcode = "SERVFAIL"
					}
					w.note("a", reply, nil, asked)
					time.Sleep(990 * time.Millisecond)
				}
				w.Finish()
				got := w.Counts()["a"]
				require.Equal(t, tt.want, Counts{Withheld: got.Withheld, Wrong: got.Wrong, Empty: got.Empty}, got.Example)
				require.Equal(t, 20, got.Queries)
			})
		})
	}
}
