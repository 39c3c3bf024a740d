package node

import (
	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/dnsserver"
)

// trafficNetworks bounds the client networks that a node tells of, of all services
// together: a reply of a hundred kilobytes.
const trafficNetworks = 2000

// traffic is what clients asked this node's DNS for lately.
func (n *Node) traffic() api.Traffic {
	seen := n.dns.Traffic(trafficNetworks)
	out := api.Traffic{Hour: seen.Hour, Recent: seen.Recent, Services: make([]api.ServiceTraffic, len(seen.Services))}
	for i, sv := range seen.Services {
		out.Services[i] = serviceTraffic(sv)
	}
	return out
}

func serviceTraffic(sv dnsserver.ServiceTraffic) api.ServiceTraffic {
	out := api.ServiceTraffic{
		Service: sv.Service, Answers: sv.Answers, Recent: sv.Recent,
		RecentNetworks: sv.RecentNetworks, More: sv.More, Networks: make([]api.NetworkTraffic, len(sv.Networks)),
	}
	for i, network := range sv.Networks {
		out.Networks[i] = api.NetworkTraffic(network)
	}
	return out
}
