package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestVotesSayWhatDeniedMeans(t *testing.T) {
	vote := func(by, reason string) apitype.Vote { return apitype.Vote{Observer: by, Reason: reason, Counts: true} }
	var out strings.Builder
	votesTable(&out, []apitype.TargetVotes{{Target: "web/eu/10.0.0.1", Votes: []apitype.Vote{vote("ap-1", "denied"), vote("eu-1", "ok")}}})
	require.Contains(t, out.String(), "denied: ap-1 may not probe that address; list it in observer.allow of node.yaml there")
}
