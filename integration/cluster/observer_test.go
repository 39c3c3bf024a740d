//go:build integration

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// G1, G9: one observer that sees a healthy cluster as dead changes nothing, and is
// named.
func TestLoneObserverIsOutvotedAndNamed(t *testing.T) {
	in := install(t, weighted)
	before, _, err := in.nodes[0].service(t.Context(), "web")
	require.NoError(t, err)

	in.nodes[2].mute(t, in.sites["eu"].host)
	eventually(t, settle, "ap-1 is named", func(ctx context.Context) error {
		st, err := in.nodes[0].status(ctx)
		if err != nil {
			return err
		}
		for _, b := range st.Banners {
			if b.Code == "lone-observer" && b.Subject == "members/ap-1" {
				return nil
			}
		}
		return fmt.Errorf("banners %+v", st.Banners)
	})
	stays(t, 5*time.Second, "nothing changes", func(ctx context.Context) error {
		for _, n := range in.nodes {
			now, _, err := n.service(ctx, "web")
			if err != nil {
				return err
			}
			if now.Rotation != before.Rotation || now.TargetsUp != before.TargetsUp {
				return fmt.Errorf("%s has rotation %d with %d targets up", n.name, now.Rotation, now.TargetsUp)
			}
		}
		return nil
	})
	require.Contains(t, in.nodes[1].must("status"), "ap-1")

	in.nodes[2].mend(t)
	eventually(t, settle, "nobody is named", in.allWell)
}

// G1: two of three regions that cannot reach a cluster take it out everywhere.
func TestTwoOfThreeRegionsTakeAClusterOut(t *testing.T) {
	in := install(t, weighted)
	for _, n := range in.nodes[1:] {
		n.mute(t, in.sites["eu"].host)
	}
	in.moved(in.nodes, "us", "ap")
	for _, n := range in.nodes[1:] {
		n.mend(t)
	}
	in.moved(in.nodes, "eu", "us", "ap")
}
