package node

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/records"
)

// CheckSpec says what of a spec that config accepts cannot be served. What is wrong
// with records has their place; what spans services, such as residency that
// contradicts itself, has none.
func CheckSpec(name string, r *config.Result) []config.FieldError {
	if errs := r.CheckRecords(records.Check); len(errs) > 0 {
		return errs
	}
	var errs []config.FieldError
	for _, err := range apart(routing.CheckSpec(r.Spec)) {
		var of *routing.RecordError
		if errors.As(err, &of) {
			if e, ok := r.At(of.Zone, of.Owner, of.Type, config.FieldError{Msg: of.Err.Error()}); ok {
				errs = append(errs, e)
				continue
			}
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			errs = append(errs, config.FieldError{File: name, Msg: line})
		}
	}
	return errs
}

// apart takes joined errors apart.
func apart(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, apart(e)...)
	}
	return all
}

// ReadZone reads a master file for config.
func ReadZone(zone, text string) config.ZoneFile {
	f := records.ReadFile(zone, text)
	out := config.ZoneFile{Ignored: notes(f.Ignored), Errors: notes(f.Errors)}
	for _, r := range f.Records {
		out.Records = append(out.Records, config.ZoneRecord(r))
	}
	return out
}

func notes(list []records.FileNote) []config.ZoneNote {
	var out []config.ZoneNote
	for _, n := range list {
		out = append(out, config.ZoneNote(n))
	}
	return out
}
