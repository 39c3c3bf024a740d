package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// geoNetworks is how many networks the GeoIP database has. The senders' network is
// cut into 2 to the 18th of them; the rest is elsewhere.
const (
	geoNetworks     = 300_000
	geoSenders      = 1 << 18
	geoSendersBits  = 26
	geoElsewhere    = 1 << 24 // 1.0.0.0
	geoElsewhereLen = 24
)

// geoCountries are where networks are: neighbours are never at the same place, or
// they would be one network.
var geoCountries = []struct {
	code, continent     string
	latitude, longitude float64
}{
	{"IE", "EU", 53.3, -6.3},
	{"US", "NA", 39.0, -77.5},
	{"JP", "AS", 35.7, 139.7},
	{"BR", "SA", -23.5, -46.6},
	{"DE", "EU", 50.1, 8.7},
	{"ZA", "AF", -33.9, 18.4},
	{"AU", "OC", -33.9, 151.2},
	{"IN", "AS", 19.1, 72.9},
}

// geoRegions places the clusters' regions, one in each country.
func geoRegions() string {
	var text strings.Builder
	text.WriteString("regions:\n")
	for k := range clusterCount {
		c := geoCountries[k%len(geoCountries)]
		fmt.Fprintf(&text, "  r%d: { coordinates: [%.1f, %.1f], countries: [%s] }\n", k, c.latitude, c.longitude, c.code)
	}
	return text.String()
}

// geoDatabase makes a GeoIP file.
func geoDatabase() (string, error) {
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Bench-City", RecordSize: 28, IncludeReservedNetworks: true, IPVersion: 4})
	if err != nil {
		return "", err
	}
	var data []mmdbtype.Map
	for _, c := range geoCountries {
		data = append(data, mmdbtype.Map{
			"country":   mmdbtype.Map{"iso_code": mmdbtype.String(c.code)},
			"continent": mmdbtype.Map{"code": mmdbtype.String(c.continent)},
			"location":  mmdbtype.Map{"latitude": mmdbtype.Float64(c.latitude), "longitude": mmdbtype.Float64(c.longitude)},
		})
	}
	// Each network is elsewhere than the one before it, in no order.
	draw, place := mathrand.New(mathrand.NewPCG(1, 2)), 0
	for i := range geoNetworks {
		first, bits := uint32(127<<24)+uint32(i)<<(32-geoSendersBits), geoSendersBits
		if i >= geoSenders {
			first, bits = geoElsewhere+uint32(i-geoSenders)<<(32-geoElsewhereLen), geoElsewhereLen
		}
		network := &net.IPNet{IP: net.IPv4(byte(first>>24), byte(first>>16), byte(first>>8), byte(first)).To4(), Mask: net.CIDRMask(bits, 32)}
		place = (place + 1 + draw.IntN(len(data)-1)) % len(data)
		if err := w.Insert(network, data[place]); err != nil {
			return "", err
		}
	}
	var out bytes.Buffer
	_, err = w.WriteTo(&out)
	return out.String(), err
}

// zoneKeys makes the keys of a signed zone, as openssl genpkey would.
func zoneKeys() (map[string]string, error) {
	files := map[string]string{}
	for _, name := range []string{"ksk.pem", "zsk.pem"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		files[name] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	return files, nil
}

// writeSecret writes files that only their owner may read.
func writeSecret(dir string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
