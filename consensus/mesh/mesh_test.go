package mesh

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const inst = "prod.example"

func newCA(t *testing.T, installation string) *Authority {
	t.Helper()
	a, err := NewAuthority(installation, time.Now())
	require.NoError(t, err)
	return a
}

// nodeDir makes the directory of a node and returns it.
func nodeDir(t *testing.T, a *Authority, name, role string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, IssueTo(dir, a, Identity{a.Installation(), name, role}, time.Now()))
	return dir
}

func open(t *testing.T, cfg Config) *Mesh {
	t.Helper()
	m, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// node opens a node with a certificate of a.
func node(t *testing.T, a *Authority, name, role string) *Mesh {
	t.Helper()
	return open(t, Config{Dir: nodeDir(t, a, name, role)})
}

// serve runs the mesh on loopback until the test ends and returns its address.
func serve(t *testing.T, m *Mesh) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveOn(t, m, ln)
	return ln.Addr().String()
}

func serveOn(t *testing.T, m *Mesh, ln net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// echo accepts a protocol's connections, tells who came, and echoes.
func echo(t *testing.T, m *Mesh, proto string) <-chan Identity {
	t.Helper()
	ln := m.Listener(proto)
	came := make(chan Identity, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			came <- c.(*Conn).Peer()
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return came
}

func ping(t *testing.T, c net.Conn) error {
	t.Helper()
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err
}

// waitClosed waits until the other side has closed c.
func waitClosed(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err := c.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still open")
}

// forge makes a certificate that Authority itself would not sign.
func forge(t *testing.T, a *Authority, id Identity, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := newKey()
	require.NoError(t, err)
	return forgeFor(t, a, key, id, change)
}

func forgeFor(t *testing.T, a *Authority, key *ecdsa.PrivateKey, id Identity, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(7),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:         []*url.URL{id.URI()},
	}
	if change != nil {
		change(tmpl)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}
}

// call connects as a client that checks nothing itself and returns why it failed.
func call(t *testing.T, addr, proto string, certs ...tls.Certificate) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, _, err := dialTLS(ctx, new(net.Dialer).DialContext, addr, &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{proto}, Certificates: certs,
	}, "")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return ping(t, c)
}

func TestListenersTakeOnlyTheRolesTheyNeed(t *testing.T) {
	ca, foreign := newCA(t, inst), newCA(t, inst)
	elsewhere := newCA(t, "other.example")
	us := node(t, ca, "us-1", RoleVoter)
	came := map[string]<-chan Identity{}
	for _, proto := range []string{ProtoRaft, ProtoRPC, ProtoJoin} {
		came[proto] = echo(t, us, proto)
	}
	addr := serve(t, us)

	eu := Identity{inst, "eu-1", RoleVoter}
	with := func(role string) Identity { return Identity{inst, "eu-1", role} }
	good := forge(t, ca, eu, nil)
	late := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }
	serverOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	twoNames := func(c *x509.Certificate) { c.URIs = append(c.URIs, with(RoleOperator).URI()) }
	noName := func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"eu-1"} }
	noRole := func(c *x509.Certificate) { c.URIs[0].Path = "/node/eu-1" }

	tests := []struct {
		name  string
		proto string
		cert  []tls.Certificate
		want  string // part of the error; empty: taken
	}{
		{"a voter may speak raft", ProtoRaft, []tls.Certificate{good}, ""},
		{"a nonvoter may speak raft", ProtoRaft, []tls.Certificate{forge(t, ca, with(RoleNonvoter), nil)}, ""},
		{"an operator may not speak raft", ProtoRaft, []tls.Certificate{forge(t, ca, with(RoleOperator), nil)}, "eu-1 (operator) may not use quorate-raft"},
		{"a voter may call", ProtoRPC, []tls.Certificate{good}, ""},
		{"a nonvoter may call", ProtoRPC, []tls.Certificate{forge(t, ca, with(RoleNonvoter), nil)}, ""},
		{"an operator may call", ProtoRPC, []tls.Certificate{forge(t, ca, with(RoleOperator), nil)}, ""},
		{"an unknown role may nothing", ProtoRPC, []tls.Certificate{forge(t, ca, with("admin"), nil)}, "bad certificate"},
		{"anybody may ask to join", ProtoJoin, nil, ""},
		{"no certificate", ProtoRaft, nil, "certificate required"},
		{"another CA", ProtoRaft, []tls.Certificate{forge(t, foreign, eu, nil)}, "bad certificate"},
		{"another CA, calling", ProtoRPC, []tls.Certificate{forge(t, foreign, eu, nil)}, "bad certificate"},
		{"another installation and its CA", ProtoRaft, []tls.Certificate{forge(t, elsewhere, Identity{"other.example", "eu-1", RoleVoter}, nil)}, "bad certificate"},
		{"another installation by our CA", ProtoRaft, []tls.Certificate{forge(t, ca, Identity{"other.example", "eu-1", RoleVoter}, nil)}, "bad certificate"},
		{"expired", ProtoRaft, []tls.Certificate{forge(t, ca, eu, late)}, "bad certificate"},
		{"not valid yet", ProtoRaft, []tls.Certificate{forge(t, ca, eu, early)}, "bad certificate"},
		{"a certificate for servers only", ProtoRaft, []tls.Certificate{forge(t, ca, eu, serverOnly)}, "bad certificate"},
		{"two names", ProtoRaft, []tls.Certificate{forge(t, ca, eu, twoNames)}, "bad certificate"},
		{"a DNS name is no identity", ProtoRaft, []tls.Certificate{forge(t, ca, eu, noName)}, "bad certificate"},
		{"a name without a role", ProtoRaft, []tls.Certificate{forge(t, ca, eu, noRole)}, "bad certificate"},
		{"a leaf cannot sign", ProtoRaft, []tls.Certificate{signedBy(t, ca, good, eu)}, "bad certificate"},
		{"an unknown protocol", "h2", []tls.Certificate{good}, "internal error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := call(t, addr, tt.proto, tt.cert...)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				for proto, ch := range came {
					require.Empty(t, ch, "%s handed the connection out", proto)
				}
				return
			}
			require.NoError(t, err)
			<-came[tt.proto]
		})
	}
}

// signedBy makes a certificate signed by a node's own key, shown with its chain.
func signedBy(t *testing.T, ca *Authority, parent tls.Certificate, id Identity) tls.Certificate {
	t.Helper()
	leaf, err := x509.ParseCertificate(parent.Certificate[0])
	require.NoError(t, err)
	rogue := &Authority{installation: ca.installation, cert: leaf, key: parent.PrivateKey.(*ecdsa.PrivateKey)}
	c := forge(t, rogue, id, nil)
	c.Certificate = append(c.Certificate, ca.cert.Raw)
	return c
}

func TestDialProvesTheNameItWanted(t *testing.T) {
	ca := newCA(t, inst)
	us, eu := node(t, ca, "us-1", RoleVoter), node(t, ca, "eu-1", RoleNonvoter)
	came := echo(t, us, ProtoRaft)
	addr := serve(t, us)

	c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", addr)
	require.NoError(t, err)
	require.NoError(t, ping(t, c))
	require.Equal(t, Identity{inst, "eu-1", RoleNonvoter}, <-came)
	require.Equal(t, Identity{inst, "us-1", RoleVoter}, c.(*Conn).Peer())
	require.NoError(t, c.Close())

	_, err = eu.Dial(t.Context(), ProtoRaft, "ap-1", addr)
	require.ErrorIs(t, err, ErrWrongPeer)
	require.ErrorContains(t, err, "it is us-1, not ap-1")
	_, err = eu.Dial(t.Context(), ProtoRaft, "", addr)
	require.ErrorContains(t, err, "must be named")
	_, err = eu.Dial(t.Context(), ProtoRPC, "us-1", addr)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "us-1 does not serve quorate-rpc now")
	_, err = eu.Dial(t.Context(), ProtoJoin, "us-1", addr)
	require.ErrorContains(t, err, "protocol must be")
	require.Empty(t, came)

	t.Run("without a name a caller learns who is there", func(t *testing.T) {
		echo(t, us, ProtoRPC)
		c, err := eu.Dial(t.Context(), ProtoRPC, "", addr)
		require.NoError(t, err)
		require.Equal(t, "us-1", c.(*Conn).Peer().Name)
	})
}

func TestDialRefusesServersItShouldNotTrust(t *testing.T) {
	ca, foreign := newCA(t, inst), newCA(t, inst)
	eu := node(t, ca, "eu-1", RoleVoter)
	us := Identity{inst, "us-1", RoleVoter}
	clientOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	late := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	tests := []struct {
		name string
		cert tls.Certificate
		want string
	}{
		{"another CA", forge(t, foreign, us, nil), "unknown authority"},
		{"another installation", forge(t, ca, Identity{"other.example", "us-1", RoleVoter}, nil), `installation "other.example"`},
		{"an operator is no server", forge(t, ca, Identity{inst, "us-1", RoleOperator}, nil), "us-1 (operator) may not serve"},
		{"expired", forge(t, ca, us, late), "expired"},
		{"a certificate for clients only", forge(t, ca, us, clientOnly), "incompatible key usage"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{ProtoRPC}, Certificates: []tls.Certificate{tt.cert},
			})
			require.NoError(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c, err := ln.Accept(); err == nil {
					_ = c.(*tls.Conn).Handshake()
					_ = c.Close()
				}
			}()
			_, err = eu.Dial(t.Context(), ProtoRPC, "us-1", ln.Addr().String())
			require.ErrorContains(t, err, tt.want)
			_ = ln.Close()
			<-done
		})
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	ca := newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	echo(t, us, ProtoRaft)
	addr := serve(t, us)
	_, err := tls.Dial("tcp", addr, &tls.Config{
		MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true, NextProtos: []string{ProtoRaft},
		Certificates: []tls.Certificate{forge(t, ca, Identity{inst, "eu-1", RoleVoter}, nil)},
	})
	require.ErrorContains(t, err, "protocol version")
}

func TestSeveralProtocolsOfferedAreRefused(t *testing.T) {
	ca := newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	echo(t, us, ProtoRaft)
	addr := serve(t, us)
	for _, protos := range [][]string{{ProtoJoin, ProtoRaft}, {}} {
		_, err := tls.Dial("tcp", addr, &tls.Config{
			InsecureSkipVerify: true, NextProtos: protos,
			Certificates: []tls.Certificate{forge(t, ca, Identity{inst, "eu-1", RoleVoter}, nil)},
		})
		require.ErrorContains(t, err, "internal error")
	}
}

// tickets counts the sessions a server offers.
type tickets struct{ offered int }

func (s *tickets) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (s *tickets) Put(_ string, cs *tls.ClientSessionState) {
	if cs != nil {
		s.offered++
	}
}

func TestResumptionIsNotOffered(t *testing.T) {
	ca := newCA(t, inst)
	us := node(t, ca, "us-1", RoleVoter)
	echo(t, us, ProtoRaft)
	addr := serve(t, us)
	cache := &tickets{}
	c, err := tls.Dial("tcp", addr, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{ProtoRaft}, ClientSessionCache: cache, ServerName: "us-1",
		Certificates: []tls.Certificate{forge(t, ca, Identity{inst, "eu-1", RoleVoter}, nil)},
	})
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, greet(c, ""))
	require.NoError(t, ping(t, c)) // a ticket would have come before the echo
	require.Zero(t, cache.offered)
}

func TestGarbageLeavesThePortWorking(t *testing.T) {
	ca := newCA(t, inst)
	us, eu := node(t, ca, "us-1", RoleVoter), node(t, ca, "eu-1", RoleVoter)
	came := echo(t, us, ProtoRaft)
	addr := serve(t, us)
	for _, garbage := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", string(make([]byte, 4096))} {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		// The server may be gone before all is written: that is its right.
		_, _ = c.Write([]byte(garbage))
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", addr)
	require.NoError(t, err)
	require.NoError(t, ping(t, c))
	require.Equal(t, "eu-1", (<-came).Name)
	require.Empty(t, came)
}

func TestVersionsMoreThanAMinorApartAreRefused(t *testing.T) {
	tests := []struct {
		ours, theirs string
		ok           bool
	}{
		{"1.2.0", "1.2.9", true},
		{"1.2.0", "v1.3.0-rc1", true},
		{"1.2.0", "1.1.4", true},
		{"1.2.0", "1.4.0", false},
		{"1.2.0", "2.2.0", false},
		{"dev", "1.4.0", true},
		{"", "1.4.0", true},
		{"1.2.0", "1", true},
	}
	ca := newCA(t, inst)
	usDir, euDir := nodeDir(t, ca, "us-1", RoleVoter), nodeDir(t, ca, "eu-1", RoleVoter)
	for _, tt := range tests {
		t.Run(tt.ours+" and "+tt.theirs, func(t *testing.T) {
			us, eu := open(t, Config{Dir: usDir, Version: tt.ours}), open(t, Config{Dir: euDir, Version: tt.theirs})
			echo(t, us, ProtoRPC)
			_, err := eu.Dial(t.Context(), ProtoRPC, "us-1", serve(t, us))
			if tt.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "more than one minor apart")
		})
	}
}
