package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/statestore"
)

// metrics say what this process is, at the moment of the scrape: an operator may
// change a node's role while it runs.
type metrics struct {
	n *Node

	build, node, certificate         *prometheus.Desc
	reloaded, reloadedAt, geoipBuilt *prometheus.Desc
}

func newMetrics(n *Node) *metrics {
	return &metrics{
		n:           n,
		build:       prometheus.NewDesc("quorate_build_info", "Release of the binary.", []string{"version", "revision", "goversion"}, nil),
		node:        prometheus.NewDesc("quorate_node_info", "Name, region and role of this node.", []string{"node", "region", "role"}, nil),
		certificate: prometheus.NewDesc("quorate_mesh_certificate_expiry_timestamp_seconds", "When this node's mesh certificate ends, unix time.", nil, nil),
		reloaded:    prometheus.NewDesc("quorate_config_last_reload_successful", "1 when all that this node reads again was taken, 0 while something is refused.", nil, nil),
		reloadedAt:  prometheus.NewDesc("quorate_config_last_reload_success_timestamp_seconds", "When something was read again last and nothing was refused, unix time.", nil, nil),
		geoipBuilt:  prometheus.NewDesc("quorate_geoip_build_timestamp_seconds", "When the GeoIP file in use was built, unix time.", nil, nil),
	}
}

// Describe sends the descriptors.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.build
	ch <- m.node
	ch <- m.certificate
	ch <- m.reloaded
	ch <- m.reloadedAt
	ch <- m.geoipBuilt
}

// Collect sends what holds now.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.build, 1, m.n.opts.Version, buildRevision(), goVersion())
	gauge(m.node, 1, m.n.cfg.Name, m.n.cfg.Region, string(m.n.role()))
	_, until := m.n.mesh.Validity()
	gauge(m.certificate, float64(until.UnixNano())/float64(time.Second))
	m.collectFiles(gauge)
}

// collectFiles says how reading files again went, once something was.
func (m *metrics) collectFiles(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	switch r := m.n.files.told.Load(); {
	case len(r.refused) > 0:
		gauge(m.reloaded, 0)
	case r.tried:
		gauge(m.reloaded, 1)
	}
	if good := m.n.files.told.Load().good; !good.IsZero() {
		gauge(m.reloadedAt, float64(good.UnixMilli())/1000)
	}
	if built := m.n.places.index.Load().Built(); !built.IsZero() {
		gauge(m.geoipBuilt, float64(built.Unix()))
	}
}

// role is the one in the members' table, or, until this node stands there, the
// one node.yaml wants.
func (n *Node) role() statestore.MemberRole {
	if recorded := n.view.State().Members[n.cfg.Name]; recorded != nil {
		return recorded.Role
	}
	if n.cfg.Voter {
		return statestore.Voter
	}
	return statestore.Nonvoter
}
