package mesh

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// serveJoins answers joins at m with handler until the test ends.
func serveJoins(t *testing.T, m *Mesh, handler JoinHandler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ln := m.Listener(ProtoJoin)
	go func() { done <- ServeJoin(ctx, ln, handler) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// welcome signs everybody who has the token.
func welcome(m *Mesh, tok JoinToken) JoinHandler {
	return func(_ context.Context, req JoinRequest) (JoinResponse, error) {
		want, got := tok.Hash(), req.TokenHash()
		if req.Token != tok.ID || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			return JoinResponse{}, errors.New("join token is unknown, used or expired; make one with: quorate members token")
		}
		a, err := m.Authority("")
		if err != nil {
			return JoinResponse{}, err
		}
		id := Identity{inst, req.Member.Name, string(req.Member.Role)}
		cert, err := a.SignCSR(req.CSR, id, time.Now())
		if err != nil {
			return JoinResponse{}, err
		}
		resp := JoinResponse{
			Installation: inst, Nonce: "n1", Bundle: strings.Join(m.Trust(), ""), Certificate: cert,
			Peers: []JoinPeer{{"us-1", "192.0.2.1:7654"}},
		}
		if req.Member.Role == statestore.Voter {
			resp.CA = a.CertificatePEM()
			resp.CAKey, err = a.KeyPEM()
		}
		return resp, err
	}
}

func member(name string, role statestore.MemberRole) JoinRequest {
	return JoinRequest{Member: statestore.Member{Name: name, Region: "eu-west", Role: role}}
}

func TestATokenIsAllANodeNeedsToJoin(t *testing.T) {
	ca := newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	tok := newToken(t, ca.Fingerprint())
	var seen JoinRequest
	serveJoins(t, us, func(ctx context.Context, req JoinRequest) (JoinResponse, error) {
		seen = req
		return welcome(us, tok)(ctx, req)
	})
	echo(t, us, ProtoRaft)
	addr := serve(t, us)

	dir := filepath.Join(t.TempDir(), "mesh")
	req := member("eu-1", statestore.Voter)
	req.Member.Nonce, req.Member.CA, req.Member.AddedIndex = "mine", "mine", 9
	kept := false
	j := Joiner{Dir: dir, Keep: func(r JoinResponse) error {
		require.NoFileExists(t, filepath.Join(dir, fileCert))
		kept = r.Nonce == "n1"
		return nil
	}}
	resp, err := j.Join(t.Context(), addr, tok.Text(), req)
	require.NoError(t, err)
	require.True(t, kept)
	require.Equal(t, "us-1", resp.Peers[0].Name)
	require.Equal(t, "eu-west", seen.Member.Region)
	require.Empty(t, seen.Member.Nonce+seen.Member.CA, "the joining node chose what the server sets")
	require.Zero(t, seen.Member.AddedIndex)

	eu := open(t, Config{Dir: dir})
	require.Equal(t, Identity{inst, "eu-1", RoleVoter}, eu.Identity())
	dialed(t, eu, ProtoRaft, "us-1", addr)

	t.Run("and a voter can then sign in the first one's place", func(t *testing.T) {
		a, err := eu.Authority("")
		require.NoError(t, err)
		require.NoError(t, us.Close())
		tok := newToken(t, a.Fingerprint())
		serveJoins(t, eu, welcome(eu, tok))
		dir := filepath.Join(t.TempDir(), "mesh")
		_, err = Joiner{Dir: dir}.Join(t.Context(), serve(t, eu), tok.Text(), member("ap-1", statestore.Nonvoter))
		require.NoError(t, err)
		require.NoFileExists(t, filepath.Join(dir, fileCAKey), "a nonvoter holds the CA key")
	})
	t.Run("a second join is refused", func(t *testing.T) {
		_, err := j.Join(t.Context(), addr, tok.Text(), req)
		require.ErrorIs(t, err, ErrHasIdentity)
	})
}

func TestRefusedJoinSaysWhyAndCanBeRepeated(t *testing.T) {
	ca := newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	tok := newToken(t, ca.Fingerprint())
	serveJoins(t, us, welcome(us, tok))
	addr := serve(t, us)
	dir := filepath.Join(t.TempDir(), "mesh")

	_, err := Joiner{Dir: dir}.Join(t.Context(), addr, newToken(t, ca.Fingerprint()).Text(), member("eu-1", statestore.Voter))
	require.ErrorIs(t, err, ErrRefused)
	require.EqualError(t, err, "join through "+addr+": refused by peer us-1: join token is unknown, used or expired; make one with: quorate members token")
	require.NoFileExists(t, filepath.Join(dir, fileCert))
	key, err := os.ReadFile(filepath.Join(dir, fileKey))
	require.NoError(t, err)

	_, err = Joiner{Dir: dir}.Join(t.Context(), addr, tok.Text(), member("eu-1", statestore.Voter))
	require.NoError(t, err)
	again, err := os.ReadFile(filepath.Join(dir, fileKey))
	require.NoError(t, err)
	require.Equal(t, key, again, "a repeated join makes another key")
}

func TestJoinRefusesAnAnswerThatDoesNotFit(t *testing.T) {
	ca, foreign := newCA(t, inst), newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	tok := newToken(t, ca.Fingerprint())
	var change func(req JoinRequest, resp *JoinResponse)
	serveJoins(t, us, func(ctx context.Context, req JoinRequest) (JoinResponse, error) {
		resp, err := welcome(us, tok)(ctx, req)
		change(req, &resp)
		return resp, err
	})
	addr := serve(t, us)
	resign := func(a *Authority, id Identity) func(JoinRequest, *JoinResponse) {
		return func(req JoinRequest, resp *JoinResponse) {
			resp.Certificate, _ = a.SignCSR(req.CSR, id, time.Now())
		}
	}
	tests := []struct {
		name   string
		change func(JoinRequest, *JoinResponse)
		want   string
	}{
		{"another name", resign(ca, Identity{inst, "eu-2", RoleVoter}), "certificate must be for eu-1"},
		{"another role", resign(ca, Identity{inst, "eu-1", RoleNonvoter}), "certificate must be for a voter"},
		{"another CA", resign(foreign, Identity{inst, "eu-1", RoleVoter}), "unknown authority"},
		{"another installation", func(_ JoinRequest, r *JoinResponse) { r.Installation = "x" }, "installation must be"},
		{"another key", func(_ JoinRequest, r *JoinResponse) { r.Certificate = us.current.Load().chainPEM() }, "not for this node's private key"},
		{"a bundle without the pinned CA", func(req JoinRequest, r *JoinResponse) {
			resign(foreign, Identity{inst, "eu-1", RoleVoter})(req, r)
			r.Bundle = foreign.CertificatePEM()
		}, "not among the trusted ones"},
		{"no nonce", func(_ JoinRequest, r *JoinResponse) { r.Nonce = "" }, "no nonce"},
		{"a CA key that is not trusted", func(_ JoinRequest, r *JoinResponse) {
			r.CA = foreign.CertificatePEM()
			r.CAKey, _ = foreign.KeyPEM()
		}, "whose key it hands over"},
		{"a CA key of another CA", func(_ JoinRequest, r *JoinResponse) { r.CAKey, _ = foreign.KeyPEM() }, "not the certificate's"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change = tt.change
			dir := filepath.Join(t.TempDir(), "mesh")
			_, err := Joiner{Dir: dir}.Join(t.Context(), addr, tok.Text(), member("eu-1", statestore.Voter))
			require.ErrorContains(t, err, tt.want)
			require.NoFileExists(t, filepath.Join(dir, fileCert))
			require.NoFileExists(t, filepath.Join(dir, fileCA))
		})
	}
}

// Somebody in between who ends TLS himself must learn nothing, not even the secret.
func TestJoinThroughAnImpostorIsRefused(t *testing.T) {
	ca, foreign := newCA(t, inst), newCA(t, inst)
	us := Identity{inst, "us-1", RoleVoter}
	shown := forge(t, foreign, us, nil)
	withRealCA := shown
	withRealCA.Certificate = append(append([][]byte{}, shown.Certificate...), ca.cert.Raw)
	realLeaf := signedBy(t, ca, forge(t, ca, us, nil), us)
	tests := []struct {
		name string
		cert tls.Certificate
		want string
	}{
		{"another CA", shown, "not of the CA that the token names"},
		{"another CA with ours sent along", withRealCA, "unknown authority"},
		{"a member that signs by itself", realLeaf, "unknown authority"},
		{"an operator of ours", forge(t, ca, Identity{inst, "anna", RoleOperator}, nil), "is no node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{ProtoJoin}, Certificates: []tls.Certificate{tt.cert},
			})
			require.NoError(t, err)
			heard := make(chan string, 1)
			go func() {
				c, err := ln.Accept()
				if err != nil {
					heard <- ""
					return
				}
				b, _ := io.ReadAll(c)
				_ = c.Close()
				heard <- string(b)
			}()
			dir := filepath.Join(t.TempDir(), "mesh")
			_, err = Joiner{Dir: dir}.Join(t.Context(), ln.Addr().String(), newToken(t, ca.Fingerprint()).Text(), member("eu-1", statestore.Voter))
			require.ErrorIs(t, err, ErrWrongPeer)
			require.ErrorContains(t, err, tt.want)
			_ = ln.Close()
			require.Empty(t, <-heard, "the impostor learned something")
		})
	}
}

func TestJoinBoundsWhatStrangersSend(t *testing.T) {
	ca := newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	called := make(chan struct{}, 8)
	serveJoins(t, us, func(context.Context, JoinRequest) (JoinResponse, error) {
		called <- struct{}{}
		return JoinResponse{}, errors.New("no")
	})
	addr := serve(t, us)
	for name, bytes := range map[string]string{
		"a frame that is too long": "\xff\xff\xff\xff" + strings.Repeat("x", 100),
		"no JSON":                  "\x00\x00\x00\x01x",
		"nothing":                  "",
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := dialTLS(t.Context(), new(net.Dialer).DialContext, addr, &tls.Config{
				InsecureSkipVerify: true, NextProtos: []string{ProtoJoin},
			}, "")
			require.NoError(t, err)
			_, err = c.Write([]byte(bytes))
			require.NoError(t, err)
			require.NoError(t, c.CloseWrite())
			waitClosed(t, c)
			require.Empty(t, called)
		})
	}
}
