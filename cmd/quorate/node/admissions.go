package node

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"sync"

	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
)

// maxAdmissions bounds the joins a node remembers.
const maxAdmissions = 64

// admissions are the joins this node let in lately. A join whose answer got lost
// has used its token up; asked again with that token and the same key, it gets
// the same answer instead of a node that is a member and cannot start.
type admissions struct {
	mu   sync.Mutex // guards list
	list []admission
}

type admission struct {
	token  string
	secret [32]byte // hash
	key    [32]byte // hash of the joining node's public key
	member statestore.Member
}

// keep remembers that req became member m.
func (a *admissions) keep(req mesh.JoinRequest, m statestore.Member) {
	key, ok := requestKey(req.CSR)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, admission{req.Token, req.TokenHash(), key, m})
	a.list = a.list[max(0, len(a.list)-maxAdmissions):]
}

// repeated returns the member that an equal request became, as long as it is one.
func (a *admissions) repeated(req mesh.JoinRequest, members map[string]*statestore.Member) (statestore.Member, bool) {
	key, ok := requestKey(req.CSR)
	if !ok {
		return statestore.Member{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.list, func(k admission) bool {
		m := members[k.member.Name]
		return k.token == req.Token && k.secret == req.TokenHash() && bytes.Equal(k.key[:], key[:]) &&
			k.member.Name == req.Member.Name && m != nil && m.Nonce == k.member.Nonce
	})
	if i < 0 {
		return statestore.Member{}, false
	}
	return a.list[i].member, true
}

// requestKey is the hash of the public key of a certificate request. That the
// request is signed by it is checked when the certificate is made.
func requestKey(csr string) (hash [32]byte, ok bool) {
	block, _ := pem.Decode([]byte(csr))
	if block == nil {
		return hash, false
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return hash, false
	}
	return sha256.Sum256(req.RawSubjectPublicKeyInfo), true
}
