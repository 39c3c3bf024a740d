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

	build, node, certificate *prometheus.Desc
}

func newMetrics(n *Node) *metrics {
	return &metrics{
		n:           n,
		build:       prometheus.NewDesc("quorate_build_info", "Release of the binary.", []string{"version", "revision", "goversion"}, nil),
		node:        prometheus.NewDesc("quorate_node_info", "Name, region and role of this node.", []string{"node", "region", "role"}, nil),
		certificate: prometheus.NewDesc("quorate_mesh_certificate_expiry_timestamp_seconds", "When this node's mesh certificate ends, unix time.", nil, nil),
	}
}

// Describe sends the descriptors.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.build
	ch <- m.node
	ch <- m.certificate
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
