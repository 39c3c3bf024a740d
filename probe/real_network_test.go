//go:build integration

package probe

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// insideEnv tells a test that it runs in a network namespace of its own.
const insideEnv = "QUORATE_PROBE_INSIDE"

// TestRealNetwork runs the tests that change a network where they change nobody's: in
// a namespace of their own, which takes root.
func TestRealNetwork(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		t.Skip("inside")
	}
	program(t, "ip")
	program(t, "iptables")
	if os.Geteuid() != 0 {
		require.NotEqual(t, "true", os.Getenv("CI"), "it takes root")
		t.Skip("it takes root")
	}
	for _, name := range []string{"TestInsidePing", "TestInsideFirewall", "TestInsideSource", "TestInsideSourceRoute", "TestInsideExhausted"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
			cmd.Env = append(os.Environ(), insideEnv+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: "+name)
		})
	}
}

// inside skips a test that is not in a namespace of its own, and makes that one usable.
func inside(t *testing.T) {
	t.Helper()
	if os.Getenv(insideEnv) == "" {
		t.Skip("run by TestRealNetwork")
	}
	command(t, "ip link set lo up")
	command(t, "ip link add d0 type veth peer name d1") // nobody is behind it
	command(t, "ip link set d0 up")
	command(t, "ip link set d1 up")
	command(t, "ip addr add 10.99.0.1/24 dev d0")
	command(t, "ip addr add 2001:db8:99::1/64 dev d0 nodad")
	command(t, "ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev d0")
	command(t, "ip neigh add 2001:db8:99::2 lladdr 02:00:00:00:00:02 dev d0")
}

func command(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}

// anywhere may reach what is closed by default, and leaves from source.
func anywhere(source Source) *Prober {
	return New(Config{Source: source, Policy: AddressPolicy{Allow: prefixes("127.0.0.0/8 ::1/128 10.0.0.0/8")}})
}

// measured runs a check once.
func measured(t *testing.T, p *Prober, check Check, addr string) outcome {
	t.Helper()
	check.Timeout = cmp.Or(check.Timeout, time.Second)
	c, err := p.newChecker(check, netip.MustParseAddr(addr))
	require.NoError(t, err)
	defer c.close()
	return measure(t.Context(), c, &check, nil)
}

func ping(count int, maxLoss float64) Check {
	return Check{ICMP: &ICMPCheck{Count: count, MaxLoss: maxLoss}}
}

func TestInsidePing(t *testing.T) {
	inside(t)
	p := anywhere(Source{})
	sysctl := func(v string) {
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(v), 0o644))
	}
	// A new namespace lets nobody ping.
	for _, addr := range []string{"127.0.0.1", "::1"} {
		o := measured(t, p, ping(1, 0), addr)
		require.True(t, o.unmeasured, "%s: %s", addr, o.Detail)
		require.Equal(t, ReasonOther, o.Reason)
		require.Contains(t, o.Detail, "net.ipv4.ping_group_range")
	}
	sysctl("0 2147483647")
	for _, addr := range []string{"127.0.0.1", "::1", "10.99.0.1", "2001:db8:99::1"} {
		o := measured(t, p, ping(3, 0), addr)
		require.True(t, o.OK, "%s: %s", addr, o.Detail)
		require.Positive(t, o.RTT)
		require.Less(t, o.RTT, 100*time.Millisecond)
	}
	for _, addr := range []string{"10.99.0.2", "2001:db8:99::2"} { // nobody is there
		o := measured(t, p, ping(3, 0.5), addr)
		require.Equal(t, ReasonTimeout, o.Reason, o.Detail)
		require.Contains(t, o.Detail, "0 replies to 3 echo requests")
		require.False(t, o.unmeasured)
		require.False(t, o.reached)
	}
	for _, addr := range []string{"198.51.100.1", "2001:db8:1::1"} { // no route leads there
		o := measured(t, p, ping(1, 0), addr)
		require.True(t, o.unmeasured, "%s: %s", addr, o.Detail)
		require.Contains(t, o.Detail, "this node has no route")
	}

	// Every other request is lost on the way.
	command(t, "iptables -A INPUT -p icmp --icmp-type echo-request -m statistic --mode nth --every 2 --packet 1 -j DROP")
	require.True(t, measured(t, p, ping(4, 0.5), "127.0.0.1").OK)
	o := measured(t, p, ping(4, 0.25), "127.0.0.1")
	require.Equal(t, ReasonTimeout, o.Reason)
	require.Contains(t, o.Detail, "2 replies to 4 echo requests, 3 are needed")
	require.True(t, o.reached)
	command(t, "iptables -F INPUT")

	// Only what leaves from the source address is let in.
	command(t, "iptables -A INPUT -p icmp --icmp-type echo-request ! -s 127.0.0.9 -j DROP")
	require.Equal(t, ReasonTimeout, measured(t, p, ping(1, 0), "127.0.0.1").Reason)
	require.True(t, measured(t, anywhere(Source{IPv4: netip.MustParseAddr("127.0.0.9")}), ping(1, 0), "127.0.0.1").OK)
	o = measured(t, anywhere(Source{IPv4: netip.MustParseAddr("192.0.2.1")}), ping(1, 0), "127.0.0.1")
	require.True(t, o.unmeasured, "not our address: %s", o.Detail)
}

// What a firewall of the endpoint refuses is the endpoint's, what one of this node
// refuses is not.
func TestInsideFirewall(t *testing.T) {
	inside(t)
	p := anywhere(Source{})
	tcp := Check{TCP: &TCPCheck{Port: 80}}
	dns := Check{DNS: &DNSCheck{Port: 80, Name: "a.example.", Type: "A"}}
	for _, reject := range []string{
		"iptables -A INPUT -p tcp -j REJECT --reject-with icmp-admin-prohibited",
		"iptables -A INPUT -p udp -j REJECT --reject-with icmp-admin-prohibited",
		"ip6tables -A INPUT -p tcp -j REJECT --reject-with icmp6-adm-prohibited",
		"ip6tables -A INPUT -p udp -j REJECT --reject-with icmp6-adm-prohibited",
	} {
		command(t, reject)
	}
	for _, addr := range []string{"127.0.0.1", "::1"} {
		for _, check := range []Check{tcp, dns} {
			o := measured(t, p, check, addr)
			require.False(t, o.OK)
			require.False(t, o.unmeasured, "%s: %s: %s", addr, o.Reason, o.Detail)
		}
	}
	// On loopback the refusal of the first packet comes while connect still holds the
	// socket and is lost; that of the second, a second later, is seen.
	patient := tcp
	patient.Timeout = 4 * time.Second
	o := measured(t, p, patient, "::1")
	require.False(t, o.unmeasured)
	require.Contains(t, o.Detail, "a firewall on the way refuses it")
	require.Contains(t, measured(t, p, dns, "::1").Detail, "a firewall on the way refuses it")

	command(t, "ip route add prohibit 198.51.100.0/24")
	command(t, "ip -6 route add prohibit 2001:db8:7::/64")
	command(t, "ip -6 route add unreachable 2001:db8:8::/64")
	command(t, "ip route add unreachable 198.18.1.0/24")
	command(t, "ip route add blackhole 198.18.2.0/24")
	command(t, "ip -6 route add blackhole 2001:db8:9::/64")
	for _, addr := range []string{
		"198.51.100.1", "2001:db8:7::1", "203.0.113.1", "2001:db8:1::1",
		"198.18.1.1", "2001:db8:8::1", "198.18.2.1", "2001:db8:9::1",
	} {
		for _, check := range []Check{tcp, dns} {
			o := measured(t, p, check, addr)
			require.True(t, o.unmeasured, "%s: %s: %s", addr, o.Reason, o.Detail)
		}
	}
}

// A rule may leave the source address without a route while others have one.
func TestInsideSourceRoute(t *testing.T) {
	inside(t)
	command(t, "ip addr add 10.99.0.9/24 dev d0")
	command(t, "ip route add default via 10.99.0.2")
	command(t, "ip rule add from 10.99.0.9 lookup 99")
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0o644))
	command(t, "ip route add unreachable default table 99")
	p := anywhere(Source{IPv4: netip.MustParseAddr("10.99.0.9")})
	for _, check := range []Check{{TCP: &TCPCheck{Port: 80}}, {DNS: &DNSCheck{Port: 53, Name: "a.example.", Type: "A"}}, ping(1, 0)} {
		o := measured(t, p, check, "198.51.100.1")
		require.True(t, o.unmeasured, "%s: %s", o.Reason, o.Detail)
	}
}

// What this node has run out of is no fault of the endpoint's, nor is a source
// address that leads nowhere.
func TestInsideExhausted(t *testing.T) {
	inside(t)
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40009"), 0o644))
	for _, source := range []Source{{}, {IPv4: netip.MustParseAddr("10.99.0.1")}} {
		dial := NewDialer(&AddressPolicy{Allow: prefixes("10.0.0.0/8")}, source)
		var held []net.Conn
		for range 10 {
			conn, err := dial(t.Context(), "udp", "10.99.0.2:53")
			require.NoError(t, err)
			held = append(held, conn)
		}
		o := measured(t, anywhere(source), Check{DNS: &DNSCheck{Port: 53, Name: "a.example.", Type: "A"}}, "10.99.0.2")
		require.True(t, o.unmeasured, "%v: %s: %s", source, o.Reason, o.Detail)
		require.Equal(t, ReasonOther, o.Reason)
		for _, conn := range held {
			require.NoError(t, conn.Close())
		}
	}
	command(t, "ip route add default via 10.99.0.2")
	o := measured(t, anywhere(Source{IPv4: netip.MustParseAddr("127.0.0.1")}), Check{TCP: &TCPCheck{Port: 80}}, "198.51.100.1")
	require.True(t, o.unmeasured, "a loopback source: %s", o.Detail)
}

// Every protocol leaves from the source address.
func TestInsideSource(t *testing.T) {
	inside(t)
	command(t, "ip addr add 10.99.0.9/24 dev d0")
	command(t, "ip addr add 2001:db8:99::9/64 dev d0 nodad")
	source := Source{IPv4: netip.MustParseAddr("10.99.0.9"), IPv6: netip.MustParseAddr("2001:db8:99::9")}
	dial := NewDialer(&AddressPolicy{Allow: prefixes("10.0.0.0/8")}, source)
	for _, addr := range []string{"10.99.0.1:4242", "[2001:db8:99::1]:4242"} {
		ln, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		defer ln.Close()
		for _, network := range []string{"tcp", "udp"} {
			conn, err := dial(t.Context(), network, addr)
			require.NoError(t, err)
			defer conn.Close()
			local := netip.MustParseAddrPort(conn.LocalAddr().String())
			require.Contains(t, []netip.Addr{source.IPv4, source.IPv6}, local.Addr())
			require.NotZero(t, local.Port())
		}
	}

	// A port is taken for one destination, not for all of them: ten ports are enough
	// for ten connections to each of three.
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40009"), 0o644))
	for _, port := range []string{"5001", "5002", "5003"} {
		ln, err := net.Listen("tcp", "10.99.0.1:"+port)
		require.NoError(t, err)
		defer ln.Close()
		for range 10 {
			conn, err := dial(t.Context(), "tcp", ln.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
		}
	}
}
