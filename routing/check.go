package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// CheckSpec says what of a spec could not be served, one line each: records that
// do not parse or may not stand where they do, names in no zone, names of two
// services, aliases that lead to themselves, countries that nobody may answer.
func CheckSpec(sp *statestore.Spec) error {
	l := makeLayout(&statestore.State{Spec: sp}, nil, nil)
	errs := []error{l.err, l.loops()}
	for _, name := range l.services {
		errs = append(errs, checkResidency(sp, name))
	}
	return errors.Join(errs...)
}

// checkResidency refuses rules of a country and of its continent that leave the
// country no cluster: both hold, so its clients would never get an answer.
func checkResidency(sp *statestore.Spec, service string) error {
	rules := sp.Services[service].Residency
	if len(rules) < 2 {
		return nil
	}
	candidates := sp.Candidates(service)
	var errs []error
	for _, country := range sortedKeys(rules) {
		continent := geo.Continent(country)
		wide, ok := rules[continent]
		if geo.IsContinent(country) || !ok {
			continue
		}
		if !slices.ContainsFunc(rules[country], func(c string) bool { return slices.Contains(wide, c) && slices.Contains(candidates, c) }) {
			errs = append(errs, fmt.Errorf("services.%s.residency.%s: must share a cluster with residency.%s (%s), which holds for clients in %s too, is %s: nobody there would get an answer",
				service, country, continent, strings.Join(wide, ", "), country, strings.Join(rules[country], ", ")))
		}
	}
	return errors.Join(errs...)
}
