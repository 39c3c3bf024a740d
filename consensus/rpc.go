package consensus

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quorate/quorate/statestore"
)

// The RPC is one request and one response at a time on a connection; concurrent
// requests use several. Frames are a length and that many bytes:
//
//	request   timeout in ms (4) | length of method (1) | method | body
//	response  code (1) | body, or what the code says
const (
	// maxFrame bounds a body: a spec and its rotations fit many times over.
	maxFrame = 8 << 20

	// maxIdle is how many idle connections are kept for each peer.
	maxIdle = 4

	// idleLimit is when an idle connection is dropped by the caller; the server
	// waits twice as long, so that a request never meets a closing connection.
	idleLimit = 30 * time.Second

	// maxInbound bounds the connections served at once.
	maxInbound = 256
)

// Response codes. Numbers are append-only.
const (
	codeOK      = 0
	codeError   = 1 // text
	codeRefusal = 2 // JSON of a statestore.Refusal
	codeKnown   = 3 // index into known (1), text
)

// known are the errors that keep their identity on the way. Append only.
var known = []error{
	ErrNoLeader, ErrUnknownOutcome, ErrParked, ErrClosed, ErrNotLeader, ErrUnsafe,
	ErrUnreachable, context.DeadlineExceeded, context.Canceled, errNoMethod, statestore.ErrUndecodable,
}

var errNoMethod = errors.New("no such method")

// remoteError is an error of the other node: its text and, if it is one of known,
// its identity.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// rpc serves and calls. It lives as long as the node, parked or not.
type rpc struct {
	n *Node

	mu       sync.Mutex // guards what follows
	handlers map[string]Handler
	idle     map[string][]idleConn // by peer name, the latest used last
	inbound  map[net.Conn]struct{}
	closed   bool
}

type idleConn struct {
	net.Conn
	since time.Time
}

func newRPC(n *Node) *rpc {
	return &rpc{n: n, handlers: map[string]Handler{}, idle: map[string][]idleConn{}, inbound: map[net.Conn]struct{}{}}
}

func (r *rpc) handle(method string, h Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handlers[method] = h
}

// close ends every connection; requests in flight fail.
func (r *rpc) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.inbound {
		_ = c.Close() // it is being thrown away
	}
	for _, conns := range r.idle {
		for _, c := range conns {
			_ = c.Close() // it is being thrown away
		}
	}
	clear(r.idle)
}

// serve answers the requests of one connection.
func (r *rpc) serve(c net.Conn) {
	defer c.Close()
	r.mu.Lock()
	if r.closed || len(r.inbound) >= maxInbound {
		r.mu.Unlock()
		return
	}
	r.inbound[c] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.inbound, c)
		r.mu.Unlock()
	}()
	from := r.n.cfg.PeerName(c)
	for {
		if err := c.SetDeadline(time.Now().Add(2 * idleLimit)); err != nil {
			return
		}
		frame, err := readFrame(c)
		if err != nil {
			return
		}
		if len(frame) < 5 || len(frame) < 5+int(frame[4]) {
			r.n.log.Warn("malformed rpc request", keyPeer, from)
			return
		}
		timeout := time.Duration(binary.BigEndian.Uint32(frame)) * time.Millisecond
		method, body := string(frame[5:5+frame[4]]), frame[5+frame[4]:]
		response := r.answer(from, method, body, timeout)
		if err := c.SetDeadline(time.Now().Add(r.n.cfg.Profile.Transport)); err != nil {
			return
		}
		if err := writeFrame(c, response); err != nil {
			return
		}
	}
}

func (r *rpc) answer(from, method string, body []byte, timeout time.Duration) []byte {
	ctx, cancel := context.WithTimeout(r.n.ctx, timeout)
	defer cancel()
	out, err := r.run(ctx, from, method, body)
	return encodeResponse(out, err)
}

// run runs a handler, which may panic without taking the node with it.
func (r *rpc) run(ctx context.Context, from, method string, body []byte) (out []byte, err error) {
	r.mu.Lock()
	h := r.handlers[method]
	r.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("%w: %s", errNoMethod, method)
	}
	defer func() {
		if p := recover(); p != nil {
			r.n.log.Error("rpc handler panicked", keyMethod, method, keyPeer, from, keyPanic, p, keyStack, string(debug.Stack()))
			err = fmt.Errorf("%s panicked", method)
		}
	}()
	return h(ctx, from, body)
}

func encodeResponse(body []byte, err error) []byte {
	var refusal *statestore.Refusal
	switch {
	case err == nil && len(body) >= maxFrame:
		return append([]byte{codeError}, "response too large"...)
	case err == nil:
		return append([]byte{codeOK}, body...)
	case errors.As(err, &refusal):
		b, _ := json.Marshal(refusal) // two strings always encode
		return append([]byte{codeRefusal}, b...)
	}
	for i, k := range known {
		if errors.Is(err, k) {
			return append([]byte{codeKnown, byte(i)}, err.Error()...)
		}
	}
	return append([]byte{codeError}, err.Error()...)
}

func decodeResponse(b []byte) ([]byte, error) {
	switch {
	case len(b) > 0 && b[0] == codeOK:
		return b[1:], nil
	case len(b) > 0 && b[0] == codeError:
		return nil, &remoteError{text: string(b[1:])}
	case len(b) > 0 && b[0] == codeRefusal:
		var refusal statestore.Refusal
		if err := json.Unmarshal(b[1:], &refusal); err != nil {
			return nil, fmt.Errorf("decode refusal: %w", err)
		}
		return nil, &refusal
	case len(b) > 1 && b[0] == codeKnown && int(b[1]) < len(known):
		return nil, &remoteError{text: string(b[2:]), is: known[b[1]]}
	}
	return nil, errors.New("malformed rpc response")
}

// call asks a peer. The error is ErrUnreachable when the request was certainly not
// delivered, a *remoteError or a Refusal when the peer answered, and anything else
// when nobody knows.
func (r *rpc) call(ctx context.Context, node, method string, body []byte) ([]byte, error) {
	if len(body) >= maxFrame {
		return nil, fmt.Errorf("%w: request of %d bytes, at most %d", ErrUnreachable, len(body), maxFrame)
	}
	if node == r.n.cfg.Name {
		out, err := r.run(ctx, node, method, body)
		return decodeResponse(encodeResponse(out, err)) // the same as from anywhere else
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(r.n.cfg.Profile.Propose)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	request := binary.BigEndian.AppendUint32(nil, uint32(max(1, time.Until(deadline).Milliseconds())))
	request = append(append(append(request, byte(len(method))), method...), body...)
	var (
		c        net.Conn
		response []byte
		err      = errUnsent
	)
	for tries := 0; tries <= maxIdle && errors.Is(err, errUnsent); tries++ {
		var dialErr error
		if c, dialErr = r.conn(ctx, node); dialErr != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, dialErr)
		}
		response, err = r.exchange(ctx, c, request)
	}
	if errors.Is(err, errUnsent) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err != nil {
		_ = c.Close() // its state is unknown
		r.forget(node)
		return nil, fmt.Errorf("call %s on %s: %w", method, node, err)
	}
	r.keep(node, c)
	return decodeResponse(response)
}

func (r *rpc) exchange(ctx context.Context, c net.Conn, request []byte) ([]byte, error) {
	deadline, _ := ctx.Deadline()
	if c.SetDeadline(deadline) != nil {
		return nil, errUnsent
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // best effort: the deadline comes anyway
	defer stop()
	if err := writeFrame(c, request); err != nil {
		return nil, err
	}
	response, err := readFrame(c)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, context.DeadlineExceeded // the connection's timer was first
	}
	if err == nil && !stop() {
		return response, errLate // the connection may carry the past deadline
	}
	return response, err
}

// errUnsent says that the connection was closed on this side while it was idle, as the
// mesh does to those that are old: nothing was sent, and another one will do.
var errUnsent = errors.New("the connection was closed before the request")

var errLate = errors.New("answered as the caller gave up")

// conn returns an idle connection or a new one.
func (r *rpc) conn(ctx context.Context, node string) (net.Conn, error) {
	r.mu.Lock()
	for conns := r.idle[node]; len(conns) > 0; conns = r.idle[node] {
		c := conns[len(conns)-1]
		r.idle[node] = conns[:len(conns)-1]
		if time.Since(c.since) < idleLimit {
			r.mu.Unlock()
			return c.Conn, nil
		}
		_ = c.Close() // too old to trust
	}
	r.mu.Unlock()
	return r.n.dial(ctx, ProtoRPC, node)
}

func (r *rpc) keep(node string, c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle[node]) >= maxIdle {
		_ = c.Close() // enough of them
		return
	}
	r.idle[node] = append(r.idle[node], idleConn{c, time.Now()})
}

// forget drops the idle connections to a peer after one of them failed: the peer
// may have restarted, and a request on the others would end in doubt.
func (r *rpc) forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.idle[node] {
		_ = c.Close() // it is being thrown away
	}
	delete(r.idle, node)
}

func writeFrame(w io.Writer, b []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	_, err := w.Write(append(frame, b...))
	return err
}

func readFrame(rd io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(rd, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame+512 {
		return nil, fmt.Errorf("frame of %d bytes, at most %d", n, maxFrame+512)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(rd, b)
	return b, err
}
