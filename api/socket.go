package api

import (
	"context"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/quorate/quorate/statestore"
)

// peer is the process at the other end of a unix socket.
type peer struct {
	uid, gid uint32
}

type peerKey struct{}

// connContext remembers who is at the other end of a unix socket. A connection
// whose credentials cannot be read is treated like one from the network.
func connContext(ctx context.Context, c net.Conn) context.Context {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	p, err := peerCredentials(uc)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// socketPrincipal lets root, this process's own user and members of the socket
// group be admin, so that nobody can lock themselves out.
func (s *Server) socketPrincipal(ctx context.Context) (principal, bool) {
	p, ok := ctx.Value(peerKey{}).(peer)
	if !ok {
		return principal{}, false
	}
	name := "uid-" + strconv.FormatUint(uint64(p.uid), 10)
	u, err := user.LookupId(strconv.FormatUint(uint64(p.uid), 10))
	if err == nil && !statestore.ReservedUser(u.Username) {
		name = u.Username
	}
	if p.uid == 0 || int(p.uid) == os.Getuid() || s.inSocketGroup(p, u) {
		return principal{User: name, Via: statestore.ViaSocket}, true
	}
	return principal{}, false
}

func (s *Server) inSocketGroup(p peer, u *user.User) bool {
	g, err := user.LookupGroup(s.cfg.SocketGroup)
	if err != nil {
		return false
	}
	if g.Gid == strconv.FormatUint(uint64(p.gid), 10) {
		return true
	}
	if u == nil {
		return false
	}
	ids, err := u.GroupIds()
	return err == nil && slices.Contains(ids, g.Gid)
}
