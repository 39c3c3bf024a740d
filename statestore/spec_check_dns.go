package statestore

// checkDNS checks what all nodes answer alike.
func checkDNS(f *findings, d DNS) {
	if d.Cookies != nil && d.Cookies.Secret == "" {
		f.add("dns.cookies.secret", "must not be empty")
	}
}
