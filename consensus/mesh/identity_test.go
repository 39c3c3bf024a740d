package mesh

import (
	"crypto/x509"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentityIsSpelledOneWay(t *testing.T) {
	tests := []struct {
		name string
		uri  string
		want Identity // zero: refused
	}{
		{"voter", "spiffe://prod.example/node/eu-1/voter", Identity{"prod.example", "eu-1", RoleVoter}},
		{"nonvoter", "spiffe://p/node/eu-1/nonvoter", Identity{"p", "eu-1", RoleNonvoter}},
		{"operator", "spiffe://p/node/anna/operator", Identity{"p", "anna", RoleOperator}},
		{"unknown role", "spiffe://p/node/eu-1/root", Identity{}},
		{"role in capitals", "spiffe://p/node/eu-1/Voter", Identity{}},
		{"name in capitals", "spiffe://p/node/EU-1/voter", Identity{}},
		{"no name", "spiffe://p/node//voter", Identity{}},
		{"no installation", "spiffe:///node/eu-1/voter", Identity{}},
		{"more path", "spiffe://p/node/eu-1/voter/x", Identity{}},
		{"less path", "spiffe://p/node/voter", Identity{}},
		{"not a node", "spiffe://p/person/eu-1/voter", Identity{}},
		{"another scheme", "https://p/node/eu-1/voter", Identity{}},
		{"a port", "spiffe://p:1/node/eu-1/voter", Identity{}},
		{"a user", "spiffe://u@p/node/eu-1/voter", Identity{}},
		{"a query", "spiffe://p/node/eu-1/voter?x=1", Identity{}},
		{"a fragment", "spiffe://p/node/eu-1/voter#x", Identity{}},
		{"an escaped letter", "spiffe://p/node/eu%2D1/voter", Identity{}},
		{"an escaped slash", "spiffe://p/node/eu-1%2Fvoter", Identity{}},
		{"a dotted name", "spiffe://p/node/eu.1/voter", Identity{}},
		{"a trailing hyphen", "spiffe://p/node/eu-/voter", Identity{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(tt.uri)
			require.NoError(t, err)
			got, err := IdentityOf(&x509.Certificate{URIs: []*url.URL{u}})
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want == Identity{}, err != nil, "err = %v", err)
		})
	}
}
