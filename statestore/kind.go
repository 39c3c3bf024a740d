package statestore

// command decodes into a new value of type C and gives it back as a Command.
type command interface{ value() Command }

// holder is where a command of type C is decoded: commands are values, and
// decoding needs a pointer.
type holder[C Command] struct{ c C }

func (h *holder[C]) value() Command               { return h.c }
func (h *holder[C]) UnmarshalJSON(b []byte) error { return unmarshalStrict(b, &h.c) }

func deref(c command) Command { return c.value() }

// newCommand returns an empty command of the kind to decode into.
func newCommand(k Kind) (command, bool) {
	switch k {
	case KindTick:
		return new(holder[Tick]), true
	case KindInitialize:
		return new(holder[Initialize]), true
	case KindApplySpec:
		return new(holder[ApplySpec]), true
	case KindCastVotes:
		return new(holder[CastVotes]), true
	case KindConfirmObservers:
		return new(holder[ConfirmObservers]), true
	case KindObserverSilent:
		return new(holder[ObserverSilent]), true
	case KindRotate:
		return new(holder[Rotate]), true
	case KindDrain:
		return new(holder[DrainCluster]), true
	case KindUndrain:
		return new(holder[UndrainCluster]), true
	case KindFreeze:
		return new(holder[FreezeService]), true
	case KindThaw:
		return new(holder[ThawService]), true
	case KindUpsertMember:
		return new(holder[UpsertMember]), true
	case KindRemoveMember:
		return new(holder[RemoveMember]), true
	case KindPutToken:
		return new(holder[PutToken]), true
	case KindRevokeToken:
		return new(holder[RevokeToken]), true
	case KindPutJoinToken:
		return new(holder[PutJoinToken]), true
	case KindUseJoinToken:
		return new(holder[UseJoinToken]), true
	case KindTrustCA:
		return new(holder[TrustCA]), true
	case KindRetireCA:
		return new(holder[RetireCA]), true
	case KindRaiseFeature:
		return new(holder[RaiseFeature]), true
	case KindProposeCutover:
		return new(holder[ProposeCutover]), true
	case KindReviseCutover:
		return new(holder[ReviseCutover]), true
	case KindApproveCutover:
		return new(holder[ApproveCutover]), true
	case KindRejectCutover:
		return new(holder[RejectCutover]), true
	case KindAbortCutover:
		return new(holder[AbortCutover]), true
	case KindCloseCutover:
		return new(holder[CloseCutover]), true
	case KindRemindCutover:
		return new(holder[RemindCutover]), true
	case KindBeginCutover:
		return new(holder[BeginCutover]), true
	case KindPublishCutover:
		return new(holder[PublishCutover]), true
	case KindConfirmActive:
		return new(holder[ConfirmActive]), true
	case KindBeginGeneration:
		return new(holder[BeginGeneration]), true
	case KindNoteDelivery:
		return new(holder[NoteDelivery]), true
	case KindOverride:
		return new(holder[OverrideService]), true
	case KindClearOverride:
		return new(holder[ClearOverride]), true
	case KindDrainClusters:
		return new(holder[DrainClusters]), true
	case KindResolveCluster:
		return new(holder[ResolveCluster]), true
	case KindReportCapacity:
		return new(holder[ReportCapacity]), true
	case KindMeasureLatency:
		return new(holder[MeasureLatency]), true
	}
	return nil, false
}

// Kind returns KindTick.
func (Tick) Kind() Kind { return KindTick }

// Kind returns KindInitialize.
func (Initialize) Kind() Kind { return KindInitialize }

// Kind returns KindApplySpec.
func (ApplySpec) Kind() Kind { return KindApplySpec }

// Kind returns KindCastVotes.
func (CastVotes) Kind() Kind { return KindCastVotes }

// Kind returns KindConfirmObservers.
func (ConfirmObservers) Kind() Kind { return KindConfirmObservers }

// Kind returns KindObserverSilent.
func (ObserverSilent) Kind() Kind { return KindObserverSilent }

// Kind returns KindRotate.
func (Rotate) Kind() Kind { return KindRotate }

// Kind returns KindDrain.
func (DrainCluster) Kind() Kind { return KindDrain }

// Kind returns KindUndrain.
func (UndrainCluster) Kind() Kind { return KindUndrain }

// Kind returns KindFreeze.
func (FreezeService) Kind() Kind { return KindFreeze }

// Kind returns KindThaw.
func (ThawService) Kind() Kind { return KindThaw }

// Kind returns KindUpsertMember.
func (UpsertMember) Kind() Kind { return KindUpsertMember }

// Kind returns KindRemoveMember.
func (RemoveMember) Kind() Kind { return KindRemoveMember }

// Kind returns KindPutToken.
func (PutToken) Kind() Kind { return KindPutToken }

// Kind returns KindRevokeToken.
func (RevokeToken) Kind() Kind { return KindRevokeToken }

// Kind returns KindPutJoinToken.
func (PutJoinToken) Kind() Kind { return KindPutJoinToken }

// Kind returns KindUseJoinToken.
func (UseJoinToken) Kind() Kind { return KindUseJoinToken }

// Kind returns KindTrustCA.
func (TrustCA) Kind() Kind { return KindTrustCA }

// Kind returns KindRetireCA.
func (RetireCA) Kind() Kind { return KindRetireCA }

// Kind returns KindRaiseFeature.
func (RaiseFeature) Kind() Kind { return KindRaiseFeature }
