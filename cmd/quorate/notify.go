package main

import (
	"net"
	"os"
	"strings"
)

// notify tells systemd a fact such as "READY=1" when it started this process with
// Type=notify; else it does nothing. Nobody could act on a failure: systemd then ends
// a start that never became ready.
func notify(fact string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if name, abstract := strings.CutPrefix(path, "@"); abstract {
		path = "\x00" + name
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // a datagram: sent or not by now
	_, _ = conn.Write([]byte(fact))     // see above
}
