package config

import (
	"fmt"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// CheckThreshold returns why the quorum of a service cannot work with this many
// eligible regions, or nil. Only a running quorum knows how many there are.
func CheckThreshold(service string, q statestore.Quorum, eligible int) error {
	if eligible < q.MinVotes {
		return fmt.Errorf("services.%s.quorum.min_votes: must be at most the %d eligible regions, is %d", service, eligible, q.MinVotes)
	}
	for _, side := range []struct {
		key string
		t   statestore.Threshold
	}{{"down", q.Down}, {"up", q.Up}} {
		if side.t <= 0 {
			continue
		}
		if least := health.Majority(eligible); int(side.t) < least {
			return fmt.Errorf("services.%s.quorum.%s: must be at least %d, a majority of %d eligible regions, is %d", service, side.key, least, eligible, side.t)
		}
		if int(side.t) > eligible {
			return fmt.Errorf("services.%s.quorum.%s: must be at most the %d eligible regions, is %d", service, side.key, eligible, side.t)
		}
	}
	return nil
}
