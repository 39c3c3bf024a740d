package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// peer is a server to compare with: its files, and how it is run.
type peer struct {
	name    string
	program string
	args    func(dir string) []string
	env     []string
	files   func(b *bench, dir string, port int) map[string]string
	asks    string // the name that shows it is ready
}

// startPeer writes a peer's files and starts it.
func (b *bench) startPeer(ctx context.Context, p peer) (*server, error) {
	port, err := b.freePort()
	if err != nil {
		return nil, err
	}
	dir, err := b.folder(p.name)
	if err != nil {
		return nil, err
	}
	if err := writeFiles(dir, p.files(b, dir, port)); err != nil {
		return nil, err
	}
	program := p.program
	if program == "coredns" {
		program = b.coreDNS
	}
	s := &server{name: p.name, dir: dir, port: port}
	if err := b.start(s, p.env, program, p.args(dir)...); err != nil {
		return nil, err
	}
	if err := s.ready(ctx, p.asks); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// inDir returns a command line in which DIR stands for the folder.
func inDir(args string) func(string) []string {
	return func(dir string) []string { return strings.Fields(strings.ReplaceAll(args, "DIR", dir)) }
}

// fill replaces DIR and PORT in a configuration.
func fill(text, dir string, port int) string {
	return strings.NewReplacer("DIR", dir, "PORT", strconv.Itoa(port)).Replace(text)
}

func staticAsks() string   { return staticName(0) + "." + staticZone }
func weightedAsks() string { return serviceName(0) + "." + weightedZone }

// The servers of static data. One worker each, as each has one core.
func gdnsdStatic() peer {
	return peer{name: "gdnsd", program: "gdnsd", args: inDir("-c DIR start"), asks: staticAsks(), files: func(_ *bench, dir string, port int) map[string]string {
		return map[string]string{
			"config":              gdnsdOptions(dir, port),
			"zones/" + staticZone: staticZoneFile(),
			"run/.keep":           "",
			"state/.keep":         "",
		}
	}}
}

func gdnsdOptions(dir string, port int) string {
	return fill(`options => {
  listen => 127.0.0.1:PORT
  udp_threads => 1
  tcp_threads => 1
  run_dir => DIR/run
  state_dir => DIR/state
}
`, dir, port)
}

func knotStatic() peer {
	return peer{name: "knot", program: "knotd", args: inDir("-c DIR/knot.conf"), asks: staticAsks(), files: func(_ *bench, dir string, port int) map[string]string {
		return map[string]string{
			staticZone + ".zone": staticZoneFile(),
			"knot.conf": fill(`server:
    listen: 127.0.0.1@PORT
    rundir: DIR
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    tcp-max-clients: 2000
log:
  - target: stderr
    any: warning
database:
    storage: DIR
template:
  - id: default
    storage: DIR
    file: "%s.zone"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
zone:
  - domain: `+staticZone+"\n", dir, port),
		}
	}}
}

// Debian's nsd limits responses unless told not to.
func nsdStatic() peer {
	return peer{name: "nsd", program: "nsd", args: inDir("-d -c DIR/nsd.conf"), asks: staticAsks(), files: func(_ *bench, dir string, port int) map[string]string {
		return map[string]string{
			"static.zone": staticZoneFile(),
			"nsd.conf": fill(`server:
    ip-address: 127.0.0.1@PORT
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "DIR"
    database: ""
    pidfile: "DIR/nsd.pid"
    xfrdfile: "DIR/xfrd.state"
    xfrdir: "DIR"
    zonelistfile: "DIR/zone.list"
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: `+staticZone+`
    zonefile: static.zone
`, dir, port),
		}
	}}
}

func namedStatic() peer {
	return peer{name: "named", program: "named", args: inDir("-c DIR/named.conf -f -n 1"), asks: staticAsks(), files: func(_ *bench, dir string, port int) map[string]string {
		return map[string]string{
			"static.zone": staticZoneFile(),
			"named.conf": fill(`options {
  directory "DIR";
  pid-file none;
  session-keyfile none;
  lock-file none;
  listen-on port PORT { 127.0.0.1; };
  listen-on-v6 { none; };
  recursion no;
  minimal-responses yes;
};
controls { };
zone "`+staticZone+`" { type primary; file "static.zone"; };
`, dir, port),
		}
	}}
}

// pdnsOptions: with Lua records not shared, each thread makes an interpreter for
// each query, which is 25 to 40 times slower.
func pdnsOptions(dir string, port int) string {
	return fill(`launch=bind
bind-config=DIR/named.conf
local-address=127.0.0.1
local-port=PORT
socket-dir=DIR
receiver-threads=1
distributor-threads=1
enable-lua-records=shared
security-poll-suffix=
guardian=no
daemon=no
loglevel=3
disable-syslog=yes
`, dir, port)
}

func pdnsZone(name string) string {
	return fmt.Sprintf("zone %q { type master; file \"DIR/zone\"; };\n", name)
}

func pdnsStatic() peer {
	return peer{name: "pdns", program: "pdns_server", args: inDir("--config-dir=DIR"), asks: staticAsks(), files: func(_ *bench, dir string, port int) map[string]string {
		return map[string]string{
			"pdns.conf":  pdnsOptions(dir, port),
			"named.conf": fill(pdnsZone(staticZone), dir, port),
			"zone":       staticZoneFile(),
		}
	}}
}

// CoreDNS gets a second processor of the runtime: on one its goroutines wait for the
// collector.
func coreDNSStatic() peer {
	return peer{name: "CoreDNS", program: "coredns", args: inDir("-quiet -conf DIR/Corefile"), env: []string{"GOMAXPROCS=2"}, asks: staticAsks(), files: func(_ *bench, dir string, port int) map[string]string {
		return map[string]string{
			"zone":     staticZoneFile(),
			"Corefile": fill(staticZone+":PORT {\n  bind 127.0.0.1\n  file DIR/zone\n}\n", dir, port),
		}
	}}
}

// The servers of names that are weighted and health-checked.

// gdnsdDynamic has a resource of a plugin for each name, all on the same endpoints,
// which it asks once for all.
func gdnsdDynamic(plugin string) peer {
	return peer{name: "gdnsd " + plugin, program: "gdnsd", args: inDir("-c DIR start"), asks: weightedAsks(), files: func(b *bench, dir string, port int) map[string]string {
		var resources, zone strings.Builder
		zone.WriteString(zoneHead(weightedZone))
		for i := range nameCount {
			fmt.Fprintf(&resources, "    %s => {", serviceName(i))
			for k := range clusterCount {
				if plugin == "weighted" {
					fmt.Fprintf(&resources, " %s => [ %s, %d ],", clusterName(k), clusterAddress(k), clusterWeight(k))
				} else {
					fmt.Fprintf(&resources, " %s => %s,", clusterName(k), clusterAddress(k))
				}
			}
			resources.WriteString(" }\n")
			fmt.Fprintf(&zone, "%s DYNA %s!%s\n", serviceName(i), plugin, serviceName(i))
		}
		return map[string]string{
			"config": gdnsdOptions(dir, port) + fmt.Sprintf(`service_types => {
  web => { plugin => http_status, port => %d, url_path => %s, interval => 2, timeout => 1 }
}
plugins => {
  %s => {
    service_types => web
%s  }
}
`, b.ends.port, healthPath, plugin, resources.String()),
			"zones/" + weightedZone: zone.String(),
			"run/.keep":             "",
			"state/.keep":           "",
		}
	}}
}

// pdnsLua checks that the port answers, and picks at random among those that do.
func pdnsLua() peer {
	return peer{name: "pdns Lua", program: "pdns_server", args: inDir("--config-dir=DIR"), asks: weightedAsks(), files: func(b *bench, dir string, port int) map[string]string {
		var zone strings.Builder
		zone.WriteString(zoneHead(weightedZone))
		var addrs []string
		for k := range clusterCount {
			addrs = append(addrs, "'"+clusterAddress(k)+"'")
		}
		for i := range nameCount {
			fmt.Fprintf(&zone, "%s IN LUA A \"ifportup(%d, {%s})\"\n", serviceName(i), b.ends.port, strings.Join(addrs, ","))
		}
		return map[string]string{
			"pdns.conf":  pdnsOptions(dir, port),
			"named.conf": fill(pdnsZone(weightedZone), dir, port),
			"zone":       zone.String(),
		}
	}}
}

// reason returns why a peer cannot be had, or "".
func (b *bench) reason(p peer) string { return b.absent[filepath.Base(p.program)] }
