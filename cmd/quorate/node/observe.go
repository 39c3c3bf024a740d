package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// methodReport carries an observer's votes and heartbeats to the leader.
const methodReport = "observer.report"

// openObserver makes the prober and its reporter, unless this node does not observe.
func (n *Node) openObserver() error {
	o := n.cfg.Observer
	if !o.Enabled {
		return nil
	}
	canaries := make([]netip.AddrPort, 0, len(o.Canaries))
	for _, c := range o.Canaries {
		addr, err := netip.ParseAddrPort(c)
		if err != nil {
			return fmt.Errorf("observer.canaries: must be IP:PORT, is %q", c)
		}
		canaries = append(canaries, addr)
	}
	n.prober = probe.New(probe.Config{
		Node:           n.cfg.Name,
		Version:        n.opts.Version,
		MaxConcurrency: o.MaxConcurrency,
		Policy:         probe.AddressPolicy{Allow: o.Allow, Deny: n.ownAddrs()},
		Source:         probe.Source{IPv4: o.SourceIPv4, IPv6: o.SourceIPv6},
		Canaries:       canaries,
		PeersReachable: n.peersReachable,
		Resolvers:      o.Resolvers,
		Secret:         n.secret,
		WrapDial:       n.opts.WrapProbe,
		Log:            n.log,
		Registerer:     n.registry,
	})
	n.reporter = probe.NewReporter(probe.ReporterConfig{
		Votes:         n.prober,
		Sink:          leaderSink{n},
		Version:       n.opts.Version,
		TableIndex:    n.tableIndex,
		LeaderChanged: n.raft.LeaderChanged,
		Held:          n.voteHeld,
		Timeout:       n.profile.ObserverLease() / 3, // so that one hanging report silences nobody
		Log:           n.log,
	})
	return nil
}

// ownAddrs are this node's own listeners: a probe must never reach them. A
// wildcard stands for every address of this host.
func (n *Node) ownAddrs() []netip.AddrPort {
	listeners := n.dns.Addrs()
	for _, addr := range []string{n.peers.Addr().String(), n.cfg.API.Listen, n.cfg.API.MetricsListen} {
		if a, err := netip.ParseAddrPort(addr); err == nil && a.Port() != 0 { // port 0 stands for any
			listeners = append(listeners, a)
		}
	}
	var host []netip.Addr
	if ifaces, err := net.InterfaceAddrs(); err == nil {
		for _, a := range ifaces {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				host = append(host, p.Addr())
			}
		}
	}
	own := listeners
	for _, l := range listeners {
		if !l.Addr().IsUnspecified() {
			continue
		}
		for _, a := range host {
			own = append(own, netip.AddrPortFrom(a, l.Port()))
		}
	}
	return own
}

// peersReachable reports whether any other member was heard lately. A node alone
// in its installation has nobody to miss.
func (n *Node) peersReachable() bool {
	others := 0
	for _, s := range n.raft.Servers() {
		if s.Name == n.cfg.Name {
			continue
		}
		if s.Reachable {
			return true
		}
		others++
	}
	return others == 0
}

func (n *Node) tableIndex() uint64 {
	if t := n.tables.table.Load(); t != nil {
		return t.Index
	}
	return 0
}

// voteHeld reports whether the state has this node's vote on a target, or nobody's.
func (n *Node) voteHeld(t health.Target) bool {
	ts, ok := n.view.State().Target(t)
	if !ok {
		return true
	}
	_, held := ts.Votes[health.ObserverID(n.cfg.Name)]
	return held
}

// keepPlan gives the prober the plan of each new revision.
func (n *Node) keepPlan(ctx context.Context) error {
	var planned *statestore.Spec
	for {
		changed := n.view.Changed()
		if st := n.view.State(); st.Spec != planned {
			planned = st.Spec
			n.prober.SetPlan(probePlan(planned))
			n.reporter.Recheck()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// leaderSink takes reports to the leader, whoever that is.
type leaderSink struct{ n *Node }

// Report sends r to the leader.
func (s leaderSink) Report(ctx context.Context, r probe.Report) (probe.Ack, error) {
	reply, err := controller.Exchange(ctx, controller.Report(r), func(ctx context.Context, r controller.Report) (controller.Reply, error) {
		var reply controller.Reply
		err := s.n.askLeader(ctx, methodReport, r, &reply)
		return reply, err
	})
	return probe.Ack{Nonce: reply.Nonce, NeedFull: reply.NeedFull, Seq: reply.Seq}, err
}

// takeReport is the leader's side of leaderSink.
func (n *Node) takeReport(ctx context.Context, from string, body []byte) ([]byte, error) {
	return answerCall(body, func(r controller.Report) (controller.Reply, error) {
		return n.control.Report(ctx, from, r)
	})
}

// askLeader calls a method of the leader with JSON bodies.
func (n *Node) askLeader(ctx context.Context, method string, req, resp any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	reply, err := n.raft.CallLeader(ctx, method, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply, resp)
}

// ask calls a method of a named node with JSON bodies.
func (n *Node) ask(ctx context.Context, node, method string, req, resp any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	reply, err := n.raft.Call(ctx, node, method, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply, resp)
}

// answerCall decodes a request, hands it to f and encodes what f returns.
func answerCall[Req, Resp any](body []byte, f func(Req) (Resp, error)) ([]byte, error) {
	var req Req
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	resp, err := f(req)
	if err != nil {
		return nil, err
	}
	return json.Marshal(resp)
}

// callTimeout bounds one small request between nodes.
const callTimeout = 5 * time.Second
