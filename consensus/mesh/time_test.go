package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a network of in-memory pipes with one listener.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	fails []error // what the next Accepts return
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	p.mu.Lock()
	if len(p.fails) > 0 {
		err := p.fails[0]
		p.fails = p.fails[1:]
		p.mu.Unlock()
		return nil, err
	}
	p.mu.Unlock()
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return noAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inBubble runs f with two nodes joined by pipes, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, us, eu *Mesh, p *pipes, came <-chan Identity)) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t, inst)
		p := newPipes()
		us := open(t, Config{Dir: nodeDir(t, ca, "us-1", RoleVoter)})
		eu := open(t, Config{Dir: nodeDir(t, ca, "eu-1", RoleVoter), Dial: p.dial})
		came := echo(t, us, ProtoRaft)
		serveOn(t, us, p)
		f(t, us, eu, p, came)
		require.NoError(t, eu.Close())
		require.NoError(t, us.Close())
	})
}

func TestASlowHandshakeHoldsNobodyUp(t *testing.T) {
	tests := []struct {
		name string
		slow func(c net.Conn)
	}{
		{"silence", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		{"a byte a second", func(c net.Conn) {
			for _, b := range []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaa") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _, eu *Mesh, p *pipes, came <-chan Identity) {
				began := time.Now()
				loris, err := p.dial(t.Context(), "", "")
				require.NoError(t, err)
				done := make(chan time.Duration)
				go func() {
					tt.slow(loris)
					done <- time.Since(began)
				}()
				synctest.Wait()
				c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
				require.NoError(t, err)
				require.NoError(t, ping(t, c))
				require.Zero(t, time.Since(began), "the slow one held the port up")
				require.Equal(t, "eu-1", (<-came).Name)
				require.InDelta(t, defaultHandshakeTimeout, <-done, float64(time.Second), "cut off at the deadline")
			})
		})
	}
}

func TestASlowGreetingIsCutOffToo(t *testing.T) {
	inBubble(t, func(t *testing.T, us, eu *Mesh, p *pipes, came <-chan Identity) {
		began := time.Now()
		raw, err := p.dial(t.Context(), "", "")
		require.NoError(t, err)
		c := tls.Client(raw, &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{ProtoRaft},
			Certificates: []tls.Certificate{eu.current.Load().certificate},
		})
		require.NoError(t, c.Handshake())
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.Equal(t, defaultHandshakeTimeout, time.Since(began))
		require.Empty(t, came)
		us.mu.Lock()
		defer us.mu.Unlock()
		require.Empty(t, us.conns)
	})
}

func TestAConnectionNobodyAcceptsIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, us, eu *Mesh, _ *pipes, _ <-chan Identity) {
		ln := us.Listener(ProtoRPC) // nobody calls Accept
		c, err := eu.Dial(t.Context(), ProtoRPC, "us-1", "us-1")
		require.NoError(t, err)
		began := time.Now()
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.Equal(t, defaultHandshakeTimeout, time.Since(began))
		require.NoError(t, ln.Close())
	})
}

func TestConnectionsAreClosedWhenOld(t *testing.T) {
	inBubble(t, func(t *testing.T, _, eu *Mesh, _ *pipes, _ <-chan Identity) {
		c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.NoError(t, err)
		time.Sleep(time.Hour - time.Second)
		require.NoError(t, ping(t, c))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Error(t, ping(t, c))
		again, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.NoError(t, err)
		require.NoError(t, ping(t, again))
	})
}

func TestAnOldConnectionMayFinishWhatItIsAt(t *testing.T) {
	tests := []struct {
		name          string
		answer, ended time.Duration // after the maximal age
	}{
		{"a late answer still arrives", 10 * time.Second, 10*time.Second + retirePause},
		{"but not for ever", 2 * retireGrace, retireGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, us, eu *Mesh, _ *pipes, _ <-chan Identity) {
				us.cfg.MaxAge = 10 * time.Hour // it is the dialling side that ends it
				ln := us.Listener(ProtoRPC)
				go func() {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					_, _ = io.ReadFull(c, make([]byte, 4))
					time.Sleep(time.Second + tt.answer)
					_, _ = c.Write([]byte("pong"))
				}()
				c, err := eu.Dial(t.Context(), ProtoRPC, "us-1", "us-1")
				require.NoError(t, err)
				old := time.Now().Add(defaultMaxAge)
				time.Sleep(defaultMaxAge - time.Second)
				_, err = c.Write([]byte("ping"))
				require.NoError(t, err)
				_, err = io.ReadFull(c, make([]byte, 4))
				require.Equal(t, tt.answer < retireGrace, err == nil, "err = %v", err)
				_, err = c.Read(make([]byte, 1))
				require.Error(t, err)
				require.InDelta(t, tt.ended, time.Since(old), float64(retirePause))
				require.NoError(t, ln.Close())
				time.Sleep(2 * retireGrace) // lets the slow side end
			})
		})
	}
}

func TestConnectionsEndWithTheirCertificate(t *testing.T) {
	inBubble(t, func(t *testing.T, us, eu *Mesh, _ *pipes, _ <-chan Identity) {
		_, until := us.Validity()
		time.Sleep(time.Until(until) - time.Minute)
		c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.NoError(t, err)
		time.Sleep(time.Minute - time.Second)
		require.NoError(t, ping(t, c))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Error(t, ping(t, c))
		_, err = eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.ErrorContains(t, err, "expired")
	})
}

func TestDialGivesUpOnASilentPeer(t *testing.T) {
	inBubble(t, func(t *testing.T, us, eu *Mesh, _ *pipes, _ <-chan Identity) {
		silent := newPipes()
		eu.cfg.Dial = silent.dial
		go func() {
			c, err := silent.Accept()
			if err == nil {
				_, _ = io.Copy(io.Discard, c)
			}
		}()
		began := time.Now()
		_, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no answer in time")
		require.Equal(t, defaultHandshakeTimeout, time.Since(began))
	})
}

func TestServeOutlivesFailedAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t, inst)
		p := newPipes()
		for range 10 {
			p.fails = append(p.fails, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", errors.New("too many open files"))})
		}
		us := open(t, Config{Dir: nodeDir(t, ca, "us-1", RoleVoter)})
		eu := open(t, Config{Dir: nodeDir(t, ca, "eu-1", RoleVoter), Dial: p.dial})
		echo(t, us, ProtoRaft)
		serveOn(t, us, p)
		began := time.Now()
		_, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.NoError(t, err)
		require.Greater(t, time.Since(began), time.Second, "accept spins")
		require.NoError(t, eu.Close())
		require.NoError(t, us.Close())
	})
}

func TestHandshakesUnderWayAreBounded(t *testing.T) {
	g := gate{hosts: map[string]int{}}
	for range maxHandshakesPerHost {
		require.True(t, g.enter("192.0.2.1"))
	}
	require.False(t, g.enter("192.0.2.1"), "one host takes all the places")
	require.True(t, g.enter("192.0.2.2"))
	g.leave("192.0.2.1")
	require.True(t, g.enter("192.0.2.1"))
	for i := g.all; i < maxHandshakes; i++ {
		require.True(t, g.enter(time.Duration(i).String()))
	}
	require.False(t, g.enter("192.0.2.3"))
	g.leave("192.0.2.2")
	require.NotContains(t, g.hosts, "192.0.2.2")
}

func TestCloseEndsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T, us, eu *Mesh, p *pipes, _ <-chan Identity) {
		c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.NoError(t, err)
		ln := us.Listener(ProtoRaft)
		require.NoError(t, us.Close())
		require.NoError(t, us.Close())
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		synctest.Wait()
		require.Error(t, ping(t, c))
		_, err = eu.Dial(t.Context(), ProtoRaft, "us-1", "us-1")
		require.ErrorContains(t, err, "connection refused")
	})
}

func TestAListenerClosesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, us, eu *Mesh, _ *pipes, _ <-chan Identity) {
		first := us.Listener(ProtoRPC)
		require.Same(t, first, us.Listener(ProtoRPC))
		require.NoError(t, first.Close())
		_, err := first.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = eu.Dial(t.Context(), ProtoRPC, "us-1", "us-1")
		require.ErrorContains(t, err, "does not serve quorate-rpc now")
		echo(t, us, ProtoRPC)
		c, err := eu.Dial(t.Context(), ProtoRPC, "us-1", "us-1")
		require.NoError(t, err)
		require.NoError(t, ping(t, c))
	})
}
