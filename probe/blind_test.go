package probe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

var canaries = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("198.51.100.53:53")}

// line is this node's network as its canaries see it.
type line struct {
	cut  atomic.Bool
	slow atomic.Int64 // time.Duration a canary takes
	asks atomic.Int64
}

// wrap dials in virtual time.
func (l *line) wrap(DialFunc) DialFunc {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		if network == "tcp" {
			l.asks.Add(1)
		}
		if l.cut.Load() || network != "tcp" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		select {
		case <-time.After(time.Duration(l.slow.Load())):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if l.cut.Load() {
			return nil, errors.New("cut")
		}
		a, b := net.Pipe()
		_ = b.Close()
		return a, nil
	}
}

// usEU are two clusters, so that each is unrelated to the other.
func usEU() []TargetChecks {
	return []TargetChecks{webInput(), {Target: target("web", "us", "192.0.2.20"), All: []Check{tcpCheck("c", 80)}}}
}

func TestG9BlindObserverNeverVotesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := newWorld(), &line{}
		p := launch(t, Config{Canaries: canaries, WrapDial: net.wrap}, w, usEU()...)
		eu, us := watch(t, p, webEU), watch(t, p, usEU()[1].Target)
		time.Sleep(30 * time.Second)
		require.False(t, p.Status().Blind)

		net.cut.Store(true) // this node loses its network, and so all it probes
		w.set(w.hung, true, "192.0.2.10", "192.0.2.20")
		time.Sleep(2 * time.Minute)
		require.True(t, p.Status().Blind)
		require.Equal(t, "no canary answers", p.Status().Reason)
		results := p.Samples(webEU)[0].Results
		require.Equal(t, ReasonCanary, results[len(results)-1].Reason, "it says nothing about the endpoint")
		require.Equal(t, health.Vote{Side: health.Unknown, Reason: "blind", Since: p.Votes()[webEU].Since}, p.Votes()[webEU])

		net.cut.Store(false)
		w.set(w.hung, false, "192.0.2.10", "192.0.2.20")
		time.Sleep(20 * time.Second)
		require.False(t, p.Status().Blind)
		require.Equal(t, "unknown up:ok unknown:blind up:ok", eu.sides())
		require.Equal(t, "unknown up:ok unknown:blind up:ok", us.sides())
	})
}

// What a node saw before it was blind does not come back when it sees again: it has to
// be seen anew.
func TestG9SightBringsNoOldSideBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := newWorld(), &line{}
		p := launch(t, Config{Canaries: canaries, WrapDial: net.wrap}, w, usEU()...)
		h := watch(t, p, webEU)
		time.Sleep(30 * time.Second)
		net.cut.Store(true)
		w.set(w.down, true, "192.0.2.10", "192.0.2.20")
		time.Sleep(12 * time.Second) // within stale_after
		require.True(t, p.Status().Blind)
		net.cut.Store(false)
		w.set(w.down, false, "192.0.2.20")
		time.Sleep(time.Minute)
		require.Equal(t, "unknown up:ok unknown:blind down:refused", h.sides(), "it went down while nobody saw it")
	})
}

// A short loss of this node's network must not turn into down votes in the moment it is
// over: that somebody can be reached now says nothing about results from before.
func TestG9TheEndOfABlipTurnsNothingDown(t *testing.T) {
	slow := func(in TargetChecks) TargetChecks {
		in.All = append([]Check(nil), in.All...)
		in.All[0].Interval, in.All[0].Recheck = time.Minute, 10*time.Second // does not fail in time to show that all is lost
		return in
	}
	tests := []struct {
		name     string
		cfg      Config
		first    Check
		blip     time.Duration
		peersToo bool // they come back with the network, not later
	}{
		{"peers are back first", Config{}, tcpCheck("c", 80), 25 * time.Second, true},
		{"another cluster answers first", Config{}, tcpCheck("c", 80), 25 * time.Second, false},
		{"a run is under way when it is over", Config{}, Check{
			Name: "c", Interval: time.Second, Timeout: 900 * time.Millisecond, Fall: 1, Rise: 2, Recheck: 100 * time.Millisecond, TCP: &TCPCheck{Port: 80},
		}, 25 * time.Second, true},
		{"the canaries answer again", Config{Canaries: canaries}, Check{
			Name: "c", Interval: time.Second, Timeout: 100 * time.Millisecond, Fall: 3, Rise: 2, Recheck: 100 * time.Millisecond, TCP: &TCPCheck{Port: 80},
		}, 1300 * time.Millisecond, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for offset := range 10 {
				synctest.Test(t, func(t *testing.T) {
					w, net := newWorld(), &line{}
					var away atomic.Bool
					tt.cfg.WrapDial = net.wrap
					tt.cfg.PeersReachable = func() bool { return !away.Load() }
					in := usEU()
					in[0].All = []Check{tt.first}
					in[1] = slow(in[1])
					p := launch(t, tt.cfg, w, in...)
					h := watch(t, p, webEU)
					time.Sleep(3*time.Minute + time.Duration(offset)*770*time.Millisecond)
					net.cut.Store(true)
					away.Store(true)
					w.set(w.hung, true, "192.0.2.10", "192.0.2.20")
					time.Sleep(tt.blip)
					net.cut.Store(false)
					w.set(w.hung, false, "192.0.2.10", "192.0.2.20")
					if !tt.peersToo {
						time.Sleep(time.Minute)
					}
					away.Store(false)
					time.Sleep(time.Minute)
					require.NotContains(t, h.sides(), "down")
					w.set(w.down, true, "192.0.2.10")
					time.Sleep(30 * time.Second)
					require.Equal(t, health.Down, p.Votes()[webEU].Side, "what is lost is still seen")
				})
			}
		})
	}
}

// Bad results from before a gap and from after it are no run.
func TestARunDoesNotReachOverAGap(t *testing.T) {
	h := hysteresis{fall: 3, rise: 2}
	h.add(true, ReasonOK, time.Now())
	h.turn(h.add(true, ReasonOK, time.Now()))
	require.Equal(t, health.Up, h.side)
	require.Equal(t, health.Unknown, h.add(false, ReasonTimeout, time.Now()))
	require.Equal(t, health.Unknown, h.add(false, ReasonTimeout, time.Now()))
	h.doubt(ReasonStalled)
	require.Equal(t, health.Unknown, h.add(false, ReasonTimeout, time.Now()), "the first after the gap")
	require.Equal(t, health.Unknown, h.add(false, ReasonTimeout, time.Now()))
	require.Equal(t, health.Down, h.add(false, ReasonTimeout, time.Now()))
}

// An answer proves that this node could see when it asked, not when the answer came.
func TestACanaryProvesTheMomentItWasAsked(t *testing.T) {
	var w canaryWatch
	asked := time.Now()
	w.begin(asked)
	w.end(true, asked.Add(canaryTimeout))
	require.Equal(t, asked, w.proven)
	w.begin(asked.Add(time.Minute))
	w.end(false, asked.Add(time.Minute+canaryTimeout))
	require.Equal(t, asked, w.proven, "a round without an answer proves nothing")
}

// However fast a check fails and however the moments fall, the network of the
// node is looked at before a vote turns down.
func TestG9BlindObserverNeverVotesDownWhateverTheMoment(t *testing.T) {
	for offset := range 20 {
		synctest.Test(t, func(t *testing.T) {
			w, net := newWorld(), &line{}
			in := usEU()
			in[0].All[0].Fall, in[0].All[0].Interval, in[0].All[0].Recheck = 1, time.Second, 100*time.Millisecond
			p := launch(t, Config{Canaries: canaries, WrapDial: net.wrap}, w, in...)
			h := watch(t, p, webEU)
			time.Sleep(30*time.Second + time.Duration(offset)*270*time.Millisecond)
			net.cut.Store(true)
			w.set(w.down, true, "192.0.2.10", "192.0.2.20")
			time.Sleep(30 * time.Second)
			require.Equal(t, "unknown up:ok unknown:blind", h.sides())
		})
	}
}

func TestADownVoteWaitsForTheCanaryAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := newWorld(), &line{}
		net.slow.Store(int64(30 * time.Millisecond))
		p := launch(t, Config{Canaries: canaries, WrapDial: net.wrap}, w, usEU()...)
		h := watch(t, p, webEU)
		time.Sleep(35 * time.Second)
		good := w.startsOf("192.0.2.10")
		w.set(w.down, true, "192.0.2.10")
		time.Sleep(30 * time.Second)
		v, at := h.last()
		require.Equal(t, health.Down, v.Side)
		require.Equal(t, 14*time.Second, at.Sub(good[len(good)-1]), "asked at the first bad result, so it costs nothing")
	})
}

func TestOneLostCanaryRoundBlindsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := newWorld(), &line{}
		p := launch(t, Config{Canaries: canaries, WrapDial: net.wrap}, w, usEU()...)
		h := watch(t, p, webEU)
		time.Sleep(29*time.Second + 900*time.Millisecond)
		net.cut.Store(true)
		time.Sleep(1200 * time.Millisecond) // one round, and not the one after it
		net.cut.Store(false)
		time.Sleep(30 * time.Second)
		require.Equal(t, "unknown up:ok", h.sides())
	})
}

func TestCanariesAreNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, net := newWorld(), &line{}
		in := many(500)
		for _, tc := range in {
			w.set(w.down, true, tc.Target.Endpoint.String())
		}
		launch(t, Config{Canaries: canaries[:1], WrapDial: net.wrap, MaxConcurrency: 1000}, w, in...)
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, net.asks.Load(), int64(101))
	})
}

func TestG9EverythingAndEveryPeerFailingIsBlindness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var peers atomic.Bool
		peers.Store(true)
		p := launch(t, Config{PeersReachable: peers.Load}, w, usEU()...)
		eu, us := watch(t, p, webEU), watch(t, p, usEU()[1].Target)
		time.Sleep(30 * time.Second)
		peers.Store(false)
		w.set(w.hung, true, "192.0.2.10", "192.0.2.20")
		time.Sleep(2 * time.Minute)
		require.True(t, p.Status().Blind)
		require.Equal(t, "unknown up:ok unknown:blind", eu.sides())
		require.Equal(t, "unknown up:ok unknown:blind", us.sides())

		peers.Store(true) // the peers are back, the clusters are not: they are down
		time.Sleep(time.Minute)
		require.Equal(t, "unknown up:ok unknown:blind down:timeout", eu.sides())
	})
}

func TestALostPeerLinkAloneBlindsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := launch(t, Config{PeersReachable: func() bool { return false }}, w, usEU()...)
		eu, us := watch(t, p, webEU), watch(t, p, usEU()[1].Target)
		time.Sleep(30 * time.Second)
		w.set(w.hung, true, "192.0.2.10")
		time.Sleep(time.Minute)
		require.Equal(t, "unknown up:ok down:timeout", eu.sides(), "us answers, so it is eu that is down")
		require.Equal(t, "unknown up:ok", us.sides())
	})
}

func TestAllTargetsDownWithPeersAroundIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := launch(t, Config{PeersReachable: func() bool { return true }}, w, usEU()...)
		eu, us := watch(t, p, webEU), watch(t, p, usEU()[1].Target)
		time.Sleep(30 * time.Second)
		w.set(w.hung, true, "192.0.2.10", "192.0.2.20")
		time.Sleep(time.Minute)
		require.Equal(t, "unknown up:ok down:timeout", eu.sides())
		require.Equal(t, "unknown up:ok down:timeout", us.sides())
	})
}

func TestAFaultOfThisNodeIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		p := New(Config{})
		p.bootTime = func() time.Duration { return 0 }
		p.measure = func(context.Context, Probe, checker) outcome {
			if sick.Load() {
				return outcome{Result: Result{Reason: ReasonOther}, unmeasured: true}
			}
			return outcome{Result: Result{OK: true, Reason: ReasonOK}, reached: true}
		}
		p.SetPlan(BuildPlan([]TargetChecks{webInput()}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		defer func() { cancel(); <-done }()
		h := watch(t, p, webEU)
		time.Sleep(20 * time.Second)
		sick.Store(true)
		time.Sleep(2 * time.Minute)
		require.Equal(t, "unknown up:ok unknown:other", h.sides())
	})
}

// What a probe saw before it could not be made for long says nothing about now: the
// first result after it must not bring an old side back, least of all a good one an
// old down.
func TestAnOldSideDoesNotComeBackWithTheFirstResult(t *testing.T) {
	tests := []struct {
		name   string
		before bool // well, before this node could not probe
		after  bool // well, since it can again
		want   string
	}{
		{"it went down and came back meanwhile", false, true, "unknown down:refused unknown:other unknown:stale up:ok"},
		{"it went down meanwhile", true, false, "unknown up:ok unknown:other unknown:stale down:refused"},
		{"it is as it was", true, true, "unknown up:ok unknown:other up:ok"},
		{"it is still down", false, false, "unknown down:refused unknown:other down:refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sick, well atomic.Bool
				well.Store(tt.before)
				p := New(Config{})
				p.bootTime = func() time.Duration { return 0 }
				p.measure = func(context.Context, Probe, checker) outcome {
					switch {
					case sick.Load():
						return outcome{Result: Result{Reason: ReasonOther}, unmeasured: true}
					case well.Load():
						return outcome{Result: Result{OK: true, Reason: ReasonOK}, reached: true}
					}
					return outcome{Result: Result{Reason: ReasonRefused}, reached: true}
				}
				p.SetPlan(BuildPlan([]TargetChecks{webInput()}))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); _ = p.Run(ctx) }()
				defer func() { cancel(); <-done }()
				h := watch(t, p, webEU)
				time.Sleep(30 * time.Second)
				sick.Store(true)
				time.Sleep(2 * time.Minute)
				well.Store(tt.after)
				sick.Store(false)
				time.Sleep(time.Minute)
				require.Equal(t, tt.want, h.sides())
			})
		})
	}
}

// Without the line nobody learns why a cluster on private addresses is unknown.
func TestAnAddressThatIsDeniedIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		p.bootTime = func() time.Duration { return 0 }
		p.measure = func(context.Context, Probe, checker) outcome {
			return outcome{Result: Result{Reason: ReasonDenied, Detail: "not listed in observer.allow"}, unmeasured: true}
		}
		p.SetPlan(BuildPlan([]TargetChecks{webInput()}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		h := watch(t, p, webEU)
		time.Sleep(time.Minute)
		cancel()
		<-done
		require.Equal(t, "unknown unknown:denied", h.sides())
		require.Equal(t, 1, strings.Count(log.String(), "observer.allow"), log.String())
	})
}

func TestACanaryAnswersDNSOrTCP(t *testing.T) {
	dial := NewDialer(nil, Source{})
	t.Run("a refusal over UDP is an answer", func(t *testing.T) {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer conn.Close()
		go func() {
			buf := make([]byte, 512)
			n, from, err := conn.ReadFrom(buf)
			if err != nil || n != 17 {
				return
			}
			_, _ = conn.WriteTo([]byte("not it"), from)
			buf[2], buf[3] = 0x80, 5
			_, _ = conn.WriteTo(buf[:12], from)
		}()
		ok := askDNS(t.Context(), dial, conn.LocalAddr().String())
		require.True(t, ok)
	})
	t.Run("an open TCP port is an answer", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		require.True(t, askCanaries(t.Context(), dial, []netip.AddrPort{netip.MustParseAddrPort(ln.Addr().String())}))
	})
	t.Run("silence is none", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := netip.MustParseAddrPort(ln.Addr().String())
		require.NoError(t, ln.Close())
		require.False(t, askCanaries(t.Context(), dial, []netip.AddrPort{addr}))
	})
}
