package mesh

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/statestore"
)

const (
	// joinTimeout covers the commits a join needs, and an election in their midst.
	joinTimeout = time.Minute
	// maxJoins bounds the joins a node works on at once; others wait their turn.
	maxJoins        = 8
	maxJoinRequest  = 64 << 10
	maxJoinResponse = 1 << 20
	maxJoinError    = 4 << 10
)

// JoinRequest is what a joining node asks with. Of Member, the server sets Nonce, CA
// and AddedIndex; Join fills Token, Secret and CSR.
type JoinRequest struct {
	Token  string            `json:"token"`  // JoinToken.ID
	Secret string            `json:"secret"` // JoinToken.Secret
	CSR    string            `json:"csr"`
	Member statestore.Member `json:"member"`
}

// TokenHash returns the hash of the secret, to be compared with the state's.
func (r JoinRequest) TokenHash() [32]byte { return JoinToken{Secret: r.Secret}.Hash() }

// LogValue keeps the secret out of logs.
func (r JoinRequest) LogValue() slog.Value {
	return slog.StringValue(r.Member.Name + " with token " + r.Token)
}

// JoinResponse is what a joining node gets.
type JoinResponse struct {
	Installation string     `json:"installation"`
	Nonce        string     `json:"nonce"`
	Bundle       string     `json:"bundle"`      // every trusted CA
	Certificate  string     `json:"certificate"` // the node's own
	CA           string     `json:"ca,omitempty"`
	CAKey        string     `json:"ca_key,omitempty"` // voters: the key of CA, in clear inside TLS
	Peers        []JoinPeer `json:"peers"`
}

// JoinPeer is where to find a member.
type JoinPeer struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// LogValue keeps the CA key out of logs.
func (r JoinResponse) LogValue() slog.Value {
	return slog.StringValue("join response of " + r.Installation)
}

// JoinHandler decides on a join. It checks the token, commits the member and signs
// the certificate. Its error is told to the joining node as text.
type JoinHandler func(ctx context.Context, req JoinRequest) (JoinResponse, error)

type joinReply struct {
	Error    string        `json:"error,omitempty"`
	Response *JoinResponse `json:"response,omitempty"`
}

// ServeJoin answers joins on ln, a mesh's Listener(ProtoJoin), until ctx is done or
// ln closes, then waits for those under way and returns nil. Handlers see ctx end.
func ServeJoin(ctx context.Context, ln net.Listener, handler JoinHandler) error {
	ctx, cancel := context.WithCancel(ctx)
	var joins sync.WaitGroup
	defer joins.Wait()
	defer cancel()
	joins.Go(func() {
		<-ctx.Done()
		_ = ln.Close() // Accept returns what matters
	})
	places := make(chan struct{}, maxJoins)
	for {
		c, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accept joins: %w", err)
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			_ = c.Close()
			continue
		}
		joins.Go(func() {
			defer func() { <-places }()
			serveJoin(ctx, c, handler)
		})
	}
}

func serveJoin(ctx context.Context, c net.Conn, handler JoinHandler) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	unwatch := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		unwatch()
		_ = c.Close()
	}()
	// Until a request is in, the caller is a stranger: it gets no more than the time
	// of a handshake.
	_ = c.SetReadDeadline(time.Now().Add(defaultHandshakeTimeout)) // a dead connection fails the read too
	var req JoinRequest
	if err := readFrame(c, maxJoinRequest, &req); err != nil {
		return
	}
	req.Member.Nonce, req.Member.CA, req.Member.AddedIndex = "", "", 0
	var reply joinReply
	if resp, err := handler(ctx, req); err != nil {
		text := err.Error()
		reply.Error = text[:min(len(text), maxJoinError)]
	} else {
		reply.Response = &resp
	}
	_ = writeFrame(c, reply) // the joining node asks again with the same key
}

// Joiner joins a node whose files are in Dir.
type Joiner struct {
	Dir  string
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer

	// Keep, if set, is given the answer before the identity is written, so that what
	// it keeps (the nonce, the peers) is there whenever the identity is. Its error
	// ends the join, which may be tried again.
	Keep func(JoinResponse) error
}

// Join trades a token for a certificate at any node of the installation. It shows
// the secret only to a node whose certificate the CA pinned by the token has
// signed. On success the directory holds the identity, ready for Open. The node's
// key is made and kept before anything is asked, so that a join whose answer got
// lost can be repeated with the same key. ErrHasIdentity: the node has joined before.
func (j Joiner) Join(ctx context.Context, addr, token string, req JoinRequest) (JoinResponse, error) {
	resp, err := j.join(ctx, addr, token, req)
	if err != nil {
		return JoinResponse{}, fmt.Errorf("join through %s: %w", addr, err)
	}
	return resp, nil
}

func (j Joiner) join(ctx context.Context, addr, token string, req JoinRequest) (JoinResponse, error) {
	tok, err := ParseJoinToken(token)
	if err != nil {
		return JoinResponse{}, err
	}
	key, err := j.key()
	if err != nil {
		return JoinResponse{}, err
	}
	if req.CSR, err = encodeCSR(key); err != nil {
		return JoinResponse{}, err
	}
	req.Token, req.Secret = tok.ID, tok.Secret

	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	server, resp, err := j.ask(ctx, addr, tok, req)
	if err != nil {
		return JoinResponse{}, err
	}
	id, err := checkJoin(server, tok, key, req, resp)
	if err != nil {
		return JoinResponse{}, fmt.Errorf("%s answered with something that does not fit: %w", server.Name, err)
	}
	var a *Authority
	if resp.CAKey != "" {
		if a, err = ParseAuthority(resp.CA, resp.CAKey); err != nil {
			return JoinResponse{}, err
		}
	}
	if j.Keep != nil {
		if err := j.Keep(resp); err != nil {
			return JoinResponse{}, fmt.Errorf("keep the answer: %w", err)
		}
	}
	if err := saveIdentity(pathsIn(j.Dir), key, id, resp.Bundle, resp.Certificate, a); err != nil {
		return JoinResponse{}, err
	}
	return resp, nil
}

// key returns the node's key, made unless an earlier try made it.
func (j Joiner) key() (crypto.Signer, error) {
	p := pathsIn(j.Dir)
	if err := makeDir(j.Dir); err != nil {
		return nil, err
	}
	if ok, err := exists(p.cert); err != nil {
		return nil, err
	} else if ok {
		return nil, fmt.Errorf("%w in %s", ErrHasIdentity, j.Dir)
	}
	if ok, err := exists(p.key); err != nil {
		return nil, err
	} else if ok {
		text, err := readSecret(p.key)
		if err != nil {
			return nil, err
		}
		key, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.key, err)
		}
		return key, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make node key: %w", err)
	}
	text, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(p.key, []byte(text), modeSecret)
}

// ask sends the request to a server that the pin vouches for.
func (j Joiner) ask(ctx context.Context, addr string, tok JoinToken, req JoinRequest) (Identity, JoinResponse, error) {
	var server Identity
	cfg := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{ProtoJoin},
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, // nothing but the pin is known yet; VerifyConnection holds to it
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			server, err = verifyPinned(state.PeerCertificates, tok.CA, time.Now())
			return err
		},
	}
	dial := j.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	handshake, cancel := context.WithTimeout(ctx, defaultHandshakeTimeout)
	defer cancel()
	c, _, err := dialTLS(handshake, dial, addr, cfg, req.Member.Version)
	if err != nil {
		return server, JoinResponse{}, err
	}
	unwatch := context.AfterFunc(ctx, func() { _ = c.NetConn().Close() })
	defer func() {
		unwatch()
		_ = c.Close()
	}()
	var reply joinReply
	err = writeFrame(c, req)
	if err == nil {
		err = readFrame(c, maxJoinResponse, &reply)
	}
	switch {
	case err != nil:
		return server, JoinResponse{}, fmt.Errorf("no answer from %s, the same join may be tried again: %w", server.Name, err)
	case reply.Response == nil:
		return server, JoinResponse{}, fmt.Errorf("%w %s: %s", ErrRefused, server.Name, printable(reply.Error))
	}
	return server, *reply.Response, nil
}

// verifyPinned checks a server's chain against the one CA the token names, which
// the server sends along.
func verifyPinned(chain []*x509.Certificate, pin string, at time.Time) (Identity, error) {
	roots := x509.NewCertPool()
	found := false
	for _, c := range chain {
		if fingerprint(c) == pin && c.IsCA {
			roots.AddCert(c)
			found = true
		}
	}
	if !found {
		return Identity{}, fmt.Errorf("%w: its certificate is not of the CA that the token names; either somebody is in between, or the CA was rolled since: make a new token", ErrWrongPeer)
	}
	id, _, err := verifyChain(roots, "", chain, x509.ExtKeyUsageServerAuth, at)
	switch {
	case err != nil:
		return Identity{}, fmt.Errorf("%w: %w", ErrWrongPeer, err)
	case id.Role == RoleOperator:
		return Identity{}, fmt.Errorf("%w: %s is no node", ErrWrongPeer, id)
	}
	return id, nil
}

// checkJoin refuses an answer that could not be lived with, before anything of it
// reaches the disk.
func checkJoin(server Identity, tok JoinToken, key crypto.Signer, req JoinRequest, resp JoinResponse) (Identity, error) {
	mat, err := newMaterial(key, resp.Certificate, resp.Bundle, nil, time.Now())
	if err != nil {
		return Identity{}, err
	}
	id := mat.identity
	_, pinned := mat.trusted(tok.CA)
	switch {
	case id.Installation != server.Installation || resp.Installation != server.Installation:
		return Identity{}, fmt.Errorf("installation must be %q, is %q", server.Installation, resp.Installation)
	case id.Name != req.Member.Name:
		return Identity{}, fmt.Errorf("certificate must be for %s, is for %s", req.Member.Name, id.Name)
	case id.Role != string(req.Member.Role):
		return Identity{}, fmt.Errorf("certificate must be for a %s, is for a %s", req.Member.Role, id.Role)
	case !pinned:
		return Identity{}, errors.New("the CA the token names is not among the trusted ones")
	case strings.TrimSpace(resp.Nonce) == "":
		return Identity{}, errors.New("it holds no nonce")
	}
	if resp.CAKey == "" {
		return id, nil
	}
	a, err := ParseAuthority(resp.CA, resp.CAKey)
	if err != nil {
		return Identity{}, err
	}
	if _, ok := mat.trusted(a.Fingerprint()); !ok {
		return Identity{}, errors.New("the CA whose key it hands over is not among the trusted ones")
	}
	return id, nil
}

// A frame is a length of four bytes and that much JSON.
func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readFrame(r io.Reader, limit uint32, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > limit {
		return fmt.Errorf("message must be at most %d bytes, is %d", limit, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
