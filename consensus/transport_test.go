package consensus

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// pipes are Links whose every connection is taken in by one transport.
type pipes struct{ to *transport }

func (p pipes) Dial(context.Context, string, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go p.to.layer.welcome(there)
	return here, nil
}

func (p pipes) Listener(string) net.Listener { return nil }

// transportOf returns the transport of a node whose peers are called b.
func transportOf(t *testing.T, id string, links Links) *transport {
	log := slog.New(slog.DiscardHandler)
	n := &Node{
		id: raft.ServerID(id), log: log, raftLog: &raftLog{log: log, name: "raft"},
		cfg: Config{
			Profile: Test(), Links: links,
			PeerName: func(net.Conn) string { return "b" },
			Addr:     func(name string) string { return name },
		},
	}
	trans := n.newTransport()
	t.Cleanup(func() { require.NoError(t, trans.Close()) })
	return trans
}

// Beside the main goroutine of raft a heartbeat takes a term back (hashicorp/raft
// #695): it must come in by the same door as everything else.
func TestAHeartbeatTakesItsTurn(t *testing.T) {
	a := transportOf(t, "a/1", nil)
	b := transportOf(t, "b/1", pipes{a})
	a.SetHeartbeatHandler(func(rpc raft.RPC) {
		t.Error("a heartbeat overtook what raft was doing")
		rpc.Respond(nil, errors.New("overtook"))
	})
	beat := raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("b/1"), Addr: []byte("b/1")}, Term: 5}
	answered := make(chan error, 1)
	var answer raft.AppendEntriesResponse
	go func() { answered <- b.AppendEntries("a/1", "a/1", &beat, &answer) }()
	select {
	case rpc := <-a.Consumer():
		require.Equal(t, &beat, rpc.Command)
		rpc.Respond(&raft.AppendEntriesResponse{Term: 6}, nil)
	case <-time.After(5 * time.Second):
		t.Fatal("no heartbeat came")
	}
	require.NoError(t, <-answered)
	require.EqualValues(t, 6, answer.Term)
}
