package probe

import "time"

// isBlind reports whether this node's failures say nothing about the endpoints.
func (l *loop) isBlind() bool { return l.canary.blind() || !l.isolated.IsZero() }

// updateBlind makes votes follow when blindness begins or ends.
func (l *loop) updateBlind(now time.Time) {
	blind := l.isBlind()
	if blind == l.blind {
		return
	}
	l.blind = blind
	if blind {
		l.p.log.Warn("observer is blind; its votes are unknown", keyReason, l.whyBlind())
		clear(l.held)
		l.recomputeAll(now)
		return
	}
	l.p.log.Info("observer sees again")
	l.doubt(ReasonBlind, now)
}

// whyBlind says for people why the node is blind.
func (l *loop) whyBlind() string {
	if l.canary.blind() {
		return "no canary answers"
	}
	return "every target of every other cluster and every peer failed"
}

// believes reports whether the bad results of s may be held against its endpoint:
// the canaries have answered since they began and, when no peer can be heard,
// some host of another cluster has. It may find that this node is cut off.
func (l *loop) believes(s *probeState) bool {
	since := s.h.runSince
	if len(l.p.cfg.Canaries) > 0 && l.canary.proven.Before(since) {
		return false
	}
	if l.peersReachable() {
		return !l.away // else they are just back, and the run is to begin anew
	}
	unrelated, silent := 0, 0
	for _, c := range l.clusters {
		if _, own := c.probes[s]; own {
			continue
		}
		unrelated++
		if !c.alive.Before(since) {
			return true
		}
		if c.failing() {
			silent++
		}
	}
	if unrelated == 0 {
		return true // there is nothing to compare with
	}
	if silent == unrelated {
		l.isolated = since
	}
	return false
}

func (l *loop) peersReachable() bool {
	return l.p.cfg.PeersReachable == nil || l.p.cfg.PeersReachable()
}

// noteReach remembers whether a run of s reached anybody; if it did, the network
// is not lost.
func (l *loop) noteReach(s *probeState, reached bool, now time.Time) {
	s.failing = !reached
	if !reached {
		return
	}
	for _, t := range s.targets {
		t.cluster.alive = now
	}
	l.isolated = time.Time{}
}

// heedPeers notes whether any peer can be heard. Where there are no canaries, that
// one can again ends what may have been a loss of this node's network.
func (l *loop) heedPeers() {
	reachable := l.peersReachable()
	if reachable && l.away && len(l.p.cfg.Canaries) == 0 {
		l.beginAnew()
	}
	l.away = !reachable && len(l.p.cfg.Canaries) == 0
}

// beginAnew forgets the runs of bad results, those under way included: the network of
// this node may have been lost while they came. When it is back everybody answers at
// once, which says nothing about the endpoints in the time before. Sides stay.
func (l *loop) beginAnew() {
	l.epoch++
	clear(l.held)
	for _, s := range l.probes {
		if !s.h.runOK {
			s.h.run = 0
		}
	}
}

// checkIsolation ends isolation once a peer is heard again.
func (l *loop) checkIsolation() {
	if !l.isolated.IsZero() && l.peersReachable() {
		l.isolated = time.Time{}
	}
}
