package routing

import (
	"fmt"
	"strings"
)

// Canonical returns name as the table spells it: ASCII letters in lower case and
// a final dot. It allocates only when name is spelled otherwise.
func Canonical(name string) string {
	lower := true
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' {
			lower = false
			break
		}
	}
	if !lower {
		b := []byte(name)
		for i, c := range b {
			if c >= 'A' && c <= 'Z' {
				b[i] = c + 'a' - 'A'
			}
		}
		name = string(b)
	}
	if !strings.HasSuffix(name, ".") || strings.HasSuffix(name, `\.`) {
		name += "."
	}
	return name
}

// parent returns name without its first label, or "" when name is the root.
func parent(name string) string {
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case '\\':
			i++ // whatever follows belongs to the label
		case '.':
			if i+1 == len(name) {
				return "" // the root is in no table
			}
			return name[i+1:]
		}
	}
	return ""
}

// absolute returns the canonical name of an owner relative to zone; "@" is the apex.
func absolute(owner, zone string) string {
	if owner == "@" || owner == "" {
		return zone
	}
	return Canonical(owner + "." + zone)
}

// within reports whether name is zone or below it.
func within(name, zone string) bool {
	for ; name != ""; name = parent(name) {
		if name == zone {
			return true
		}
	}
	return false
}

// packName appends the wire form of a name (RFC 1035 3.1) to b.
func packName(b []byte, name string) ([]byte, error) {
	start, label := len(b), len(b)
	b = append(b, 0)
	if name == "." {
		return b, nil
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '.':
			n := len(b) - label - 1
			if n == 0 || n > 63 {
				return nil, fmt.Errorf("name %q: a label must have 1 to 63 octets, has %d", name, n)
			}
			b[label] = byte(n)
			label = len(b)
			b = append(b, 0)
			continue
		case c == '\\' && i+3 < len(name) && digits(name[i+1:i+4]):
			b = append(b, (name[i+1]-'0')*100+(name[i+2]-'0')*10+(name[i+3]-'0'))
			i += 3
			continue
		case c == '\\' && i+1 < len(name):
			i++
			c = name[i]
		}
		b = append(b, c)
	}
	if len(b) != label+1 {
		return nil, fmt.Errorf("name %q: must end in a dot", name)
	}
	if len(b)-start > 255 {
		return nil, fmt.Errorf("name %q: must have at most 255 octets, has %d", name, len(b)-start)
	}
	return b, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
