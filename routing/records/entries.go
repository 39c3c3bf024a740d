package records

import (
	"iter"
	"strings"
)

// entry is what stands between two ends of line of a master file that are neither in
// quotes nor in parentheses.
type entry struct {
	line  int
	text  string // as it is, comments included
	bare  string // without comments and parentheses
	blank bool   // begins with a blank: the owner is that of the record before
	open  bool   // a quote or parenthesis is not closed
}

// entries yields the entries of a file that hold something. A quoted string ends on
// its line, so that one that is left open spoils no more than that.
func entries(text string) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		var (
			bare              strings.Builder
			start, first      = 0, 1
			depth, line       = 0, 1
			quoted, commented bool
			unbalanced        bool
		)
		for i := 0; i <= len(text); i++ {
			if i < len(text) && text[i] != '\n' {
				switch c := text[i]; {
				case commented:
				case c == '\\' && i+1 < len(text) && text[i+1] != '\n':
					bare.WriteString(text[i : i+2])
					i++
					continue
				case c == '"':
					quoted = !quoted
				case quoted:
				case c == ';':
					commented = true
				case c == '(':
					depth++
					bare.WriteByte(' ')
					continue
				case c == ')':
					unbalanced = unbalanced || depth == 0
					depth = max(0, depth-1)
					bare.WriteByte(' ')
					continue
				}
				if !commented {
					bare.WriteByte(text[i])
				}
				continue
			}
			unbalanced = unbalanced || quoted
			if quoted, commented = false, false; depth > 0 && i < len(text) && !unbalanced {
				line++
				bare.WriteByte(' ')
				continue
			}
			if strings.TrimSpace(bare.String()) != "" || unbalanced {
				whole := strings.TrimSuffix(text[start:i], "\r")
				e := entry{line: first, text: whole, bare: bare.String(), open: unbalanced || depth > 0}
				e.blank = whole[0] == ' ' || whole[0] == '\t'
				if !yield(e) {
					return
				}
			}
			line++
			start, first, depth, unbalanced = i+1, line, 0, false
			bare.Reset()
		}
	}
}
