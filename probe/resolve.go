package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// ttlMin and ttlMax bound how long addresses are used without asking again.
	ttlMin = time.Second
	ttlMax = 5 * time.Minute
	// systemTTL is how long they are when the system's resolver, which tells no TTL,
	// was asked.
	systemTTL = 30 * time.Second
	// resolveTimeout is for one exchange with one resolver.
	resolveTimeout = 2 * time.Second
	// maxResolved is how many addresses of each family are used: what the leader
	// commits is bound by the same number.
	maxResolved = 16
	// resolveSize is the UDP payload we take: one that no path has to fragment.
	resolveSize = 1232
)

// resolver finds the addresses of hostnames.
type resolver struct {
	servers []netip.AddrPort // recursive ones of the node's own file; empty: the system's
	dial    DialFunc         // reaches servers
	policy  AddressPolicy    // what it does not allow is left out
	system  func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func newResolver(cfg *Config, dial DialFunc) *resolver {
	return &resolver{servers: cfg.Resolvers, dial: dial, policy: cfg.Policy, system: (&net.Resolver{}).LookupNetIP}
}

// resolve returns the addresses of hostname that this node may reach and how long
// they may be used. It fails unless both families were answered for: half an
// answer would look as if the other half had gone.
func (r *resolver) resolve(ctx context.Context, hostname string) ([]netip.Addr, time.Duration, error) {
	found, ttl, err := r.lookup(ctx, hostname)
	if err != nil {
		return nil, 0, err
	}
	var v4, v6 []netip.Addr
	var denied error
	for _, a := range found {
		a = a.Unmap().WithZone("")
		if err := r.policy.Check(netip.AddrPortFrom(a, 0)); err != nil {
			denied = err
			continue
		}
		if a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	var out []netip.Addr
	for _, family := range [][]netip.Addr{v4, v6} {
		slices.SortFunc(family, netip.Addr.Compare)
		family = slices.Compact(family)
		out = append(out, family[:min(len(family), maxResolved)]...)
	}
	switch {
	case len(out) > 0:
		return out, min(max(ttl, ttlMin), ttlMax), nil
	case denied != nil:
		return nil, 0, fmt.Errorf("resolve %s: %w", hostname, denied)
	}
	return nil, 0, fmt.Errorf("resolve %s: it has no address", hostname)
}

// lookup asks the resolvers in turn until one knows.
func (r *resolver) lookup(ctx context.Context, hostname string) ([]netip.Addr, time.Duration, error) {
	name := dns.Fqdn(hostname) // so that no search list is appended
	if len(r.servers) == 0 {
		return r.askSystem(ctx, name)
	}
	var errs []error
	for _, server := range r.servers {
		addrs, ttl, err := r.lookupAt(ctx, server, name)
		if err == nil {
			return addrs, ttl, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, 0, errors.Join(errs...)
}

// askSystem asks the system's resolver for each family by itself: asked for both
// it would say what it has of one when the other fails.
func (r *resolver) askSystem(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	var all []netip.Addr
	var none error
	for _, network := range []string{"ip4", "ip6"} {
		addrs, err := r.system(ctx, network, name)
		var dnsErr *net.DNSError
		switch {
		case err == nil:
			all = append(all, addrs...)
		case errors.As(err, &dnsErr) && dnsErr.IsNotFound:
			none = err
		default:
			return nil, 0, err
		}
	}
	if len(all) == 0 && none != nil {
		return nil, 0, none
	}
	return all, systemTTL, nil
}

// lookupAt asks one resolver for both families.
func (r *resolver) lookupAt(ctx context.Context, server netip.AddrPort, name string) ([]netip.Addr, time.Duration, error) {
	types := [...]uint16{dns.TypeA, dns.TypeAAAA}
	var found [len(types)][]netip.Addr
	var ttls [len(types)]time.Duration
	var errs [len(types)]error
	var wg sync.WaitGroup
	for i, qtype := range types {
		wg.Go(func() { found[i], ttls[i], errs[i] = r.query(ctx, server, name, qtype) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, 0, err
	}
	var all []netip.Addr
	ttl := ttlMax
	for i := range types {
		if len(found[i]) > 0 {
			ttl = min(ttl, ttls[i])
		}
		all = append(all, found[i]...)
	}
	return all, ttl, nil
}

// query asks one question. No address is no error.
func (r *resolver) query(ctx context.Context, server netip.AddrPort, name string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	q := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(resolveSize, false)
	about := fmt.Sprintf("ask %s for %s of %s", server, dns.TypeToString[qtype], name)
	for _, network := range []string{"udp", "tcp"} {
		reply, err := r.exchange(ctx, network, server, q)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf("%s: %w", about, err)
		case reply.Truncated && network == "udp":
			continue
		case reply.Rcode != dns.RcodeSuccess:
			return nil, 0, fmt.Errorf("%s: the answer is %s", about, dns.RcodeToString[reply.Rcode])
		}
		addrs, ttl, err := addressesIn(reply, name, qtype)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", about, err)
		}
		return addrs, ttl, nil
	}
	return nil, 0, fmt.Errorf("%s: the answer is truncated", about)
}

// exchange sends q and returns the answer to it.
func (r *resolver) exchange(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	conn, err := r.dial(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends the read
	defer stop()
	c := dns.Client{Net: network, Timeout: resolveTimeout}
	reply, _, err := c.ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: conn})
	switch {
	case err != nil:
		return nil, err
	case !reply.Response || len(reply.Question) != 1 || reply.Question[0].Qtype != q.Question[0].Qtype ||
		!strings.EqualFold(reply.Question[0].Name, q.Question[0].Name):
		return nil, errors.New("the answer is to another question")
	}
	return reply, nil
}

// addressesIn returns the addresses of name in an answer that a recursive resolver
// has completed, following its chain of aliases, and the least TTL on the way.
func addressesIn(reply *dns.Msg, name string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	ttl := uint32(ttlMax / time.Second)
	owner := dns.CanonicalName(name)
	for range len(reply.Answer) { // no chain is longer
		next := ""
		for _, rr := range reply.Answer {
			if c, ok := rr.(*dns.CNAME); ok && dns.CanonicalName(c.Hdr.Name) == owner {
				next, ttl = dns.CanonicalName(c.Target), min(ttl, c.Hdr.Ttl)
				break
			}
		}
		if next == "" {
			break
		}
		owner = next
	}
	var addrs []netip.Addr
	for _, rr := range reply.Answer {
		h := rr.Header()
		if h.Rrtype != qtype || dns.CanonicalName(h.Name) != owner {
			continue
		}
		var ip net.IP
		switch rr := rr.(type) {
		case *dns.A:
			ip = rr.A
		case *dns.AAAA:
			ip = rr.AAAA
		}
		if a, ok := netip.AddrFromSlice(ip); ok {
			addrs, ttl = append(addrs, a), min(ttl, h.Ttl)
		}
	}
	if len(addrs) == 0 && len(reply.Answer) > 0 && owner != dns.CanonicalName(name) && !reply.RecursionAvailable {
		return nil, 0, fmt.Errorf("it is an alias of %s and the server does not follow it: observer.resolvers must be recursive", owner)
	}
	return addrs, time.Duration(ttl) * time.Second, nil
}
