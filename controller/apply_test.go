package controller

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// Verdicts turn faster than automation rotates and people plan: an apply that does not
// concern them goes through each time, and moves none of what they are about.
func TestAnApplyPassesWhileVerdictsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		vote := func(side health.Side) {
			for _, o := range os {
				o.vote(side, "eu")
			}
			require.Equal(t, side, l.side("eu"))
		}
		behind := true // as on a busy leader
		l.mu.Lock()
		l.refuse = func(cmd statestore.Command) error {
			if _, rotates := cmd.(statestore.Rotate); rotates && behind {
				return errors.New("not committed")
			}
			return nil
		}
		l.mu.Unlock()
		vote(health.Down)
		for i := range 20 {
			spec := *l.st().Spec
			spec.Zones = map[string]*statestore.Zone{"gslb.test.": {NSTTL: statestore.Duration(i+1) * statestore.Duration(time.Minute)}}
			number, planned := l.st().Services["web"].Rotation.Number, l.st()
			vote([]health.Side{health.Up, health.Down}[i%2])
			l.person(statestore.ApplySpec{Base: planned.Revision, Source: "test", Spec: &spec, Rotations: policy.DiffSpec(planned, &spec).Rotations})
			require.Equal(t, number, l.st().Services["web"].Rotation.Number)
		}
		require.Equal(t, []string{"eu", "us"}, l.inRotation())
		l.mu.Lock()
		behind = false
		l.mu.Unlock()
		time.Sleep(retryLost + replan)
		require.Equal(t, []string{"us"}, l.inRotation(), "automation follows")
	})
}
