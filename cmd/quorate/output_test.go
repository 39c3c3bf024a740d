package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
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
