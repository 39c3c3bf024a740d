package statestore

func (c Tick) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c Initialize) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c ApplySpec) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c CastVotes) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c ConfirmObservers) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c ObserverSilent) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c Rotate) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c DrainCluster) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c UndrainCluster) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c FreezeService) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c ThawService) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c UpsertMember) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c RemoveMember) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c PutToken) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c RevokeToken) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c PutJoinToken) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c UseJoinToken) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c TrustCA) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c RetireCA) apply(st *State, at entry) (record, error) { return record{}, nil }

func (c RaiseFeature) apply(st *State, at entry) (record, error) { return record{}, nil }
