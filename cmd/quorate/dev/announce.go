package dev

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// ready is the line that `quorate dev -o json` prints once everything answers.
type ready struct {
	Zone     string         `json:"zone"`
	Console  string         `json:"console"`
	Nodes    []readyNode    `json:"nodes"`
	Clusters []readyCluster `json:"clusters"`
	Services []readyService `json:"services"`
	Users    []readyUser    `json:"users"`
}

type readyNode struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	DNS    string `json:"dns"` // IP:PORT
	API    string `json:"api"` // URL, without /v1
}

type readyCluster struct {
	Name      string       `json:"name"`
	Region    string       `json:"region"`
	Addresses []netip.Addr `json:"addresses"`
}

type readyService struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type readyUser struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

// announce says that everything answers: a line of JSON for scripts, the banner
// for people.
func (d *Demo) announce() error {
	if d.cfg.JSON {
		return json.NewEncoder(d.cfg.Out).Encode(d.ready())
	}
	_, err := fmt.Fprint(d.cfg.Out, d.banner())
	d.say("ready: %d voters, leader %s, serving %s serial %d", len(d.nodes), d.leader(), Zone, d.serial())
	return err
}

func (d *Demo) ready() ready {
	r := ready{
		Zone: Zone, Console: d.nodes[0].apiURL() + "/",
		Services: []readyService{{Name: webName, Kind: "stateless"}, {Name: ordersName, Kind: "stateful"}},
	}
	for _, n := range d.nodes {
		r.Nodes = append(r.Nodes, readyNode{Name: n.name, Region: n.region, DNS: n.dnsAddr(), API: n.apiURL()})
	}
	for _, c := range d.clusters {
		r.Clusters = append(r.Clusters, readyCluster{Name: c.name, Region: c.region, Addresses: []netip.Addr{c.addr}})
	}
	for _, u := range d.users {
		r.Users = append(r.Users, readyUser{Name: u.name, Token: u.token})
	}
	return r
}

// banner is what a person sees first. Its steps are for any order, each with
// what to expect.
func (d *Demo) banner() string {
	var dns []string
	for _, n := range d.nodes {
		dns = append(dns, fmt.Sprintf("127.0.0.1:%d (%s)", n.ports.dns, n.name))
	}
	first, last := d.nodes[0], d.nodes[len(d.nodes)-1]
	cut := d.nodes[min(1, len(d.nodes)-1)]
	web := "web." + strings.TrimSuffix(Zone, ".")
	steps := [][2]string{
		{"quorate dev watch", "every answer of every node, checked, and who takes writes: leave it running"},
		{fmt.Sprintf("dig +short -p %d @127.0.0.1 %s", first.ports.dns, web), "one cluster, by weight (no dig? quorate query " + web + ")"},
		{"quorate status", "what is up, who says so, what is answered"},
		{fmt.Sprintf("quorate dev blind %s eu", last.name), "one observer goes blind: outvoted, named, nothing moves"},
		{"quorate votes web", "who sees what"},
		{"quorate dev heal; quorate dev toggle eu down", "votes flip; web leaves eu in about a second; orders-db stays"},
		{"quorate cutover show CUT-1", "proposed 3 seconds later: what it rests on, what stands in its way"},
		{"quorate approve CUT-1 --reason \"site is gone\"", "shows the evidence and asks; alice signs"},
		{"quorate --as bob approve CUT-1 --reason \"site is gone\"", "the second signature: orders-db moves to us, under epoch 2"},
		{"quorate dev cut " + cut.name, "one node cut off: the others decide on; it answers on, and says so"},
		{"quorate dev heal; quorate dev toggle eu up", "web returns to eu; orders-db does not"},
		{"quorate failback orders-db --reason \"eu is back\"", "proposes the way back; bob and carol sign it (--as)"},
		{"quorate drain us --for 2h --reason upgrade --confirm us", "a person takes a cluster out; then: quorate undrain us"},
		{"quorate dev lag orders-db frozen", "replication stops: watch shows the rows that a move would lose"},
		{"quorate dev kill all; quorate dev start " + first.name, "one node alone answers the last agreed table"},
	}
	width := 0
	for _, s := range steps {
		width = max(width, len(s[0]))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "quorate dev %s    DEMO on 127.0.0.1, data in a temporary folder. Do not use for real traffic.\n\n", d.cfg.Version)
	fmt.Fprintf(&b, "  console   %s/          (you are %s; switch at the top right)\n", first.apiURL(), d.users[0].name)
	fmt.Fprintf(&b, "  dns       %s\n", strings.Join(dns, "   "))
	fmt.Fprintf(&b, "  clusters  %s\n\n", d.clusterList())
	b.WriteString("  Try, in another terminal (quorate is ./bin/quorate here):\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "    %-*s  %s\n", width, s[0], s[1])
	}
	b.WriteString("  Ctrl-C ends it and removes the folder. All of it with captions, in a minute: quorate dev --scenario tour\n\n")
	return b.String()
}

// serial is that of the zone as the first running node has it.
func (d *Demo) serial() uint32 {
	for _, n := range d.nodes {
		if running := n.running(); running != nil {
			return running.Serial()
		}
	}
	return 0
}
