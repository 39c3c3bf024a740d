//go:build !linux

package api

import (
	"errors"
	"net"
)

// peerCredentials is known for Linux only; elsewhere the socket needs a token.
func peerCredentials(*net.UnixConn) (peer, error) {
	return peer{}, errors.New("peer credentials: not known on this system")
}
