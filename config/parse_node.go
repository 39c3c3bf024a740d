package config

import (
	"net"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/statestore"
)

func parseNode(texts []*text) (*Node, []FieldError, []Note) {
	c := newCollector(texts)
	var n *Node
	if len(texts) != 1 {
		c.errorf(place{texts[0], 1, 1}, "", "must be one file, is %d", len(texts))
	} else if doc := readDocument(c, texts); doc != nil {
		n = buildNode(c, walker{c: c}.walk(nodeSchema(), doc, "", false))
	}
	c.sorted()
	for i, e := range c.errs {
		if e.Path == "secrets" || strings.HasPrefix(e.Path, "secrets.") {
			c.errs[i].Source = "" // may hold the value itself, by mistake
		}
	}
	if len(c.errs) > 0 {
		return nil, c.errs, nil
	}
	n.Unused = c.unused
	return n, nil, c.warnings
}

func buildNode(c *collector, root *value) *Node {
	id, dns, api, peer := root.child("node"), root.child("dns"), root.child("api"), root.child("peer")
	observer, logs := root.child("observer"), root.child("log")
	n := &Node{
		Name: get[string](id, "name"), Region: get[string](id, "region"), Labels: stringMap(id.child("labels")),
		Voter: get[string](id, "role") == "voter", Coordinates: list[float64](id, "coordinates"),
		DataDir: get[string](root, "data_dir"),
		DNS: NodeDNS{
			Listen: list[string](dns, "listen"),
			Advertise: Advertise{
				Name: get[string](dns.child("advertise"), "name"),
				IPv4: list[netip.Addr](dns.child("advertise"), "ipv4"),
				IPv6: list[netip.Addr](dns.child("advertise"), "ipv6"),
			},
			NSID: get[string](dns, "nsid"), UDPSize: get[int](dns, "udp_size"),
			GeoIP: GeoIP{Database: get[string](dns.child("geoip"), "database"), Reload: get[statestore.Duration](dns.child("geoip"), "reload").D()},
		},
		API: NodeAPI{
			Listen: get[string](api, "listen"), ExternalURL: get[string](api, "external_url"),
			MetricsListen: get[string](api.child("metrics"), "listen"),
		},
		Peer: NodePeer{
			Listen: get[string](peer, "listen"), Advertise: get[string](peer, "advertise"), Join: list[string](peer, "join"),
			JoinTokenFile: get[string](peer, "join_token_file"), Expect: get[int](peer.child("bootstrap"), "expect"), Profile: get[string](peer, "profile"),
		},
		Observer: NodeObserver{
			Enabled: get[bool](observer, "enabled"), MaxConcurrency: get[int](observer, "max_concurrency"),
			SourceIPv4: get[netip.Addr](observer.child("source"), "ipv4"), SourceIPv6: get[netip.Addr](observer.child("source"), "ipv6"),
			Resolvers: list[netip.AddrPort](observer, "resolver"),
			Canaries:  list[string](observer, "canaries"), Allow: list[netip.Prefix](observer, "allow"),
		},
		Log:         NodeLog{Format: get[string](logs, "format"), Level: get[string](logs, "level")},
		MemoryLimit: get[int64](root.child("limits"), "memory"),
	}
	if l := dns.child("rate_limit"); dns.set("rate_limit") {
		n.DNS.RateLimit = &RateLimit{
			PerSecond: get[int](l, "responses_per_second"), Slip: get[int](l, "slip"),
			Exempt: list[netip.Prefix](l, "exempt"), LogOnly: get[bool](l, "log_only"),
		}
	}
	n.Secrets = secrets(c, root)
	if !dns.set("nsid") {
		n.DNS.NSID = n.Name
	}
	if t := api.child("tls"); api.set("tls") {
		n.API.TLS = &APITLS{Cert: get[string](t, "cert"), Key: get[string](t, "key"), ClientCA: get[string](t, "client_ca")}
	}
	if t := peer.child("tls"); peer.set("tls") {
		n.Peer.TLS = &PeerTLS{CA: get[string](t, "ca"), Cert: get[string](t, "cert"), Key: get[string](t, "key")}
	}
	checkNode(c, root, n)
	return n
}

// secrets returns where the node finds its secrets.
func secrets(c *collector, root *value) Secrets {
	var out Secrets
	each(root, "secrets", func(name string, v *value) {
		file := v.child("file")
		switch {
		case v.set("file") && v.set("env"):
			c.errorf(v.at, v.path, "must have one of file, env, is file and env")
		case !v.set("file") && !v.set("env"):
			c.errorf(v.at, v.path, "must have one of file, env, is without")
		case v.set("file") && file.fine() && file.text == "":
			c.errorf(file.at, file.path, "must be a file, is empty")
		default:
			if out == nil {
				out = Secrets{}
			}
			out[name] = SecretSource{File: get[string](v, "file"), Env: get[string](v, "env")}
		}
	})
	return out
}

// longestUDP is the longest answer that dnsserver sends over UDP.
const longestUDP = 1232

// checkNode reports what one key alone cannot show.
func checkNode(c *collector, root *value, n *Node) {
	peer := root.child("peer")
	if peer != nil && !peer.bad && !peer.set("advertise") {
		host, _, err := net.SplitHostPort(n.Peer.Listen)
		a, parseErr := netip.ParseAddr(host)
		switch {
		case err != nil:
		case host == "" || parseErr == nil && a.IsUnspecified():
			c.errorf(peer.at, "peer.advertise", "must be set to where other nodes reach this one, is missing while peer.listen is %s", n.Peer.Listen)
		default:
			n.Peer.Advertise = n.Peer.Listen
		}
	}
	if dir := root.child("data_dir"); dir.fine() && n.DataDir == "" {
		c.errorf(dir.at, dir.path, "must be a directory, is empty")
	}
	for _, l := range []*value{root.child("dns").child("listen"), peer.child("join"), root.child("observer").child("canaries"), root.child("observer").child("resolver")} {
		seen := map[string]bool{}
		for _, item := range itemsOf(l) {
			s := item.text
			if item.fine() && s != "" && seen[s] {
				c.errorf(item.at, item.path, "must be listed once, is %s again", quote(s))
			}
			seen[s] = true
		}
	}
	if co := root.child("node").child("coordinates"); co.fine() {
		if len(n.Coordinates) != 2 || n.Coordinates[0] < -90 || n.Coordinates[0] > 90 {
			c.errorf(co.at, co.path, "must be latitude (-90 to 90) and longitude (-180 to 180), is not")
		} else {
			c.warnf(co.at, co.path, "kept, but no policy uses it: the coordinates in regions of the spec count")
		}
	}
	if e := peer.child("bootstrap").child("expect"); e.fine() && n.Peer.Expect%2 == 0 && n.Peer.Expect > 0 {
		c.warnf(e.at, e.path, "%d voters survive no more losses than %d", n.Peer.Expect, n.Peer.Expect-1)
	}
	if n.Peer.Expect > 0 && !n.Voter {
		e := peer.child("bootstrap").child("expect")
		c.errorf(e.at, e.path, "must be on a voter, is on a nonvoter")
	}
	if size := root.child("dns").child("udp_size"); size.fine() && n.DNS.UDPSize > longestUDP {
		c.warnf(size.at, size.path, "answers over UDP have %d bytes at most: longer ones do not cross every network (RFC 9715)", longestUDP)
	}
	if geo := root.child("dns").child("geoip"); geo.fine() && geo.set("reload") && n.DNS.GeoIP.Database == "" {
		reload := geo.child("reload")
		c.warnf(reload.at, reload.path, "unused without a database")
	}
	if !n.Observer.Enabled && len(n.Observer.Canaries) > 0 {
		cs := root.child("observer").child("canaries")
		c.warnf(cs.at, cs.path, "unused while observer.enabled is false")
	}
	ad := root.child("dns").child("advertise")
	if l := root.child("dns").child("listen"); l.fine() && l.given && len(n.DNS.Listen) == 0 && ad != nil && ad.given && len(n.DNS.Advertise.IPv4)+len(n.DNS.Advertise.IPv6) > 0 {
		c.warnf(ad.at, ad.path, "resolvers are sent to a node that answers nobody: dns.listen is empty")
	}
}
