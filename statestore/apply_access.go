package statestore

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"time"
)

func (Tick) apply(*State, entry) (record, error) { return record{}, nil }

func (c Initialize) apply(st *State, at entry) (record, error) {
	switch {
	case st.Installation != "":
		return record{}, refuse(ErrExists, "installation %s: is initialized already", st.Installation)
	case c.Installation == "":
		return record{}, refuse(ErrInvalid, "installation: must have a name")
	}
	st.Installation, st.Generation, st.FeatureLevel = c.Installation, 1, 1
	if c.CA.Fingerprint != "" {
		ca := c.CA
		ca.At = at.now
		st.Trust = []TrustedCA{ca}
	}
	st.TableIndex = at.index
	return record{
		kind: "installation.initialized", subject: "installation", text: "installation " + c.Installation + " initialized",
		detail: map[string]string{"installation": c.Installation, "ca": c.CA.Fingerprint},
	}, nil
}

func (c PutToken) apply(st *State, at entry) (record, error) {
	if _, ok := st.Tokens[c.ID]; ok {
		return record{}, refuse(ErrExists, "token %s: exists", c.ID)
	}
	if c.ID == "" || c.User == "" || c.Hash == ([32]byte{}) || c.For < 0 {
		return record{}, refuse(ErrInvalid, "token %q: must have an id, a user and a hash, and no negative life", c.ID)
	}
	if ReservedUser(c.User) {
		return record{}, refuse(ErrInvalid, "token %q: must be of a person or a program, %q is no name for one", c.ID, c.User)
	}
	tokens := maps.Clone(st.Tokens)
	maps.DeleteFunc(tokens, func(_ string, t *Token) bool { return passed(at.now, t.Expires) })
	expires := until(at.now, c.For)
	st.Tokens = with(tokens, c.ID, &Token{
		ID: c.ID, User: c.User, Groups: c.Groups, Hash: c.Hash, Minter: cmp.Or(c.Person, at.meta.Actor), Root: c.Root,
		Makers: c.Makers, At: at.now, Expires: expires, Sources: c.Sources,
	})
	return record{
		kind: "token.created", subject: "tokens/" + c.ID, text: fmt.Sprintf("token %s for %s created", c.ID, c.User),
		detail: map[string]any{"user": c.User, "groups": c.Groups, "expires": timeOrNil(expires)},
	}, nil
}

func (c RevokeToken) apply(st *State, _ entry) (record, error) {
	t, ok := st.Tokens[c.ID]
	if !ok {
		return record{}, refuse(ErrNotFound, "token %s: not found", c.ID)
	}
	st.Tokens = without(st.Tokens, c.ID)
	return record{
		kind: "token.revoked", subject: "tokens/" + c.ID, text: fmt.Sprintf("token %s of %s revoked", c.ID, t.User),
		detail: map[string]string{"user": t.User},
	}, nil
}

func (c PutJoinToken) apply(st *State, at entry) (record, error) {
	if _, ok := st.JoinTokens[c.ID]; ok {
		return record{}, refuse(ErrExists, "join token %s: exists", c.ID)
	}
	if c.ID == "" || c.Hash == ([32]byte{}) || c.For <= 0 || c.Role != Voter && c.Role != Nonvoter {
		return record{}, refuse(ErrInvalid, "join token %q: must have an id, a hash, an end and the role voter or nonvoter", c.ID)
	}
	tokens := maps.Clone(st.JoinTokens)
	maps.DeleteFunc(tokens, func(_ string, t *JoinToken) bool { return passed(at.now, t.Expires) })
	expires := until(at.now, c.For)
	st.JoinTokens = with(tokens, c.ID, &JoinToken{ID: c.ID, Hash: c.Hash, Role: c.Role, Minter: at.meta.Actor, Expires: expires})
	return record{
		kind: "join_token.created", subject: "join_tokens/" + c.ID, text: fmt.Sprintf("join token %s for a %s created", c.ID, c.Role),
		detail: map[string]any{"role": c.Role, "expires": timeOrNil(expires)},
	}, nil
}

func (c TrustCA) apply(st *State, at entry) (record, error) {
	if raw, err := hex.DecodeString(c.CA.Fingerprint); err != nil || len(raw) == 0 || c.CA.PEM == "" {
		return record{}, refuse(ErrInvalid, "CA %q: must have a fingerprint and a certificate", c.CA.Fingerprint)
	}
	for _, ca := range st.Trust {
		if ca.Fingerprint == c.CA.Fingerprint {
			return record{}, refuse(ErrExists, "CA %.16s: is trusted already", c.CA.Fingerprint)
		}
	}
	ca := c.CA
	ca.At = at.now
	st.Trust = append(st.Trust[:len(st.Trust):len(st.Trust)], ca)
	return record{
		kind: "ca.trusted", subject: "ca/" + ca.Fingerprint, text: fmt.Sprintf("CA %.16s trusted", ca.Fingerprint),
		detail: map[string]string{"fingerprint": ca.Fingerprint},
	}, nil
}

func (c RetireCA) apply(st *State, _ entry) (record, error) {
	var kept []TrustedCA
	for _, ca := range st.Trust {
		if ca.Fingerprint != c.Fingerprint {
			kept = append(kept, ca)
		}
	}
	switch {
	case len(kept) == len(st.Trust):
		return record{}, refuse(ErrNotFound, "CA %.16s: not found", c.Fingerprint)
	case st.Trust[len(st.Trust)-1].Fingerprint == c.Fingerprint:
		return record{}, refuse(ErrInUse, "CA %.16s: signs certificates now; trust another first", c.Fingerprint)
	}
	for _, name := range sortedKeys(st.Members) {
		if st.Members[name].CA == c.Fingerprint {
			return record{}, refuse(ErrInUse, "CA %.16s: signed the certificate of member %s; renew that first", c.Fingerprint, name)
		}
	}
	st.Trust = kept
	return record{
		kind: "ca.retired", subject: "ca/" + c.Fingerprint, text: fmt.Sprintf("CA %.16s retired", c.Fingerprint),
		detail: map[string]string{"fingerprint": c.Fingerprint},
	}, nil
}

func (c RaiseFeature) apply(st *State, _ entry) (record, error) {
	if c.Level <= st.FeatureLevel {
		return record{}, refuse(ErrFeatureLevel, "feature level %d: the installation is at %d already", c.Level, st.FeatureLevel)
	}
	for _, name := range sortedKeys(st.Members) {
		if m := st.Members[name]; m.Supports < c.Level {
			return record{}, refuse(ErrFeatureLevel, "feature level %d: member %s supports %d; upgrade it first", c.Level, name, m.Supports)
		}
	}
	old := st.FeatureLevel
	st.FeatureLevel = c.Level
	return record{
		kind: "feature_level.raised", subject: "installation", text: fmt.Sprintf("feature level raised to %d", c.Level),
		detail: map[string]uint32{"from": old, "to": c.Level},
	}, nil
}

// timeOrNil returns nil for the zero time, which means never.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
