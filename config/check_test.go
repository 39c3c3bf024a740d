package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

const ms = statestore.Duration(time.Millisecond)

// probed returns the only check of a service with the names [api, www] in
// gslb.example.com, or of the front door of a cluster.
func probed(t *testing.T, service, cluster string) *statestore.Check {
	t.Helper()
	source := "version: 1\nzones: { gslb.example.com: {} }\n"
	if cluster == "" {
		source += "clusters: { eu: { region: eu-west, ipv4: [192.0.2.10] } }\n" +
			"services: { web: { names: [api, www], policy: { type: weighted }, check: { " + service + " } } }\n"
	} else {
		source += "clusters: { eu: { region: eu-west, " + cluster + " } }\nservices: {}\n"
	}
	r, errs := ParseSpec("spec.yaml", []byte(source))
	require.Empty(t, Format(errs))
	require.Empty(t, FormatNotes(r.Unused))
	if cluster != "" {
		return r.Spec.Clusters["eu"].Check
	}
	return r.Spec.Services["web"].Checks.All[0]
}

func TestChecksOfEveryKind(t *testing.T) {
	ok := []statestore.StatusRange{{Low: 200, High: 299}}
	verified := &statestore.TLSCheck{Verify: true}
	tests := []struct {
		name, check, door string
		want              any
	}{
		{"https asks for the service's name", "https: {}", "", statestore.HTTPCheck{Port: 443, Method: "GET", Path: "/", Host: "api.gslb.example.com", TLS: verified, Expect: statestore.HTTPExpect{Status: ok}}},
		{"http asks for the address", "http: {}", "", statestore.HTTPCheck{Port: 80, Method: "GET", Path: "/", Expect: statestore.HTTPExpect{Status: ok}}},
		{"a front door of addresses asks for them", "", "ipv4: [192.0.2.10], check: { https: {} }", statestore.HTTPCheck{Port: 443, Method: "GET", Path: "/", TLS: verified, Expect: statestore.HTTPExpect{Status: ok}}},
		{"a front door of a hostname asks for it", "", "hostname: LB.example.net, check: { http: {} }", statestore.HTTPCheck{Port: 80, Method: "GET", Path: "/", Host: "lb.example.net", Expect: statestore.HTTPExpect{Status: ok}}},
		{"unless another host is named", "", "hostname: lb.example.net, check: { http: { host: x.example.net } }", statestore.HTTPCheck{Port: 80, Method: "GET", Path: "/", Host: "x.example.net", Expect: statestore.HTTPExpect{Status: ok}}},
		{"tcp needs no more than a connection", "tcp: { port: 5432 }", "", statestore.TCPCheck{Port: 5432}},
		{"tcp sends what stands there", `tcp: { port: 25, send: "EHLO {service}\r\n", expect: "250" }`, "", statestore.TCPCheck{Port: 25, Send: "EHLO {service}\r\n", Expect: "250"}},
		{"tls verifies the service's name", "tls: {}", "", statestore.HandshakeCheck{Port: 443, ServerName: "api.gslb.example.com"}},
		{"unless no name is asked for", `tls: { server_name: "", alpn: [imap] }`, "", statestore.HandshakeCheck{Port: 443, ALPN: []string{"imap"}}},
		{"a front door's tls verifies the hostname", "", "hostname: lb.example.net, check: { tls: { port: 465 } }", statestore.HandshakeCheck{Port: 465, ServerName: "lb.example.net"}},
		{"grpc is plain without tls", "grpc: { service: orders.v1.Orders }", "", statestore.GRPCCheck{Port: 443, Service: "orders.v1.Orders"}},
		{"grpc with tls verifies the service's name", "grpc: { port: 8443, tls: {} }", "", statestore.GRPCCheck{Port: 8443, Host: "api.gslb.example.com", TLS: verified}},
		{"grpc may be asked for another", `grpc: { host: "{service}-rpc.{zone}", tls: { ca: { secret: mesh-ca } } }`, "", statestore.GRPCCheck{Port: 443, Host: "api-rpc.gslb.example.com", TLS: &statestore.TLSCheck{Verify: true, CA: "mesh-ca"}}},
		{"dns asks for an address", "dns: { name: Probe.Example.com }", "", statestore.DNSCheck{Port: 53, Name: "probe.example.com.", Type: "A", RCode: "NOERROR"}},
		{"dns asks for the service's zone", `dns: { port: 5353, name: "{zone}", type: SOA, expect: { rcode: REFUSED } }`, "", statestore.DNSCheck{Port: 5353, Name: "gslb.example.com.", Type: "SOA", RCode: "REFUSED"}},
		{"dns may ask for the root", "dns: { name: ., type: NS }", "", statestore.DNSCheck{Port: 53, Name: ".", Type: "NS", RCode: "NOERROR"}},
		{"icmp may lose half of three", "icmp: {}", "", statestore.ICMPCheck{Count: 3, MaxLoss: 0.5}},
		{"icmp may lose nothing", "icmp: { count: 5, expect: { max_loss: 0 } }", "", statestore.ICMPCheck{Count: 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := probed(t, tt.check, tt.door)
			switch want := tt.want.(type) {
			case statestore.HTTPCheck:
				if want.TLS != nil {
					require.Equal(t, &want, c.HTTPS)
				} else {
					require.Equal(t, &want, c.HTTP)
				}
			case statestore.TCPCheck:
				require.Equal(t, &want, c.TCP)
			case statestore.HandshakeCheck:
				require.Equal(t, &want, c.TLS)
			case statestore.GRPCCheck:
				require.Equal(t, &want, c.GRPC)
			case statestore.DNSCheck:
				require.Equal(t, &want, c.DNS)
			case statestore.ICMPCheck:
				require.Equal(t, &want, c.ICMP)
			}
		})
	}
}

// What JSON must hold is its text there, however YAML lets people write it.
func TestExpectationsAreCarried(t *testing.T) {
	c := probed(t, `https: { expect: { status: [204, "300-302"], body_regex: ok, header: { content-type: json },
      json: { $.db: ready, "$['a b']": "1", $.n: 12, $.f: 1.50, $.yes: True, "$.list[?@.up].name": "" },
      max_latency: 800ms, max_body: 16KiB }, warn: { cert_expires_after: 7d, max_latency: 400ms } }`, "")
	require.Equal(t, statestore.HTTPExpect{
		Status: []statestore.StatusRange{{Low: 204, High: 204}, {Low: 300, High: 302}}, BodyRegex: "ok",
		Header:     map[string]string{"content-type": "json"},
		JSON:       map[string]string{"$.db": "ready", "$['a b']": "1", "$.n": "12", "$.f": "1.50", "$.yes": "true", "$.list[?@.up].name": ""},
		MaxLatency: 800 * ms, MaxBody: 16 << 10,
	}, c.HTTPS.Expect)
	require.Equal(t, statestore.Warn{CertExpiresAfter: statestore.Duration(7 * day), MaxLatency: 400 * ms}, c.HTTPS.Warn)

	c = probed(t, "tls: { warn: { cert_expires_after: 14d } }", "")
	require.Equal(t, statestore.Warn{CertExpiresAfter: statestore.Duration(14 * day)}, c.TLS.Warn)
	require.Nil(t, probed(t, "https: {}", "").HTTPS.Expect.JSON)
}

func TestNamesAtTheApex(t *testing.T) {
	for _, tt := range []struct{ names, host string }{{`["@", www]`, "gslb.example.com"}, {`[www, "@"]`, "www.gslb.example.com"}} {
		s := one(t, "", "names: "+tt.names+", policy: {type: geo}, check: {tls: {}}, https_record: {alpn: [h2]}, srv: {port: 443}")
		require.Equal(t, tt.host, s.Checks.All[0].TLS.ServerName)
		require.Equal(t, &statestore.HTTPSRecord{ALPN: []string{"h2"}}, s.HTTPSRecord)
		require.Equal(t, &statestore.SRVRecord{Port: 443, Proto: "tcp"}, s.SRV)
	}
}

func TestSecretNames(t *testing.T) {
	r, errs := ParseSpec("s", []byte(`
version: 1
zones: { gslb.example.com: { dnssec: { mode: on, ksk: { secret: ksk-1, previous: ksk-0 }, zsk: { secret: zsk-1, next: zsk-2 } } } }
clusters: { eu: { region: eu-west, ipv4: [192.0.2.10], check: { https: { tls: { ca: { secret: door-ca } } } } } }
checks:
  rpc: { grpc: { tls: { ca: { secret: rpc-ca } } } }
  web: { https: { tls: { ca: { secret: mesh-ca } } } }
  unused: { https: { tls: { ca: { secret: nobody } } } }
services: { web: { policy: { type: weighted }, checks: { all: [web], any: [rpc] } } }
notify: { receivers: { bus: { webhook: { url: "https://x.example.net/", sign: { secret: bus-hmac } } } } }
`))
	require.Empty(t, Format(errs))
	require.Equal(t, []string{"bus-hmac", "door-ca", "ksk-0", "ksk-1", "mesh-ca", "rpc-ca", "zsk-1", "zsk-2"}, SecretNames(r.Spec))
	require.Empty(t, SecretNames(&statestore.Spec{}))
}
