package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// regions fills in where regions are. A country is in one of them.
func (b *specBuilder) regions() {
	in := map[string]string{} // country -> region
	each(b.root, "regions", func(name string, v *value) {
		r := &statestore.Region{Coordinates: b.coordinates(v.child("coordinates")), Countries: list[string](v, "countries")}
		slices.Sort(r.Countries)
		b.once(v.child("countries"))
		for _, item := range itemsOf(v.child("countries")) {
			c, ok := item.v.(string)
			if !ok || !item.fine() {
				continue
			}
			if other, taken := in[c]; taken {
				b.errorf(item, "must be in one region, is %s in %s and %s", c, other, name)
				continue
			}
			in[c] = name
		}
		if b.spec.Regions == nil {
			b.spec.Regions = map[string]*statestore.Region{}
		}
		b.spec.Regions[name] = r
	})
}

func (b *specBuilder) coordinates(v *value) *statestore.Coordinates {
	if !v.fine() || !v.given || anyBad(v) {
		return nil
	}
	if len(v.items) != 2 {
		b.errorf(v, "must be latitude and longitude, is %d numbers", len(v.items))
		return nil
	}
	lat, _ := v.items[0].v.(float64)
	long, _ := v.items[1].v.(float64)
	if lat < -90 || lat > 90 {
		b.errorf(v.items[0], "must be a latitude from -90 to 90, is %s", v.items[0].text)
		return nil
	}
	return &statestore.Coordinates{Latitude: lat, Longitude: long}
}

// unusedRegions warns about regions that nothing else names, which are typos more
// often than not. Under latency a region of observers alone matters too.
func (b *specBuilder) unusedRegions() {
	used := map[string]bool{}
	for _, c := range b.spec.Clusters {
		used[c.Region] = true
	}
	for _, s := range b.spec.Services {
		for r := range s.Policy.Map {
			used[r] = true
		}
		if s.Policy.Type == statestore.Latency {
			return
		}
	}
	m := b.root.child("regions")
	each(b.root, "regions", func(name string, _ *value) {
		if !used[name] {
			b.c.warnf(m.keyAt[name], join(m.path, name), "no cluster is in it and no policy's map names it; right only if nodes are there")
		}
	})
}

func (b *specBuilder) clusters() {
	ids := map[int]string{}
	addrs := map[netip.Addr]string{}
	type network struct {
		prefix  netip.Prefix
		cluster string
	}
	var networks []network
	each(b.root, "clusters", func(name string, v *value) {
		if name == "default" {
			b.keyErrorf(b.root.child("clusters"), name, `must be another name, is "default", which policy.weights needs for all others`)
		}
		c := &statestore.Cluster{
			ID: get[int](v, "id"), Region: get[string](v, "region"), Labels: stringMap(v.child("labels")),
			IPv4: list[netip.Addr](v, "ipv4"), IPv6: list[netip.Addr](v, "ipv6"), CIDRs: list[netip.Prefix](v, "cidrs"),
			Capacity: get[int](v, "capacity"), Hostname: get[string](v, "hostname"),
		}
		b.spec.Clusters[name] = c
		if id := v.child("id"); c.ID != 0 && id.fine() {
			if other, ok := ids[c.ID]; ok {
				b.errorf(id, "must be unique, is %d like that of cluster %s", c.ID, other)
			} else {
				ids[c.ID] = name
			}
		}
		b.endpoints(name, v, c, addrs)
		for _, item := range itemsOf(v.child("cidrs")) {
			p, ok := item.v.(netip.Prefix)
			if !ok || !item.fine() {
				continue
			}
			for _, n := range networks {
				if n.prefix.Overlaps(p) {
					b.errorf(item, "must not overlap another network, is %s of cluster %s and %s of cluster %s", p, name, n.prefix, n.cluster)
					break
				}
			}
			networks = append(networks, network{p, name})
		}
		b.capacityFrom(v, c)
		b.frontDoor(v, c)
	})
}

// endpoints checks how a cluster says where it is. addrs are the addresses of those
// before, by cluster.
func (b *specBuilder) endpoints(name string, v *value, c *statestore.Cluster, addrs map[netip.Addr]string) {
	switch {
	case v.set("hostname"):
		for _, family := range []string{"ipv4", "ipv6"} {
			if v.set(family) {
				b.c.errorf(v.keyAt[family], join(v.path, family), "must not stand next to hostname, whose addresses the observers find, is a second declaration")
			}
		}
	case v.fineLists("ipv4", "ipv6") && len(c.Endpoints()) == 0:
		b.errorf(v, "must have an address in ipv4 or ipv6, or a hostname, is without one")
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		b.once(v.child(family))
		for _, item := range itemsOf(v.child(family)) {
			a, ok := item.v.(netip.Addr)
			if !ok || !item.fine() {
				continue
			}
			if other, ok := addrs[a]; ok && other != name {
				b.c.warnf(item.at, item.path, "%s is also an address of cluster %s", a, other)
			}
			addrs[a] = name
		}
	}
}

func (b *specBuilder) frontDoor(v *value, c *statestore.Cluster) {
	ch := v.child("check")
	if !ch.fine() {
		return
	}
	c.Check = b.check(ch, "check", &scope{front: true, host: strings.TrimSuffix(c.Hostname, ".")})
	if c.Check == nil || c.Check.HTTPS == nil {
		return
	}
	if h := c.Check.HTTPS; h.Host == "" && h.TLS.ServerName == "" && h.TLS.Verify {
		at := ch.child("https")
		b.c.warnf(at.at, at.path, "the certificate must name the address itself; set host or tls.server_name, or tls.verify to false")
	}
}

// capacityFrom fills in where the cluster reports its capacity.
func (b *specBuilder) capacityFrom(v *value, c *statestore.Cluster) {
	from := v.child("capacity_from")
	if !from.fine() {
		return
	}
	var kind string
	switch http, prom := from.set("http"), from.set("prometheus"); {
	case http && prom:
		b.errorf(from, "must have one of http, prometheus, is http and prometheus")
		return
	case http:
		kind = "http"
	case prom:
		kind = "prometheus"
	default:
		b.errorf(from, "must have one of http, prometheus, is without")
		return
	}
	source := from.child(kind)
	if source.bad {
		return
	}
	c.CapacityFrom = &statestore.CapacityFrom{MaxAge: get[statestore.Duration](source, "max_age"), Change: get[int](source, "change")}
	if kind == "http" {
		c.CapacityFrom.HTTP = &statestore.CapacityHTTP{Port: get[int](source, "port"), Path: get[string](source, "path"), JSON: get[string](source, "json")}
	} else {
		b.plainURL(source.child("url"))
		c.CapacityFrom.Prometheus = &statestore.CapacityPrometheus{
			URL: get[string](source, "url"), Metric: get[string](source, "metric"), Of: get[string](source, "of"), Labels: stringMap(source.child("labels")),
		}
	}
	switch of := source.child("of"); {
	case v.child("capacity").fine() || v.child("capacity") != nil:
	case of.fine():
		b.errorf(of, "must stand with a capacity of the cluster, of which it is a part, is %s without", quote(of.text))
	default:
		b.c.warnf(from.at, from.path, "without capacity there is nothing to fall back on once the report is old")
	}
}

// plainURL refuses what in a URL has no use here. A spec is read by everybody who
// may read it, and so would be a password.
func (b *specBuilder) plainURL(v *value) {
	if !v.fine() {
		return
	}
	u, err := url.Parse(v.text)
	switch {
	case err != nil: // reported by the walk
	case u.User != nil:
		b.c.hiddenf(v.at, v.path, "must be without a user and password, which everybody who reads the spec would see, is with")
		v.bad = true
	case u.Fragment != "":
		b.errorf(v, "must be without a fragment, is %s", quote(v.text))
	}
}
