package statestore

func (c ProposeCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c ReviseCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c ApproveCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c RejectCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c AbortCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c CloseCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c RemindCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c BeginCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c PublishCutover) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c ConfirmActive) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c BeginGeneration) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
func (c NoteDelivery) apply(*State, entry) (record, error) {
	return record{}, refuse(ErrInvalid, "not known yet")
}
