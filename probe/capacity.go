package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/theory/jsonpath"
)

const (
	// maxReport is how much of a JSON report is read.
	maxReport = 64 << 10
	// maxExposition is how much of an exposition is read: a kube-state-metrics of
	// thousands of objects needs more than a report, so select with /federate or
	// --metric-allowlist what is longer.
	maxExposition = 1 << 20
	// reportTimeout is for one endpoint.
	reportTimeout = 3 * time.Second
)

// capacityReader reads what clusters can take. As for probes, redirects are not
// followed and the address is checked when it is dialled.
type capacityReader struct {
	dial      DialFunc // refuses what the policy of this node denies
	resolver  *resolver
	userAgent string
	roots     *x509.CertPool // nil: the system's
}

// read returns what the cluster reports. An error is no report.
func (c *capacityReader) read(ctx context.Context, p CapacityPlan) (float64, error) {
	var value float64
	var err error
	switch {
	case p.HTTP != nil:
		value, err = c.readHTTP(ctx, p)
	case p.Prometheus != nil:
		value, err = c.readPrometheus(ctx, p)
	default:
		return 0, errors.New("the report has no kind this version knows")
	}
	switch {
	case err != nil:
		return 0, err
	case math.IsNaN(value), math.IsInf(value, 0), value < 0:
		return 0, fmt.Errorf("a capacity must be 0 or more, is %v", value)
	}
	return value, nil
}

// readHTTP asks the endpoints in their order until one answers well: while the
// first one does, all observers hear the same.
func (c *capacityReader) readHTTP(ctx context.Context, p CapacityPlan) (float64, error) {
	path, err := jsonpath.Parse(p.HTTP.JSON)
	if err != nil {
		return 0, fmt.Errorf("json: %w", err)
	}
	u, err := url.ParseRequestURI(cmp.Or(p.HTTP.Path, "/"))
	if err != nil {
		return 0, fmt.Errorf("path: %w", err)
	}
	u.Scheme = "http"
	if p.HTTP.Port == 443 {
		u.Scheme = "https"
	}
	errs := []error{}
	for _, e := range p.Endpoints {
		addr := hostPort(e, p.HTTP.Port)
		u.Host = addr
		if p.Hostname != "" {
			u.Host = net.JoinHostPort(p.Hostname, strconv.Itoa(p.HTTP.Port))
		}
		body, err := c.get(ctx, u, p.Hostname, maxReport, addr)
		if err == nil {
			var value float64
			if value, err = numberIn(body, path); err == nil {
				return value, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		return 0, errors.New("the cluster has no endpoint to ask")
	}
	return 0, errors.Join(errs...)
}

// numberIn returns the one number that path finds in a JSON document.
func numberIn(body []byte, path *jsonpath.Path) (float64, error) {
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		return 0, fmt.Errorf("the answer is no JSON: %w", err)
	}
	nodes := path.Select(doc)
	if len(nodes) != 1 {
		return 0, fmt.Errorf("%s must find one value, finds %d", path, len(nodes))
	}
	value, ok := nodes[0].(float64)
	if !ok {
		return 0, fmt.Errorf("%s must find a number, finds %T", path, nodes[0])
	}
	return value, nil
}

// readPrometheus reads an exposition from a URL, whose host is looked up like a
// cluster's hostname.
func (c *capacityReader) readPrometheus(ctx context.Context, p CapacityPlan) (float64, error) {
	u, err := url.Parse(p.Prometheus.URL)
	if err != nil {
		return 0, fmt.Errorf("url: %w", err)
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		addrs = append(addrs, a)
	} else if addrs, _, err = c.resolver.resolve(ctx, u.Hostname()); err != nil {
		return 0, err
	}
	var errs []error
	for _, a := range addrs {
		body, err := c.get(ctx, u, u.Hostname(), maxExposition, net.JoinHostPort(a.String(), port))
		if err == nil {
			return p.Prometheus.valueIn(body, p.Declared)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(errs...)
}

// valueIn returns the capacity that an exposition reports.
func (p *CapacityPrometheus) valueIn(body []byte, declared int) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("parse exposition: %w", err)
	}
	value, err := sumOf(families[p.Metric], p.Metric, p.Labels)
	switch {
	case err != nil || p.Of == "":
		return value, err
	case declared <= 0:
		return 0, errors.New("a part of a whole needs the cluster's capacity, which is not set")
	}
	whole, err := sumOf(families[p.Of], p.Of, p.Labels)
	switch {
	case err != nil:
		return 0, err
	case whole <= 0:
		return 0, fmt.Errorf("%s must be above 0 to take a part of it, is %v", p.Of, whole)
	}
	// While a roll-out runs there may be more than is wanted; that is no more room.
	return min(value/whole, 1) * float64(declared), nil
}

// sumOf adds up the series of a family that have the labels.
func sumOf(family *dto.MetricFamily, name string, labels map[string]string) (float64, error) {
	sum, found := 0.0, false
	for _, m := range family.GetMetric() {
		if !hasLabels(m, labels) {
			continue
		}
		switch {
		case m.Gauge != nil:
			sum += m.GetGauge().GetValue()
		case m.Counter != nil:
			sum += m.GetCounter().GetValue()
		case m.Untyped != nil:
			sum += m.GetUntyped().GetValue()
		default:
			return 0, fmt.Errorf("%s must be a gauge or a counter, is a %s", name, family.GetType())
		}
		found = true
	}
	if !found {
		return 0, fmt.Errorf("the exposition has no series %s with those labels", name)
	}
	return sum, nil
}

func hasLabels(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, l := range m.GetLabel() {
		want, asked := labels[l.GetName()]
		switch {
		case !asked:
		case want != l.GetValue():
			return false
		default:
			found++
		}
	}
	return found == len(labels)
}

// get returns the body of a 200 answer to u from addr. Over https the chain is
// verified and, unless there is none, the server's name.
func (c *capacityReader) get(ctx context.Context, u *url.URL, serverName string, limit int64, addr string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.dial(ctx, network, addr)
		},
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: serverName, RootCAs: c.roots,
			InsecureSkipVerify: serverName == "", // then VerifyConnection sees to the chain
			VerifyConnection: func(cs tls.ConnectionState) error {
				if serverName != "" {
					return nil
				}
				return verifyChain(cs, c.roots)
			},
		},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept", "application/json, text/plain;version=0.0.4")
	resp, err := transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status must be 200, is %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("the answer must have at most %d bytes", limit)
	}
	return body, nil
}

// verifyChain verifies a server's certificate without its name.
func verifyChain(cs tls.ConnectionState, roots *x509.CertPool) error {
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, cert := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err := cs.PeerCertificates[0].Verify(opts)
	return err
}
