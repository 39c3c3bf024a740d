package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

// A reason that somebody else wrote cannot add a row or rewrite the terminal.
func TestTablesHoldNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	columns(plain{&out}, "WHO WHY", [][]string{{"eve", "a\nb\tc\x1b[2J\r"}})
	require.Equal(t, "WHO  WHY\neve  a b c [2J \n", out.String())
}

func TestAddressesOfAContextAreKnownHoweverTheyAreSpelled(t *testing.T) {
	require.Equal(t, sameAddrs([]string{"http://127.0.0.1:7653"}), sameAddrs([]string{" 127.0.0.1:7653/"}))
	require.NotEqual(t, sameAddrs([]string{"http://127.0.0.1:7653"}), sameAddrs([]string{"https://127.0.0.1:7653"}))
	require.Equal(t, []string{"unix:/run/quorate/quorate.sock"}, sameAddrs([]string{"unix:/run/quorate/quorate.sock"}))
}

// A node that has just heard a leader again does not know how many voters that
// one reaches, and claims nothing about it.
func TestWhatTheLeaderHasNotToldIsNotShownAsNone(t *testing.T) {
	q := apitype.Quorum{Available: true, Voters: 3, Leader: "eu-1"}
	require.Equal(t, "3 voters, leader eu-1 has not told yet how many it reaches", quorumLine(q))
	q.VotersUp = 2
	require.Equal(t, "2/3 voters, leader eu-1, tolerates 0 losses", quorumLine(q))
}

func TestAMemberNotHeardYetIsNotUnreachable(t *testing.T) {
	reach := func(m apitype.Member) string {
		var out bytes.Buffer
		membersTable(&out, []apitype.Member{m})
		return out.String()
	}
	require.Contains(t, reach(apitype.Member{LastSeenSeconds: -1, Awaited: true}), "not heard yet")
	require.NotContains(t, reach(apitype.Member{LastSeenSeconds: -1, Awaited: true}), "UNREACHABLE")
	require.Contains(t, reach(apitype.Member{LastSeenSeconds: -1}), "UNREACHABLE")
}

func TestARolledCAIsNamed(t *testing.T) {
	var out bytes.Buffer
	old, young := apitype.CA{Fingerprint: "0123456789abcdef0123"}, apitype.CA{Fingerprint: "fedcba9876543210fedc"}
	retiredCAs(&out, []apitype.CA{old, young}, []apitype.CA{young})
	require.Regexp(t, `^retired CA 0123456789abcdef, of .*\n$`, out.String())
}

// A reason must not show its reader another text than it has, such as other gates.
func TestNoTextTurnsTheDirectionOfWriting(t *testing.T) {
	for _, r := range "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u0085\u009b" {
		var out strings.Builder
		columns(plain{&out}, "WHO WHY", [][]string{{"eve", "a" + string(r) + "b"}})
		fmt.Fprintf(plain{&out}, "a%cb\n", r)
		require.NotContains(t, out.String(), string(r), "%U", r)
	}
	var out strings.Builder
	fmt.Fprint(plain{&out}, "größer 日本 ✓ עברית")
	require.Equal(t, "größer 日本 ✓ עברית", out.String(), "what people write stays")
}
