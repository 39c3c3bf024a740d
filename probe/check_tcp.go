package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// tcpChecker is good when a connection is made and what comes back is as expected.
type tcpChecker struct {
	r     *runner
	check *TCPCheck
	addr  string
}

func (c *tcpChecker) run(ctx context.Context, rec *recorder) (seen, error) {
	l, rtt, err := c.r.connect(ctx, rec, "tcp", c.addr)
	if err != nil {
		return seen{}, err
	}
	defer l.drop()
	saw := seen{rtt: rtt}
	if c.check.Send != "" {
		rec.start("send")
		if _, err := io.WriteString(l, c.check.Send); err != nil {
			return saw, fmt.Errorf("send: %w", err)
		}
		if rec != nil {
			rec.ok(fmt.Sprintf("%d bytes", len(c.check.Send)))
		}
	}
	if c.check.Expect == "" {
		return saw, nil
	}
	return saw, c.expect(ctx, l, rec)
}

// expect reads until the expected text is there.
func (c *tcpChecker) expect(ctx context.Context, from io.Reader, rec *recorder) error {
	buf := c.r.borrow()
	defer c.r.giveBack(buf)
	want := []byte(c.check.Expect)
	rec.start("first byte")
	for {
		buf.body = slices.Grow(buf.body, 4096)
		had := len(buf.body)
		n, err := from.Read(buf.body[had:min(cap(buf.body), maxBody)])
		buf.body = buf.body[:had+n]
		if rec != nil && had == 0 && n > 0 {
			rec.ok(fmt.Sprintf("%d bytes", n))
			rec.start("match")
		}
		switch {
		case bytes.Contains(buf.body[max(0, had-len(want)):], want):
			if rec != nil {
				rec.ok(fmt.Sprintf("found %.120s", want))
			}
			return nil
		case err == nil && len(buf.body) < maxBody:
			continue
		case len(buf.body) == 0 && errors.Is(err, io.EOF):
			err = &badError{ReasonBody, "it closed the connection without a word", ""}
		case len(buf.body) > 0:
			// What came is wrong, whether or not more might have come in time.
			err = &badError{ReasonBody, fmt.Sprintf("what came does not hold it, begins: %.120s", buf.body), ""}
		}
		var bad *badError
		if errors.As(err, &bad) {
			bad.want = fmt.Sprintf("%.120s", want)
		}
		return err
	}
}

func (c *tcpChecker) close() {}
