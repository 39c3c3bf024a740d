package mesh

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
)

// The roles a certificate may carry.
const (
	RoleVoter    = "voter"
	RoleNonvoter = "nonvoter"
	RoleOperator = "operator"
)

// Identity is what a certificate says of its holder. An address is never part of
// it: every address of a node may change.
type Identity struct {
	Installation string
	Name         string
	Role         string
}

// String returns "NAME (ROLE)".
func (id Identity) String() string { return id.Name + " (" + id.Role + ")" }

// URI returns the identity as it stands in the certificate's URI SAN.
func (id Identity) URI() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: id.Installation, Path: "/node/" + id.Name + "/" + id.Role}
}

// Validate says what is wrong with the identity, or nil.
func (id Identity) Validate() error {
	if err := checkInstallation(id.Installation); err != nil {
		return err
	}
	if !isLabel(id.Name) {
		return fmt.Errorf("node name must be 1 to 63 lower-case letters, digits or inner hyphens, is %q", id.Name)
	}
	switch id.Role {
	case RoleVoter, RoleNonvoter, RoleOperator:
		return nil
	}
	return fmt.Errorf("role must be voter, nonvoter or operator, is %q", id.Role)
}

// IdentityOf returns the identity a certificate carries. A certificate with none,
// with more than one, or with one written in another way than URI writes it is
// refused, so that no two spellings name one node.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	if len(cert.URIs) != 1 {
		return Identity{}, fmt.Errorf("certificate must carry exactly one URI name, carries %d", len(cert.URIs))
	}
	u := cert.URIs[0]
	parts := strings.Split(u.Path, "/")
	if len(parts) != 4 || parts[0] != "" || parts[1] != "node" {
		return Identity{}, fmt.Errorf("certificate name %q is not spiffe://INSTALLATION/node/NAME/ROLE", u)
	}
	id := Identity{Installation: u.Host, Name: parts[2], Role: parts[3]}
	if err := id.Validate(); err != nil {
		return Identity{}, fmt.Errorf("certificate name %q: %w", u, err)
	}
	if u.String() != id.URI().String() {
		return Identity{}, fmt.Errorf("certificate name %q is not spiffe://INSTALLATION/node/NAME/ROLE", u)
	}
	return id, nil
}

// isLabel reports whether s can be one label of a DNS name: a node's name becomes
// ns-NODE.ZONE.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// checkInstallation holds the alphabet of a SPIFFE trust domain.
func checkInstallation(s string) error {
	if s == "" || len(s) > 128 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return fmt.Errorf("installation must be 1 to 128 lower-case letters, digits, '-', '.' or '_', is %q", s)
	}
	return nil
}
