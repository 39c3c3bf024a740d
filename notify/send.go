package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/quorate/quorate/statestore"
)

// Bounds on one request.
const (
	sendTimeout = 10 * time.Second // until the answer has been read
	maxAnswer   = 64 << 10         // bytes of its body that are read; nothing of them is kept
	maxHeader   = 64 << 10
	idleTimeout = 30 * time.Second // of a connection between two requests
)

// newClient returns a client that goes where dial lets it and nowhere else: no
// proxy, no redirect, no cookie.
func newClient(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dial,
			TLSHandshakeTimeout:    sendTimeout,
			IdleConnTimeout:        idleTimeout,
			MaxIdleConnsPerHost:    1,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send posts the event once. An empty reason means that the receiver has it.
func (n *Notifier) send(ctx context.Context, receiver string, hook *statestore.Webhook, st *statestore.State, e statestore.Event) (reason string, err error) {
	var key []byte
	if hook.Sign != "" {
		if key, err = n.secret(hook.Sign, receiver); err != nil {
			return reasonSecret, err
		}
	}
	body, err := n.cfg.Encode(e)
	if err != nil {
		return reasonEncode, err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(body))
	if err != nil {
		return reasonConnection, bare(err)
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/cloudevents+json")
	req.Header.Set("User-Agent", "quorate")
	req.Header.Set(HeaderEvent, strconv.FormatUint(e.Index, 10))
	req.Header.Set(HeaderGeneration, strconv.FormatUint(st.Generation, 10))
	req.Header.Set(HeaderTimestamp, timestamp)
	if hook.Sign != "" {
		req.Header.Set(HeaderSignature, signature(key, timestamp, body))
	}
	resp, err := n.client.Do(req)
	if err != nil {
		reason = reasonConnection
		if ctx.Err() != nil {
			reason = reasonTimeout
		}
		return reason, bare(err)
	}
	// Read so that the connection can be used again; what it says does not matter.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		n.metrics.told(receiver, e.Type, max(0, time.Since(e.Wall)))
		return "", nil
	case resp.StatusCode >= 300 && resp.StatusCode <= 399:
		return reasonRedirect, fmt.Errorf("answered %d; a redirect is never followed", resp.StatusCode)
	}
	return reasonStatus, fmt.Errorf("answered %d", resp.StatusCode)
}

// bare leaves out the URL that the error repeats: its path or query may be what
// lets the sender in.
func bare(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// secret returns the value, and warns once when there is none.
func (n *Notifier) secret(name, receiver string) ([]byte, error) {
	value, err := n.cfg.Secret(name)
	n.mu.Lock()
	was := n.missing[name]
	n.missing[name] = err != nil
	n.mu.Unlock()
	if err != nil && !was {
		n.log.Warn("secret cannot be resolved here; its receiver is not told", keySecret, name, keyReceiver, receiver, keyErr, err)
	}
	return value, err
}
