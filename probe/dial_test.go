package probe

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressPolicy(t *testing.T) {
	tests := []struct {
		name  string
		allow string
		addr  string
		open  bool
	}{
		{"a public address", "", "192.0.2.1", true},
		{"a public IPv6 address", "", "2001:db8::1", true},
		{"loopback", "", "127.0.0.1", false},
		{"loopback, high", "", "127.255.0.9", false},
		{"IPv6 loopback", "", "::1", false},
		{"link-local", "", "169.254.7.7", false},
		{"IPv6 link-local with a zone", "", "fe80::1%eth0", false},
		{"metadata", "", "169.254.169.254", false},
		{"AWS metadata over IPv6", "", "fd00:ec2::254", false},
		{"GCP metadata over IPv6", "", "fd20:ce::254", false},
		{"Azure wire server", "", "168.63.129.16", false},
		{"Alibaba metadata", "", "100.100.100.200", false},
		{"unspecified", "", "0.0.0.0", false},
		{"this network", "", "0.1.2.3", false},
		{"IPv6 unspecified", "", "::", false},
		{"multicast", "", "224.0.0.1", false},
		{"IPv6 multicast", "", "ff02::1", false},
		{"broadcast", "", "255.255.255.255", false},
		{"reserved", "", "240.0.0.1", false},
		{"private 10", "", "10.1.2.3", false},
		{"private 172.16", "", "172.31.0.1", false},
		{"beside private 172.16", "", "172.32.0.1", true},
		{"private 192.168", "", "192.168.0.1", false},
		{"carrier-grade NAT", "", "100.64.0.1", false},
		{"unique local", "", "fd12::1", false},

		{"loopback as a mapped address", "", "::ffff:127.0.0.1", false},
		{"metadata as a mapped address", "", "::ffff:169.254.169.254", false},
		{"metadata as mapped hex", "", "::ffff:a9fe:a9fe", false},
		{"loopback as a compatible address", "", "::127.0.0.1", false},
		{"metadata through NAT64", "", "64:ff9b::a9fe:a9fe", false},
		{"loopback translated", "", "::ffff:0:127.0.0.1", false},
		{"metadata through 6to4", "", "2002:a9fe:a9fe::1", false},
		{"metadata through Teredo", "", "2001:0:c000:201::5601:5601", false},
		{"metadata through ISATAP", "", "2001:db8::5efe:a9fe:a9fe", false},
		{"a public address through NAT64", "", "64:ff9b::c000:201", true},
		{"local-use NAT64", "", "64:ff9b:1::c000:201", false},

		{"private, listed", "10.0.0.0/8", "10.1.2.3", true},
		{"private, listed, mapped", "10.0.0.0/8", "::ffff:10.1.2.3", true},
		{"private, listed as a mapped prefix", "::ffff:10.0.0.0/104", "10.1.2.3", true},
		{"private, listed, through NAT64", "10.0.0.0/8", "64:ff9b::a01:203", true},
		{"private, another one listed", "10.0.0.0/8", "192.168.1.1", false},
		{"private, all listed", "0.0.0.0/0", "192.168.1.1", true},
		{"loopback is not opened by everything", "0.0.0.0/0", "127.0.0.1", false},
		{"link-local is not opened by everything", "0.0.0.0/0", "169.254.1.1", false},
		{"loopback, listed", "127.0.8.0/24", "127.0.8.1", true},
		{"loopback, another one listed", "127.0.8.0/24", "127.0.0.1", false},
		{"IPv6 loopback, listed", "::1/128", "::1", true},
		{"metadata is not opened by link-local", "169.254.0.0/16", "169.254.169.254", false},
		{"link-local, listed", "169.254.0.0/16", "169.254.1.1", true},
		{"metadata is not opened by unique local", "fc00::/7", "fd00:ec2::254", false},
		{"metadata, listed itself", "169.254.169.254/32", "169.254.169.254", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := AddressPolicy{Allow: prefixes(tt.allow)}
			err := p.Check(netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 80))
			if tt.open {
				require.NoError(t, err)
				return
			}
			var denied *DeniedError
			require.ErrorAs(t, err, &denied)
		})
	}
}

func TestThePolicyDeniesThisNodesOwnListeners(t *testing.T) {
	p := AddressPolicy{
		Allow: prefixes("127.0.0.0/8 10.0.0.0/8"),
		Deny:  []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:7654"), netip.MustParseAddrPort("0.0.0.0:53")},
	}
	tests := []struct {
		addr string
		open bool
	}{
		{"10.0.0.5:7654", false},
		{"[::ffff:10.0.0.5]:7654", false},
		{"[64:ff9b::a00:5]:7654", false},
		{"[2002:a00:5::1]:7654", false},
		{"[64:ff9b::a00:5]:443", true},
		{"10.0.0.5:443", true},
		{"10.0.0.6:7654", true},
		{"127.0.0.1:53", false},
		{"127.0.0.1:54", true},
	}
	for _, tt := range tests {
		err := p.Check(netip.MustParseAddrPort(tt.addr))
		require.Equal(t, tt.open, err == nil, "%s: %v", tt.addr, err)
	}
}

func TestTheDialerChecksWhatItReallyDials(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	dial := NewDialer(&AddressPolicy{}, Source{})
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		_, err := dial(t.Context(), "tcp", net.JoinHostPort(host, port))
		var denied *DeniedError
		require.ErrorAs(t, err, &denied, host)
	}
	dial = NewDialer(&AddressPolicy{Allow: prefixes("127.0.0.0/8")}, Source{IPv4: netip.MustParseAddr("127.0.0.9")})
	conn, err := dial(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, "127.0.0.9", conn.LocalAddr().(*net.TCPAddr).IP.String(), "it leaves from the source address")
}
