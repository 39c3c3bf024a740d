package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// installation is quorate as one node: what it serves and how it is set up.
type installation struct {
	name  string            // as the table shows it
	spec  string            // spec.yaml
	node  string            // more of node.yaml
	dns   string            // more of its dns, as entries of a flow mapping
	files map[string]string // beside node.yaml
	asks  string            // the name that shows it is ready
}

// applyTimeout bounds how long a node may take to lead itself and take a spec, which of
// ten thousand services is work for seconds.
const applyTimeout = time.Minute

// startQuorate sets a node up as an operator would: init, server, apply.
func (b *bench) startQuorate(ctx context.Context, in installation) (*server, error) {
	dir, err := b.folder(in.name)
	if err != nil {
		return nil, err
	}
	var ports [3]int
	for i := range ports {
		if ports[i], err = b.freePort(); err != nil {
			return nil, err
		}
	}
	node := fmt.Sprintf(`node: { name: bench-1, region: here }
data_dir: %[1]s/data
dns: { listen: ["127.0.0.1:%[2]d"], advertise: { ipv4: [127.0.0.1] }%[5]s }
api: { listen: "127.0.0.1:%[3]d" }
peer: { listen: "127.0.0.1:%[4]d", advertise: "127.0.0.1:%[4]d", bootstrap: { expect: 1 }, profile: lan }
observer: { allow: [127.0.0.0/8] }
log: { format: text, level: warn }
%[6]s`, dir, ports[0], ports[1], ports[2], strings.ReplaceAll(in.dns, "DIR", dir), strings.ReplaceAll(in.node, "DIR", dir))
	if err := writeFiles(dir, map[string]string{"node.yaml": node, "spec.yaml": in.spec}); err != nil {
		return nil, err
	}
	if err := writeSecret(dir, in.files); err != nil {
		return nil, err
	}
	nodeFile := filepath.Join(dir, "node.yaml")
	env := quorateEnv(dir)
	if err := commandWith(ctx, env, b.quorate, "init", "-c", nodeFile); err != nil {
		return nil, err
	}
	s := &server{name: in.name, dir: dir, port: ports[0], quorate: true}
	if err := b.runQuorate(s); err != nil {
		return nil, err
	}
	if err := b.apply(ctx, env, filepath.Join(dir, "spec.yaml")); err != nil {
		s.stop()
		return nil, fmt.Errorf("%w; the node says: %s", err, s.tail())
	}
	if err := s.ready(ctx, in.asks); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// runQuorate starts the node in the server's folder. It sees one core, and makes one
// DNS worker of it.
func (b *bench) runQuorate(s *server) error {
	return b.start(s, quorateEnv(s.dir), b.quorate, "server", "-c", filepath.Join(s.dir, "node.yaml"), "--socket", filepath.Join(s.dir, "api"))
}

// quorateEnv keeps people's contexts, tokens and addresses away.
func quorateEnv(dir string) []string {
	return []string{"XDG_CONFIG_HOME=" + dir + "/.config", "XDG_CACHE_HOME=" + dir + "/.cache", "QUORATE_ADDR=unix:" + dir + "/api", "QUORATE_TOKEN_FILE="}
}

// apply applies a spec as soon as the node takes one.
func (b *bench) apply(ctx context.Context, env []string, spec string) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for {
		err := commandWith(ctx, env, b.quorate, "apply", "-f", spec, "--reason", "bench")
		if err == nil {
			return nil
		}
		if waitErr := pause(ctx, 500*time.Millisecond); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// head is the beginning of every spec. One region decides alone here, as there is
// one node.
const specHead = `version: 1
defaults: { quorum: { min_votes: 1 }, ttl: 30s }
`

// staticSpec has the static names in one zone for each of zones, and a cluster that
// nothing is on, as every spec has one.
func staticSpec(zones map[string]string) string {
	var text strings.Builder
	text.WriteString(specHead + "zones:\n")
	for _, zone := range sortedKeys(zones) {
		fmt.Fprintf(&text, "  %s:\n%s    records:\n", zone, zones[zone])
		for i := range nameCount {
			fmt.Fprintf(&text, "      %s: { A: [%s] }\n", staticName(i), staticAddress(i))
		}
	}
	text.WriteString("clusters:\n  c0: { region: here, ipv4: [127.0.1.1] }\nservices: {}\n")
	return text.String()
}

// serviceSpec has n services over the first clusters, which are checked at their
// front door as often as the peers do it, and what else is given.
func (b *bench) serviceSpec(n, clusters int, policy, more, moreServices string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%szones: { %s: {} }\n%sclusters:\n", specHead, weightedZone, more)
	for k := range clusters {
		fmt.Fprintf(&text, "  %s: { region: r%d, ipv4: [%s], check: { interval: 2s, timeout: 1s, http: { port: %d, path: %s } } }\n",
			clusterName(k), k, clusterAddress(k), b.ends.port, healthPath)
	}
	text.WriteString("services:\n")
	for i := range n {
		fmt.Fprintf(&text, "  %s: { policy: %s }\n", serviceName(i), policy)
	}
	text.WriteString(moreServices)
	return text.String()
}

// weights is a weighted policy over all clusters.
func weights() string {
	var list []string
	for k := range clusterCount {
		list = append(list, fmt.Sprintf("%s: %d", clusterName(k), clusterWeight(k)))
	}
	return "{ type: weighted, weights: { " + strings.Join(list, ", ") + " } }"
}
