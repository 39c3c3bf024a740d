package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
)

// Methods by which nodes renew certificates and roll the CA.
const (
	methodRenew   = "cert.renew"   // sign a certificate for the caller
	methodRenewed = "cert.now"     // renew your certificate now
	methodTrust   = "ca.trusted"   // answer once you trust this CA
	methodCA      = "ca.authority" // a CA key, for voters
)

type (
	renewRequest struct {
		CSR string `json:"csr"`
		CA  string `json:"ca"` // fingerprint of the CA that must sign; empty: the newest
	}
	renewReply struct {
		Certificate string `json:"certificate"`
		Bundle      string `json:"bundle"`
	}
	trustRequest struct {
		CA string `json:"ca"`
	}
	authorityRequest struct {
		Certificate string `json:"certificate"`
		Key         string `json:"key"`
	}
	done struct{}
)

// certificateCheck is how often a node looks whether its certificate is due. One
// that is due has a third of its life left, so an hour is soon enough to try again.
const certificateCheck = time.Hour

// keepCertificates follows the trusted CAs of the state and renews this node's
// certificate at two thirds of its life. One that somebody else makes (peer.tls)
// is theirs to renew.
func (n *Node) keepCertificates(ctx context.Context) error {
	check := time.NewTicker(certificateCheck)
	defer check.Stop()
	members, look := 0, true
	for {
		changed := n.view.Changed()
		n.followTrust()
		if now := len(n.view.State().Members); now != members {
			members = now
			n.mesh.Recheck() // a removed node's open links end now
		}
		if look && n.cfg.Peer.TLS == nil && n.mesh.RenewDue(time.Now()) {
			if err := n.renew(ctx, ""); err != nil && ctx.Err() == nil {
				n.log.Warn("certificate is due and was not renewed; the old one stays in use", keyErr, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			look = false
		case <-check.C:
			look = true
		}
	}
}

// watchCertificates makes the certificate files that node.yaml names followed.
func (n *Node) watchCertificates() {
	if t := n.cfg.Peer.TLS; t != nil {
		n.files.watch(newWatchedFiles("peer.tls", n.mesh.Reload, t.CA, t.Cert, t.Key))
	}
	if t := n.cfg.API.TLS; t != nil {
		n.files.watch(newWatchedFiles("api.tls", func() error { return n.api.readCertificate(t) }, t.Cert, t.Key))
	}
}

// followTrust makes the state's CAs the trusted ones. Certificates that somebody
// else makes (peer.tls) bring their own.
func (n *Node) followTrust() {
	if n.cfg.Peer.TLS != nil {
		return
	}
	st := n.view.State()
	var want []string
	for _, ca := range st.Trust {
		want = append(want, ca.PEM)
	}
	if len(want) == 0 || slices.Equal(want, n.mesh.Trust()) {
		return
	}
	if err := n.mesh.SetTrust(want); err != nil {
		n.log.Warn("trusted CAs of the installation not taken over yet", keyErr, err)
	}
}

// renew gets this node a new certificate, signed here or by a voter that can.
func (n *Node) renew(ctx context.Context, ca string) error {
	csr, err := n.mesh.NewCSR()
	if err != nil {
		return err
	}
	req := renewRequest{CSR: csr, CA: ca}
	reply, err := n.sign(n.cfg.Name, req)
	if err != nil {
		reply, err = n.renewElsewhere(ctx, req)
	}
	if err != nil {
		return err
	}
	if err := n.mesh.InstallCertificate(reply.Certificate, reply.Bundle); err != nil {
		return err
	}
	n.log.Info("certificate renewed", keyCA, short(n.mesh.Issuer()))
	return nil
}

func (n *Node) renewElsewhere(ctx context.Context, req renewRequest) (renewReply, error) {
	errs := []error{errors.New("no other voter is known")}
	for _, s := range n.raft.Servers() {
		if !s.Voter || s.Name == n.cfg.Name {
			continue
		}
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		var reply renewReply
		err := n.ask(callCtx, s.Name, methodRenew, req, &reply)
		cancel()
		if err == nil {
			return reply, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
	}
	return renewReply{}, fmt.Errorf("renew certificate: %w", errors.Join(errs...))
}

// sign signs a certificate for a member, in the role the state gives it.
func (n *Node) sign(name string, req renewRequest) (renewReply, error) {
	m := n.view.State().Members[name]
	if m == nil {
		return renewReply{}, fmt.Errorf("%q is no member", name)
	}
	authority, err := n.mesh.Authority(req.CA)
	if err != nil {
		return renewReply{}, err
	}
	id := mesh.Identity{Installation: n.mesh.Identity().Installation, Name: name, Role: string(m.Role)}
	cert, err := authority.SignCSR(req.CSR, id, time.Now())
	if err != nil {
		return renewReply{}, err
	}
	return renewReply{Certificate: cert, Bundle: strings.Join(n.mesh.Trust(), "")}, nil
}

func (n *Node) takeRenewal(_ context.Context, from string, body []byte) ([]byte, error) {
	return answerCall(body, func(r renewRequest) (renewReply, error) { return n.sign(from, r) })
}

// takeRenewNow renews this node's certificate because a peer rolls the CA.
func (n *Node) takeRenewNow(ctx context.Context, _ string, body []byte) ([]byte, error) {
	return answerCall(body, func(r trustRequest) (done, error) { return done{}, n.renew(ctx, r.CA) })
}

// takeTrust answers once this node trusts the CA.
func (n *Node) takeTrust(ctx context.Context, _ string, body []byte) ([]byte, error) {
	return answerCall(body, func(r trustRequest) (done, error) {
		for {
			for _, pem := range n.mesh.Trust() {
				if ca, err := trustedCA(pem); err == nil && ca.Fingerprint == r.CA {
					return done{}, nil
				}
			}
			select {
			case <-ctx.Done():
				return done{}, fmt.Errorf("CA %s is not trusted here yet", short(r.CA))
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

// takeAuthority takes over a CA key that another voter hands out. The mesh refuses
// it on a nonvoter; that the CA is one of the installation's is checked here.
func (n *Node) takeAuthority(_ context.Context, from string, body []byte) ([]byte, error) {
	return answerCall(body, func(r authorityRequest) (done, error) {
		if m := n.view.State().Members[from]; m == nil || m.Role != statestore.Voter {
			return done{}, fmt.Errorf("%q is no voter and hands out no CA key", from)
		}
		a, err := mesh.ParseAuthority(r.Certificate, r.Key)
		if err != nil {
			return done{}, err
		}
		if !slices.ContainsFunc(n.view.State().Trust, func(ca statestore.TrustedCA) bool { return ca.Fingerprint == a.Fingerprint() }) {
			return done{}, fmt.Errorf("CA %s is none of this installation", short(a.Fingerprint()))
		}
		return done{}, n.mesh.InstallAuthority(a)
	})
}

// rollCA replaces the mesh CA: everybody trusts the new one, every voter gets its
// key, every member a certificate of it, and only then is the old one retired. A
// member that does not answer stops it; what was done stays, and rolling again
// goes on from there with yet another CA.
func (n *Node) rollCA(ctx context.Context, o api.Origin) error {
	if n.mesh.Identity().Role != mesh.RoleVoter {
		return fmt.Errorf("roll CA: %s is no voter and holds no CA key; ask a voter", n.cfg.Name)
	}
	if n.cfg.Peer.TLS != nil {
		return errors.New("roll CA: node.yaml names peer.tls files; the CA is yours to roll")
	}
	authority, err := mesh.NewAuthority(n.mesh.Identity().Installation, time.Now())
	if err != nil {
		return err
	}
	key, err := authority.KeyPEM()
	if err != nil {
		return err
	}
	ca, err := trustedCA(authority.CertificatePEM())
	if err != nil {
		return err
	}
	if err := n.commit(ctx, statestore.TrustCA{CA: ca}, o, "trust"); err != nil {
		return err
	}
	members := n.view.State().Members
	trust := trustRequest{CA: ca.Fingerprint}
	if err := n.askMembers(ctx, members, methodTrust, trust); err != nil {
		return fmt.Errorf("roll CA: not every member trusts the new CA; roll again when they answer, or remove them: %w", err)
	}
	voters := map[string]*statestore.Member{}
	for name, m := range members {
		if m.Role == statestore.Voter {
			voters[name] = m
		}
	}
	if err := n.askMembers(ctx, voters, methodCA, authorityRequest{authority.CertificatePEM(), key}); err != nil {
		return fmt.Errorf("roll CA: not every voter holds the new key; roll again when they answer: %w", err)
	}
	if err := n.askMembers(ctx, members, methodRenewed, trust); err != nil {
		return fmt.Errorf("roll CA: not every member has a new certificate; roll again when they answer: %w", err)
	}
	return n.retireOldCAs(ctx, ca.Fingerprint, o)
}

// retireOldCAs waits until every member's record names the new CA, and retires the rest.
func (n *Node) retireOldCAs(ctx context.Context, current string, o api.Origin) error {
	for {
		changed := n.view.Changed()
		st := n.view.State()
		var behind []string
		for name, m := range st.Members {
			if m.CA != current {
				behind = append(behind, name)
			}
		}
		if len(behind) == 0 {
			break
		}
		slices.Sort(behind)
		select {
		case <-ctx.Done():
			return fmt.Errorf("roll CA: %s did not show a certificate of the new CA in time; the old CA stays trusted, roll again", strings.Join(behind, ", "))
		case <-changed:
		}
	}
	for _, ca := range n.view.State().Trust {
		if ca.Fingerprint == current {
			continue
		}
		if err := n.commit(ctx, statestore.RetireCA{Fingerprint: ca.Fingerprint}, o, "retire-"+ca.Fingerprint); err != nil {
			return err
		}
	}
	return nil
}

// askMembers asks every member, this node included, and returns all their errors.
func (n *Node) askMembers(ctx context.Context, members map[string]*statestore.Member, method string, req any) error {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		var reply done
		if err := n.ask(callCtx, name, method, req, &reply); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// commit proposes one step of a longer act under a request id of its own.
func (n *Node) commit(ctx context.Context, cmd statestore.Command, o api.Origin, step string) error {
	origin := consensus.Origin{Actor: o.Actor, Issued: o.Issued}
	if o.Request != "" {
		origin.Request = o.Request + "/" + step
	}
	res, err := n.raft.Propose(ctx, cmd, origin)
	if err != nil {
		return err
	}
	return res.Err
}

// trustedCA is a CA certificate as the state keeps it.
func trustedCA(pem string) (statestore.TrustedCA, error) {
	fp, err := mesh.CAFingerprintOf(pem)
	return statestore.TrustedCA{Fingerprint: fp, PEM: pem}, err
}

// short is a fingerprint for people.
func short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }
