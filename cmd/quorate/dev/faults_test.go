package dev

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where clusters have no address of their own, what is answered is a documentation
// address, and each server listens on a port of its own on 127.0.0.1.
func TestProbesOfAClusterFindTheServerOfThePort(t *testing.T) {
	bind := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port) }
	clusters := []*fakeCluster{
		{name: "eu", addr: netip.MustParseAddr("192.0.2.1"), web: &fakeServer{port: 8880, bind: bind(8880)}, data: &fakeServer{port: 8008, bind: bind(8008)}},
		{name: "us", addr: netip.MustParseAddr("192.0.2.2"), web: &fakeServer{port: 8880, bind: bind(8881)}, data: &fakeServer{port: 8008, bind: bind(8009)}},
		{name: "ap", addr: netip.MustParseAddr("192.0.2.3"), web: &fakeServer{port: 8880, bind: bind(8882)}},
	}
	var dialled string
	refuse := errors.New("not a real dial")
	f := newFaults()
	dial := f.probeDial("eu-1", clusters, func(_ context.Context, _, addr string) (net.Conn, error) {
		dialled = addr
		return nil, refuse
	})
	for to, want := range map[string]string{
		"192.0.2.1:8880": "127.0.0.1:8880",
		"192.0.2.1:8008": "127.0.0.1:8008",
		"192.0.2.2:8880": "127.0.0.1:8881",
		"192.0.2.2:8008": "127.0.0.1:8009",
		"192.0.2.3:8008": "192.0.2.3:8008", // it has none: nobody answers there
		"192.0.2.9:8880": "192.0.2.9:8880",
		"example:80":     "example:80",
	} {
		_, err := dial(t.Context(), "tcp", to)
		require.ErrorIs(t, err, refuse)
		require.Equal(t, want, dialled, to)
	}
	f.setBlind("eu-1", "us")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dial(ctx, "tcp", "192.0.2.2:8008")
	require.ErrorIs(t, err, context.Canceled, "a blind node sees neither server")
}
