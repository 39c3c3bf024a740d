package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
)

// Join trades a join token at addr for this node's identity, in the data
// directory that node.yaml names. The node then runs as `quorate server`.
func Join(ctx context.Context, cfg *config.Node, version, addr, token string) (mesh.JoinResponse, error) {
	dir, err := openDataDir(cfg.DataDir)
	if err != nil {
		return mesh.JoinResponse{}, err
	}
	defer dir.close()
	return join(ctx, dir, cfg, version, addr, token)
}

func join(ctx context.Context, dir *dataDir, cfg *config.Node, version, addr, token string) (mesh.JoinResponse, error) {
	asked := (&Node{cfg: cfg, opts: Options{Version: version}}).joiningMember()
	joiner := mesh.Joiner{
		Dir: dir.join(meshFolder),
		Keep: func(r mesh.JoinResponse) error {
			book := map[string]string{}
			for _, p := range r.Peers {
				book[p.Name] = p.Addr
			}
			if err := writeJSON(dir.join(peersFile), book); err != nil {
				return err
			}
			return writeJSON(dir.join(identityFile), identity{Name: cfg.Name, Nonce: r.Nonce})
		},
	}
	req := mesh.JoinRequest{Member: asked}
	resp, err := joiner.Join(ctx, addr, token, req)
	if errors.Is(err, mesh.ErrHasIdentity) {
		return rejoin(ctx, dir, joiner, addr, token, req)
	}
	return resp, err
}

// joiningMember is what a node without an identity says of itself.
func (n *Node) joiningMember() statestore.Member {
	m := statestore.Member{
		Name: n.cfg.Name, Region: n.cfg.Region, Role: statestore.Nonvoter, Labels: n.cfg.Labels,
		Peer: n.cfg.Peer.Advertise, API: n.cfg.API.ExternalURL,
		DNS:     statestore.Advertise(n.cfg.DNS.Advertise),
		Version: n.opts.Version, Supports: statestore.SupportedLevel, Observes: n.cfg.Observer.Enabled,
	}
	if n.cfg.Voter {
		m.Role = statestore.Voter
	}
	return m
}

// joinByFile joins at the first start with the token file that node.yaml names,
// through any of peer.join.
func (n *Node) joinByFile(string) error {
	token, err := os.ReadFile(n.cfg.Peer.JoinTokenFile)
	if err != nil {
		return fmt.Errorf("read peer.join_token_file: %w", err)
	}
	if len(n.cfg.Peer.Join) == 0 {
		return errors.New("peer.join_token_file is set, but peer.join names no node to join by")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, addr := range n.cfg.Peer.Join {
		if _, err := join(ctx, n.dir, n.cfg, n.opts.Version, addr, strings.TrimSpace(string(token))); err != nil {
			errs = append(errs, err)
			continue
		}
		n.id, err = n.dir.loadIdentity(n.cfg.Name)
		return err
	}
	return errors.Join(errs...)
}

// admit lets a node in that holds a valid join token: it becomes a member, gets a
// certificate, and joins Raft; a voter does so once it has caught up.
func (n *Node) admit(ctx context.Context, req mesh.JoinRequest) (mesh.JoinResponse, error) {
	var none mesh.JoinResponse
	st := n.view.State()
	authority, err := n.signingAuthority(st)
	if err != nil {
		return none, fmt.Errorf("%s cannot sign certificates (%w); join through a voter", n.cfg.Name, err)
	}
	token := st.JoinTokens[req.Token]
	m, again := n.admitted.repeated(req, st.Members)
	switch {
	case again:
	case token == nil || token.Hash != req.TokenHash():
		return none, errors.New("the join token is not known or was used; make another with \"quorate members token\"")
	default:
		m = req.Member
		m.Nonce, m.CA = newNonce(), authority.Fingerprint()
	}
	id := mesh.Identity{Installation: st.Installation, Name: m.Name, Role: string(m.Role)}
	if err := id.Validate(); err != nil {
		return none, err
	}
	cert, err := authority.SignCSR(req.CSR, id, time.Now())
	if err != nil {
		return none, err
	}
	if !again {
		n.admitted.keep(req, m) // before the outcome is known: a timeout may have committed
		res, err := n.propose(ctx, statestore.UseJoinToken{ID: req.Token, Member: m})
		if err != nil {
			return none, fmt.Errorf("the installation has no quorum now, try again: %w", err)
		}
		if res.Err != nil {
			return none, res.Err
		}
	}
	if m.Role == statestore.Voter {
		err = n.raft.AddVoter(ctx, m.Name, m.Nonce)
	} else {
		err = n.raft.AddNonvoter(ctx, m.Name, m.Nonce)
	}
	if err != nil {
		return none, fmt.Errorf("%s is a member now, but Raft did not take it in: %w; join again with the same token", m.Name, err)
	}
	resp := mesh.JoinResponse{
		Installation: st.Installation, Nonce: m.Nonce,
		Bundle: strings.Join(n.mesh.Trust(), ""), Certificate: cert,
	}
	if m.Role == statestore.Voter {
		resp.CA = authority.CertificatePEM()
		if resp.CAKey, err = authority.KeyPEM(); err != nil {
			return none, err
		}
	}
	for _, peer := range n.view.State().Members {
		if peer.Name != m.Name {
			resp.Peers = append(resp.Peers, mesh.JoinPeer{Name: peer.Name, Addr: peer.Peer})
		}
	}
	n.log.Info("node joined", keyJoined, m.Name, keyRole, m.Role, keyRegion, m.Region)
	return resp, nil
}

// signingAuthority is the installation's newest CA whose key this node holds. A
// roll that stopped midway leaves a newer one that nobody holds yet.
func (n *Node) signingAuthority(st *statestore.State) (*mesh.Authority, error) {
	for i := len(st.Trust) - 1; i >= 0; i-- {
		if a, err := n.mesh.Authority(st.Trust[i].Fingerprint); err == nil {
			return a, nil
		}
	}
	return nil, mesh.ErrNoAuthority
}

// errNotInitialized is so for a moment after the first node's first start.
var errNotInitialized = errors.New("the installation is not initialized yet, try again in a moment")

// mintJoinToken makes a join token that pins the CA of this node's own certificate:
// what a joining node is shown. It is the newest one except in the midst of a roll.
func (n *Node) mintJoinToken() (api.JoinSecret, error) {
	if len(n.view.State().Trust) == 0 {
		return api.JoinSecret{}, errNotInitialized
	}
	t, err := mesh.NewJoinToken(n.mesh.Issuer())
	if err != nil {
		return api.JoinSecret{}, err
	}
	return api.JoinSecret{ID: t.ID, Token: t.Text(), Hash: t.Hash()}, nil
}
