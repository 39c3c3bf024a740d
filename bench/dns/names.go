package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// What every server serves.
const (
	nameCount    = 1000
	staticZone   = "static.bench.test"
	signedZone   = "signed.bench.test"
	weightedZone = "gslb.bench.test"
	clusterCount = 8
)

// A static name and its address. All are equally long, since the kernel can cut
// only equal queries from one (UDP_SEGMENT).
func staticName(i int) string    { return fmt.Sprintf("n%04d", i) }
func staticAddress(i int) string { return fmt.Sprintf("10.1.%d.%d", i>>8, i&0xff) }

// A service and what it answers with, by weight.
func serviceName(i int) string    { return fmt.Sprintf("w%04d", i) }
func clusterName(k int) string    { return fmt.Sprintf("c%d", k) }
func clusterAddress(k int) string { return fmt.Sprintf("127.0.1.%d", k+1) }
func clusterWeight(k int) int     { return 10 * (k + 1) }

// questions writes a file of questions in an order that no server is made for, the
// same in every run.
func (b *bench) questions(zone string, name func(int) string, address func(int) string) (string, error) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(nameCount)
	var text strings.Builder
	for _, i := range order {
		fmt.Fprintf(&text, "%s.%s A", name(i), zone)
		if address != nil {
			fmt.Fprintf(&text, " %s", address(i))
		}
		text.WriteByte('\n')
	}
	path := filepath.Join(b.dir, zone+".questions")
	return path, os.WriteFile(path, []byte(text.String()), 0o600)
}

// zoneHead is what a master file needs beside its names.
func zoneHead(zone string) string {
	return fmt.Sprintf("$ORIGIN %[1]s.\n$TTL 30\n@ IN SOA ns.%[1]s. hostmaster.%[1]s. 1 3600 900 604800 30\n@ IN NS ns.%[1]s.\nns IN A 127.0.0.1\n", zone)
}

// staticZoneFile is the zone of static names as a master file.
func staticZoneFile() string {
	var text strings.Builder
	text.WriteString(zoneHead(staticZone))
	for i := range nameCount {
		fmt.Fprintf(&text, "%s IN A %s\n", staticName(i), staticAddress(i))
	}
	return text.String()
}

// writeFiles writes files into a folder, by name.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // other users than ours read some
			return err
		}
	}
	return nil
}
