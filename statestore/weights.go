package statestore

// Weights returns the weight of each of a service's candidates: 1 under failover,
// where order decides, else the declared weights, else what the clusters can take if
// every candidate says it: what it reported last, else its declared capacity. A
// service's override of a cluster's weight beats them all. Reported is false for a
// cluster without a fresh report.
func (sp *Spec) Weights(service string, candidates []string, reported func(cluster string) (int, bool)) map[string]int {
	svc := sp.Services[service]
	w := make(map[string]int, len(candidates))
	own := func(c string) *int {
		if o := svc.Overrides[c]; o != nil && svc.Policy.Type != Failover {
			return o.Weight
		}
		return nil
	}
	capacity := func(c string) (int, bool) {
		if n, ok := reported(c); ok {
			return n, true
		}
		if cl := sp.Clusters[c]; cl != nil {
			return cl.Capacity, cl.Capacity > 0
		}
		return 0, false
	}
	byCapacity := svc.Policy.Type != Failover && svc.Policy.Weights == nil
	for _, c := range candidates {
		_, said := capacity(c)
		byCapacity = byCapacity && (said || own(c) != nil)
	}
	for _, c := range candidates {
		switch {
		case own(c) != nil:
			w[c] = *own(c)
		case svc.Policy.Type != Failover && svc.Policy.Weights != nil:
			w[c] = svc.Policy.Weights[c]
		case byCapacity:
			w[c], _ = capacity(c)
		default:
			w[c] = 1
		}
	}
	return w
}
