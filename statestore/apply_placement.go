package statestore

func (c OverrideService) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrNotFound, "service %s: not found", c.Service)
}

func (c ClearOverride) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrNotFound, "service %s: not found", c.Service)
}

func (c DrainClusters) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrNotFound, "clusters: not found")
}

func (c ResolveCluster) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrNotFound, "cluster %s: not found", c.Cluster)
}

func (c ReportCapacity) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrNotFound, "cluster %s: not found", c.Cluster)
}

func (c MeasureLatency) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrNotFound, "no region is known")
}
