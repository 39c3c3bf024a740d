package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const zoneFileRest = "clusters: { eu: { region: eu-west, ipv4: [192.0.2.10] } }\nservices: { web: { policy: { type: weighted }, check: { http: {} }, zone: gslb.example.com } }\n"

// readFields is a ZoneReader of a file of OWNER TTL TYPE DATA lines.
func readFields(_, text string) ZoneFile {
	var f ZoneFile
	for i, line := range strings.Split(text, "\n") {
		switch word := strings.SplitN(line, " ", 4); {
		case line == "":
		case word[0] == "!":
			f.Errors = append(f.Errors, ZoneNote{i + 1, "must not be"})
		case word[0] == "?":
			f.Ignored = append(f.Ignored, ZoneNote{i + 1, "is ignored"})
		default:
			ttl, _ := strconv.ParseUint(word[1], 10, 32)
			f.Records = append(f.Records, ZoneRecord{i + 1, word[0], word[2], uint32(ttl), word[3]})
		}
	}
	return f
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	}
}

func TestAZoneFileBecomesRecords(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, map[string]string{
		"spec/a.yaml":        "version: 1\nzones:\n  GSLB.example.com: # ours\n    zone_file: 'zones/it''s.db' # beside\n    records: { www: { TXT: [x] } }\n  b.example.com: { zone_file: b.db, ns_ttl: 1h }\n",
		"spec/b.yaml":        zoneFileRest,
		"spec/zones/it's.db": "@ 3600 TXT \"it's\"\nwww 60 A 192.0.2.1\nwww 60 A 192.0.2.2\nwww 60 A 192.0.2.1\nwww 5 A 192.0.2.3\n? 0 SOA\n*.x 0 TYPE65534 \\# 1 00\n10 90 PTR host.example.\n",
		"spec/b.db":          "",
	})
	r, errs := LoadSpec([]string{filepath.Join(dir, "spec")}, readFields)
	require.Empty(t, Format(errs))
	z := r.Spec.Zones["gslb.example.com."]
	require.Equal(t, map[string]map[string][]string{
		"@": {"TXT": {`"it's"`}}, "www": {"TXT": {"x"}, "A": {"192.0.2.1", "192.0.2.2", "192.0.2.3"}},
		"*.x": {"TYPE65534": {`\# 1 00`}}, "10": {"PTR": {"host.example."}},
	}, z.Records)
	require.Equal(t, map[string]map[string]uint32{"@": {"TXT": 3600}, "www": {"A": 5}, "*.x": {"TYPE65534": 0}, "10": {"PTR": 90}}, z.TTLs)
	require.Empty(t, r.Spec.Zones["b.example.com."].Records)
	db := filepath.Join(dir, "spec/zones/it's.db")
	require.Equal(t, []string{
		db + ":5:1: zones.GSLB.example.com.zone_file: records of one type have one TTL (RFC 2181 5.2): those of www A get the least, 5s",
		db + ":6:1: zones.GSLB.example.com.zone_file: is ignored",
	}, []string{r.Ignored[0].String(), r.Ignored[1].String()})

	// What is sent reads back to the same without the file, comments are kept.
	require.NotContains(t, r.Source, "zone_file: 'zones")
	require.Contains(t, r.Source, `zone_file: "" # beside`)
	again, errs := ParseSpec("posted", []byte(r.Source))
	require.Empty(t, Format(errs))
	require.Equal(t, r.Spec, again.Spec)
	require.Equal(t, r.Source, again.Source)
	saved := filepath.Join(t.TempDir(), "saved.yaml")
	require.NoError(t, os.WriteFile(saved, []byte(r.Source), 0o600))
	again, errs = LoadSpec([]string{saved}, nil)
	require.Empty(t, Format(errs))
	require.Equal(t, r.Spec, again.Spec)
}

func TestErrorsOfAZoneFileHaveItsPlaces(t *testing.T) {
	dir := t.TempDir()
	spec := filepath.Join(dir, "spec.yaml")
	writeAll(t, dir, map[string]string{
		"spec.yaml": "version: 1\nzones:\n  gslb.example.com:\n    zone_file: a.db\n    records: { www: { A: [192.0.2.9] }, old: { A: { ttl: 1h, data: [192.0.2.9] } } }\n  b.example.com: { zone_file: none.db }\n  c.example.com: { zone_file: . }\n  d.example.com: { zone_file: !!str a.db }\n" + zoneFileRest,
		"a.db":      "! wrong\nwww 60 A 192.0.2.1\nold 60 A 192.0.2.1\nx 60 A nothing\nx 60 CNAME y\n! too\n",
	})
	_, errs := LoadSpec([]string{spec}, readFields)
	db := filepath.Join(dir, "a.db")
	require.Equal(t, strings.Join([]string{
		spec + `:6:31: zones.b.example.com.zone_file: must be a file that can be read, is "` + filepath.Join(dir, "none.db") + `": no such file or directory`,
		spec + `:7:31: zones.c.example.com.zone_file: must be a file, is "` + dir + `", which is none`,
		spec + `:8:31: zones.d.example.com.zone_file: must be a path on the line of its key, without anchor or tag`,
		db + ":1:1: zones.gslb.example.com.zone_file: must not be",
		db + ":2:1: zones.gslb.example.com.records.www.A: must be set in one file only, is also set at " + spec + ":5:26",
		db + ":3:1: zones.gslb.example.com.records.old.A.data: must be set in one file only, is also set at " + spec + ":5:68",
		db + ":3:1: zones.gslb.example.com.records.old.A.ttl: must be set in one file only, is also set at " + spec + ":5:58",
		db + ":4:1: zones.gslb.example.com.records.x.A.data[0]: must be an IPv4 address, is \"nothing\"",
		db + ":5:1: zones.gslb.example.com.records.x.CNAME: must be the only type of its owner, is one of A, CNAME (RFC 1034, 3.6.2)",
		db + ":6:1: zones.gslb.example.com.zone_file: must not be",
	}, "\n"), strings.Join(lines(errs), "\n"))
}

func TestScalarTextReadsBack(t *testing.T) {
	for _, s := range []string{
		"www", "null", "~", "true", "no", "10", "1.5", "1e3", "0x1f", "192.0.2.1", "2001:db8::1", `"a b"`, "it's", "a.example.", "*", "*.x", "@", "_dmarc", "-", "a: b", "# x", "a #b", "", "10 mx.", `\# 0`,
		"123.456", "1_000", "0b1", "0o7", ".inf", "nan", "2001-01-01", "<<", "host-1.", "1.2.3", "on", "off", "yes", "y", "inf", "abcdef", "infinity", "1e10.2.3", "deadbeef", "1E5",
	} {
		n := parseText(newCollector(nil), newText("t", fmt.Sprintf("%s: [%s]\n", scalarText("k"), scalarText(s))))
		require.NotNil(t, n, s)
		item := n.keys[0].val.items[0]
		require.Equal(t, []string{s, "!!str"}, []string{item.text, item.tag}, scalarText(s))
		if s != "" {
			n = parseText(newCollector(nil), newText("t", scalarText(s)+": x\n"))
			require.NotNil(t, n, s)
			require.Equal(t, s, n.keys[0].key)
		}
	}
}

func TestAZoneFileIsAFileBesideTheSpec(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "spec")
	writeAll(t, top, map[string]string{"secret": "password", "spec/zones/a.db": "in", "spec/large": ""})
	require.NoError(t, os.Truncate(filepath.Join(dir, "large"), MaxZoneFileSize+1))
	for name, to := range map[string]string{"out": "../secret", "absolute": filepath.Join(top, "secret"), "in": "zones/a.db"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	const outside = "must be in the directory of the file that names it, or below"
	for name, want := range map[string]string{
		"zones/a.db":                     "",
		"zones/../zones/a.db":            "",
		filepath.Join(dir, "zones/a.db"): "",
		"in":                             "",
		"../secret":                      outside,
		filepath.Join(top, "secret"):     outside,
		"/dev/zero":                      outside,
		"out":                            "escapes",
		"absolute":                       "escapes",
		".":                              "which is none",
		"large":                          "at most 4194304 bytes",
	} {
		_, body, why := readBeside(dir, name)
		require.Contains(t, why, want, name)
		require.Equal(t, map[bool]string{true: "in"}[want == ""], body, name)
	}

	t.Chdir(dir)
	_, body, why := readBeside(".", filepath.Join(dir, "zones/a.db"))
	require.Empty(t, why)
	require.Equal(t, "in", body)

	// A joined file does not say where it is.
	joined := filepath.Join(dir, "joined.yaml")
	require.NoError(t, os.WriteFile(joined, []byte(marker+filepath.Join(top, "x.yaml")+"\nzones: { gslb.example.com: { zone_file: secret } }\n"), 0o600))
	_, errs := LoadSpec([]string{joined}, readFields)
	require.Contains(t, Format(errs), filepath.Join(dir, "secret")+`": no such file or directory`)
}
