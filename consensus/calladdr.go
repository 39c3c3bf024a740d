package consensus

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// CallAddr asks whichever node answers at addr, and returns its authenticated
// name. It is for addresses out of a configuration, before it is known who is
// there: identity is never an address.
func (n *Node) CallAddr(ctx context.Context, addr, method string, body []byte) (reply []byte, from string, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(n.cfg.Profile.Propose)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := n.cfg.Links.Dial(ctx, ProtoRPC, "", addr)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer func() { _ = c.Close() }() // one question, one connection
	request := binary.BigEndian.AppendUint32(nil, uint32(max(1, time.Until(deadline).Milliseconds())))
	request = append(append(append(request, byte(len(method))), method...), body...)
	response, err := n.rpc.exchange(ctx, c, request)
	if err != nil {
		return nil, "", fmt.Errorf("call %s at %s: %w", method, addr, err)
	}
	reply, err = decodeResponse(response)
	return reply, n.cfg.PeerName(c), err
}
