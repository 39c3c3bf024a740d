package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// acknowledgedWait bounds asking the leader who has acknowledged: the rest of the
// answer is here already.
const acknowledgedWait = time.Second

// acknowledgedReply is what a node that leads knows of a cutover under way.
type acknowledgedReply struct {
	Leads bool     `json:"leads"`
	Nodes []string `json:"nodes"`
}

// acknowledged returns the members that have stopped answering with the source of
// a cutover under way. Only the leader knows: it keeps this in memory.
func (s *Server) acknowledged(ctx context.Context, id string) (nodes []string, ok bool) {
	if s.cfg.Acknowledged == nil {
		return nil, false
	}
	leader := s.cfg.Quorum().Leader
	if leader == s.cfg.Node || s.cfg.Call == nil || leader == "" {
		return s.cfg.Acknowledged(id)
	}
	body, err := json.Marshal(question{Acknowledged: id})
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, acknowledgedWait)
	defer cancel()
	reply, err := s.cfg.Call(ctx, leader, PeerMethod, body)
	if err != nil {
		return nil, false // it is about to change; the page that asks asks again
	}
	var r acknowledgedReply
	if json.Unmarshal(reply, &r) != nil || !r.Leads {
		return nil, false
	}
	return r.Nodes, true
}

// acknowledgedForPeer answers another node's question.
func (s *Server) acknowledgedForPeer(id string) ([]byte, error) {
	var r acknowledgedReply
	if s.cfg.Acknowledged != nil {
		r.Nodes, r.Leads = s.cfg.Acknowledged(id)
	}
	r.Nodes = orEmpty(slices.Clone(r.Nodes))
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("tell a peer who acknowledged: %w", err)
	}
	return data, nil
}
