package config

import "time"

func port() *schema { return integer(1, 65535) }

// check declares a check; an inline one may have a name.
func check(inline bool) *schema {
	var fields []field
	if inline {
		fields = append(fields, key("name", "Name in votes and metrics; \"check\" when not set.", label()))
	}
	fields = append(fields, timing(false)...)
	fields = append(fields,
		key("http", "A request over HTTP.", request("80", false)),
		key("https", "A request over HTTPS.", request("443", true)),
		key("tcp", "A connection.", object(
			key("port", "Port.", port().req()),
			key("send", "What is sent; \"\": nothing.", wireText()),
			key("expect", "What must be found in the first 64KiB that come back; \"\": a connection is enough.", wireText()),
		).opt()),
		key("grpc", "A call of the standard gRPC health service, which must say SERVING.", object(
			key("port", "Port.", port().dflt("443")),
			key("service", "Service asked for; \"\": the server as a whole.", str()),
			key("host", "Authority and SNI; with tls for a service {service}.{zone} when not set.", hostPattern()),
			key("tls", "How the server is verified; plain text when not set.", tlsOptions().opt()),
		).opt()),
		key("dns", "A DNS query, over TCP when the answer is truncated.", object(
			key("port", "Port.", port().dflt("53")),
			key("name", "Name asked for, in which {service} and {zone} may stand.", namePattern().req()),
			key("type", "Type asked for.", dnsType().dflt("A")),
			key("expect", "What must come back.", object(
				key("rcode", "Response code.", rcode().dflt("NOERROR")),
				key("answer_regex", "What the data of some answer record must match.", regex()),
			)),
		).opt()),
		key("tls", "A TLS handshake: chain, name and dates must hold.", object(
			key("port", "Port.", port().dflt("443")),
			key("server_name", "SNI and verified name; for a service {service}.{zone} when not set; \"\": the chain alone is verified.", serverName()),
			key("alpn", "Protocols offered, of which the server must choose one.", listOf(alpn())),
			key("warn", "What makes it degraded.", warn(true)),
		).opt()),
		key("icmp", "Pings, through the system's unprivileged sockets.", object(
			key("count", "Pings in a probe.", integer(1, 100).dflt("3")),
			key("expect", "What must come back.", object(
				key("max_loss", "Part that may be lost.", decimal(0, 1).dflt("0.5")),
			)),
		).opt()),
	)
	return object(fields...).opt()
}

// warn declares what makes a target degraded; only TLS has a certificate.
func warn(secure bool) *schema {
	fields := []field{key("max_latency", "Slower results.", duration(time.Millisecond, time.Hour))}
	if secure {
		fields = append(fields, key("cert_expires_after", "Certificate that expires sooner.", duration(time.Minute, 365*day)))
	}
	return object(fields...)
}

func tlsOptions() *schema {
	return object(
		key("server_name", "SNI and verified name; host when not set.", hostPattern()),
		key("verify", "Whether the certificate is verified.", boolean().dflt("true")),
		key("ca", "Secret with the CA in PEM; the system's when not set.", secretRef()),
	)
}

// mostBody bounds what is read of a response, in bytes; see probe.
const mostBody = 64 << 10

func request(defaultPort string, secure bool) *schema {
	host := "Host header; the endpoint's address when not set."
	if secure {
		host = "Host header and SNI; for a service {service}.{zone} when not set."
	}
	fields := []field{
		key("port", "Port.", port().dflt(defaultPort)),
		key("method", "Method.", enum("GET", "HEAD", "OPTIONS", "POST").dflt("GET")),
		key("path", "Path and query.", urlPath().dflt("/")),
		key("host", host, hostPattern()),
		key("headers", "Headers sent.", mapOf(headerName(), headerValue())),
		key("reuse", "Keep the connection between probes, for a minute at most.", boolean().dflt("false")),
		key("expect", "What makes a response good.", object(
			key("status", "Statuses and ranges.", listOf(statusRange()).min(1).dflt("200-299")),
			key("body_regex", "What the first 64KiB of the body must match.", regex()),
			key("header", "Regexes that some value of a header must match.", mapOf(headerName(), regex())),
			key("json", "JSONPaths and the scalar that must be there.", mapOf(jsonPath(), scalarValue())),
			key("max_latency", "Slower responses are bad; at most the timeout.", duration(time.Millisecond, time.Hour)),
			key("max_body", "Longer bodies are bad; no bound when not set.", size(1, mostBody)),
		)),
		key("warn", "What makes a target degraded.", warn(secure)),
	}
	if secure {
		fields = append(fields, key("tls", "How the server is verified.", tlsOptions()))
	}
	return object(fields...).opt()
}
