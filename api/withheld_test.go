package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
)

func TestStatusSaysWhatThisNodeWithholds(t *testing.T) {
	var r *rig
	r = newStatefulRig(t, func(cfg *Config) {
		cfg.Table = func() *routing.Table {
			table, err := routing.Update(nil, r.store.State(), routing.Local{Withheld: map[string]string{"orders-db": "its epoch is not on disk"}})
			require.NoError(t, err)
			return table
		}
	})
	status := items[apitype.Status](t, r.as("viewer", "GET", "/v1/status", ""))[0]
	require.Contains(t, status.Banners, apitype.Banner{
		Code: "withheld", Subject: "services/orders-db", Text: "eu-1 answers nobody for orders-db: its epoch is not on disk",
	})
}
