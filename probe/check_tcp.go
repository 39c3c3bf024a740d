package probe

import (
	"context"
	"time"
)

// tcpChecker is good when a connection is made.
type tcpChecker struct {
	dial DialFunc
	addr string
}

func (c *tcpChecker) run(ctx context.Context) (time.Time, error) {
	conn, err := c.dial(ctx, "tcp", c.addr)
	if err != nil {
		return time.Time{}, err
	}
	_ = conn.Close() // the connection was all we wanted
	return time.Time{}, nil
}

func (c *tcpChecker) close() {}
