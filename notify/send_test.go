package notify

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestFailuresHaveReasons(t *testing.T) {
	tests := []struct {
		name, reason, says string
		answer             func(w http.ResponseWriter, r *http.Request, got request)
	}{
		{"an error", "status", "answered 500", func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(500) }},
		{"a refusal", "status", "answered 401", func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(401) }},
		{"a redirect is not followed", "redirect", "answered 307; a redirect is never followed", func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "http://elsewhere/in", http.StatusTemporaryRedirect)
		}},
		{"a moved page is not followed", "redirect", "answered 301", func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "http://elsewhere/in", http.StatusMovedPermanently)
		}},
		{"silence", "timeout", "context deadline exceeded", func(_ http.ResponseWriter, r *http.Request, _ request) { <-r.Context().Done() }},
		{"a hang-up", "connection", "EOF", func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) }},
		{"a head without end", "connection", "server response headers exceeded", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "bus", "elsewhere")
				only := hooks("bus", "elsewhere")
				only.Routes[0].To = []string{"bus"}
				b.apply(only)
				b.net["bus"].answers(tt.answer)
				failed := func() float64 {
					return b.metric(t, "quorate_notifications_failed_total", "receiver", "bus", "reason", tt.reason)
				}
				require.Zero(t, failed(), "series exist at zero")
				lead(t, b.n, func() {
					b.event("cutover.proposed", "services/db")
					time.Sleep(10500 * time.Millisecond)
					require.GreaterOrEqual(t, failed(), 1.0)
					b.net["bus"].answers(nil)
					time.Sleep(time.Minute)
					require.EqualValues(t, 1, b.metric(t, "quorate_notifications_total", "receiver", "bus", "type", "cutover.proposed"))
				})
				require.Empty(t, b.net["elsewhere"].requests())
				require.Contains(t, b.log.String(), tt.says)
				require.Equal(t, 1, strings.Count(b.log.String(), "\n"), "one line a minute:\n%s", b.log)
			})
		})
	}
}

// A secret that this node lacks stops what needs it, and nothing else; nothing goes
// out unsigned. Once it is there the receiver is told.
func TestWithoutItsSecretAReceiverIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus", "chat")
		b.secrets.Delete("bus-key")
		missing := func() float64 { return b.metric(t, "quorate_secrets_unresolved", "secret", "bus-key") }
		require.EqualValues(t, 1, missing(), "shown on a node that never led")
		require.EqualValues(t, 0, b.metric(t, "quorate_secrets_unresolved", "secret", "chat-key"))
		require.EqualValues(t, 1, b.metric(t, "quorate_secrets_unresolved", "secret", "door-ca"), "what checks need is shown too")
		lead(t, b.n, func() {
			id := b.event("cutover.proposed", "services/db")
			b.event("cutover.proposed", "services/shop")
			time.Sleep(time.Hour)
			require.Empty(t, b.net["bus"].requests())
			require.Len(t, b.net["chat"].requests(), 2)
			require.GreaterOrEqual(t, b.metric(t, "quorate_notifications_failed_total", "receiver", "bus", "reason", "secret"), 60.0)

			b.secrets.Store("bus-key", "c4nary-new")
			time.Sleep(2 * time.Minute)
			require.ElementsMatch(t, []uint64{id, id + 1}, b.net["bus"].ids(""))
			r := b.net["bus"].requests()[0]
			require.NoError(t, Verify([]byte("c4nary-new"), r.header, r.body, time.Now(), 2*time.Minute))
			require.Zero(t, missing())
		})
		require.Equal(t, 1, strings.Count(b.log.String(), "secret=bus-key"), "warned of once")
	})
}

func TestAReceiverWithoutAKeyGetsNoSignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		plain := hooks("bus")
		plain.Receivers["bus"].Webhook.Sign = ""
		b.apply(plain)
		lead(t, b.n, func() {
			b.event("spec.applied", "config")
			time.Sleep(time.Second)
			require.Len(t, b.net["bus"].requests(), 1)
			require.Empty(t, b.net["bus"].requests()[0].header.Get(HeaderSignature))
			require.NotEmpty(t, b.net["bus"].requests()[0].header.Get(HeaderTimestamp))
		})
	})
}

// Whatever goes wrong, neither the key nor the address, whose path or query may be
// what lets the sender in, is in what people and programs read.
func TestNothingSecretIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus", "nowhere")
		delete(b.net, "nowhere")
		answers := []func(http.ResponseWriter, *http.Request, request){
			func(w http.ResponseWriter, r *http.Request, _ request) {
				http.Redirect(w, r, r.URL.String(), http.StatusFound)
			},
			func(_ http.ResponseWriter, r *http.Request, _ request) { <-r.Context().Done() },
			func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) },
			func(w http.ResponseWriter, r *http.Request, _ request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte("c4nary-bus " + r.URL.String())) // a receiver that repeats what it was given
			},
		}
		for _, answer := range answers {
			b.net["bus"].answers(answer)
			lead(t, b.node(nil), func() {
				b.event("cutover.proposed", "services/db")
				time.Sleep(5 * time.Minute)
			})
		}
		require.Contains(t, b.log.String(), "no such host")
		require.NotContains(t, b.log.String(), "c4nary")
		families, err := b.reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			require.NotContains(t, f.String(), "c4nary")
		}
		for _, r := range b.net["bus"].requests() {
			require.NotContains(t, string(r.body), "c4nary")
			for _, values := range r.header {
				require.NotContains(t, strings.Join(values, " "), "c4nary")
			}
		}
	})
}

// The address is checked when it is dialled, after the name was resolved: a name
// that stands for loopback is not reached. The rule is the dialler's.
func TestADeniedAddressIsNotReached(t *testing.T) {
	var reached atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	require.NoError(t, err)
	denied := errors.New("127.0.0.1 is loopback and not listed in observer.allow")
	var allow atomic.Bool
	dialer := net.Dialer{Control: func(string, string, syscall.RawConn) error {
		if !allow.Load() {
			return denied
		}
		return nil
	}}
	b := &bench{ledger: newLedger(statestore.Notify{})}
	n := New(Config{Store: b, Propose: b.propose, Encode: encode, Dial: dialer.DialContext})
	hook := &statestore.Webhook{URL: "http://localhost:" + port + "/in"}
	b.event("spec.applied", "config")
	st := b.State()
	try := func() (string, error) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		return n.send(ctx, "bus", hook, st, st.Events[0])
	}
	reason, err := try()
	require.Equal(t, "connection", reason)
	require.ErrorIs(t, err, denied)
	require.Zero(t, reached.Load())
	allow.Store(true)
	reason, err = try()
	require.NoError(t, err)
	require.Empty(t, reason)
	require.EqualValues(t, 1, reached.Load())
}

// A proxy of the environment would be reached instead, and could reach anything.
func TestNoProxyIsUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.example.net:3128")
	transport, ok := newClient(nil).Transport.(*http.Transport)
	require.True(t, ok)
	require.Nil(t, transport.Proxy)
}
