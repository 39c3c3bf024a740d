package mesh

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// After the handshake the caller says its version, and the other side answers
// whether it takes the connection, and if not, why. Without that, TLS 1.3 lets a
// caller believe it is connected until its first read fails with an alert.
//
//	caller:   length byte, version
//	answerer: 0 | 1, length byte, version | reason
const (
	greetOK      = 0
	greetRefused = 1
)

func writeShort(w io.Writer, lead []byte, s string) error {
	s = s[:min(len(s), 255)]
	_, err := w.Write(append(append(lead, byte(len(s))), s...))
	return err
}

func readShort(r io.Reader) (string, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// greet is the caller's side.
func greet(rw io.ReadWriter, version string) error {
	written := writeShort(rw, nil, version)
	// A peer that does not trust this node has closed already. What it said on the
	// way out is better to know than that it is gone.
	var code [1]byte
	if _, err := io.ReadFull(rw, code[:]); err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
			return fmt.Errorf("%w: it does not take this node's certificate (%w)", ErrRefused, op.Err)
		}
		return cmp.Or(written, err)
	}
	text, err := readShort(rw)
	switch {
	case err != nil:
		return err
	case code[0] == greetOK:
		return checkSkew(version, text)
	case code[0] == greetRefused:
		return fmt.Errorf("%w: %s", ErrRefused, printable(text))
	default:
		return errors.New("the peer does not speak this protocol")
	}
}

// answer is the other side: it tells the caller version, or why it is refused.
func answer(w io.Writer, version string, refusal error) error {
	if refusal != nil {
		return writeShort(w, []byte{greetRefused}, refusal.Error())
	}
	return writeShort(w, []byte{greetOK}, version)
}

// checkSkew refuses versions that differ by more than one minor. A version that is
// not MAJOR.MINOR says nothing, and is let through.
func checkSkew(ours, theirs string) error {
	a, okA := minor(ours)
	b, okB := minor(theirs)
	if !okA || !okB || a[0] == b[0] && max(a[1], b[1])-min(a[1], b[1]) <= 1 {
		return nil
	}
	return fmt.Errorf("versions %s and %s are more than one minor apart: upgrade one minor at a time", printable(ours), printable(theirs))
}

func minor(version string) (v [2]int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return v, false
	}
	for i := range v {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// printable makes a peer's text fit for a terminal and a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
