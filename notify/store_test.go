package notify

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/statestore"
)

// machine is the real state machine with a log of one node.
type machine struct {
	*statestore.Store
	mu sync.Mutex
}

func (m *machine) propose(_ context.Context, cmd statestore.Command, actor string) (statestore.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, err := statestore.Encode(cmd, statestore.Meta{Actor: actor, Wall: time.Now(), Elapsed: time.Second})
	if err != nil {
		return statestore.Result{}, err
	}
	return m.Apply(m.State().Index+1, 1, data), nil
}

// The real state machine takes the cursors, from the spec that people write on.
func TestTheStateMachineKeepsTheCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := listen(t, "bus", "chat")
		m := &machine{Store: statestore.NewStore()}
		do := func(cmd statestore.Command) {
			t.Helper()
			res, err := m.propose(t.Context(), cmd, "ann")
			require.NoError(t, err)
			require.NoError(t, res.Err)
		}
		apply := func(notify string) {
			t.Helper()
			r, errs := config.ParseSpec("spec.yaml", []byte("version: 1\nzones: { gslb.example.com: {} }\nclusters: { eu: { region: eu-west, ipv4: [192.0.2.10] } }\nservices: {}\n"+notify))
			require.Empty(t, config.Format(errs))
			do(statestore.ApplySpec{Base: m.State().Revision, Source: r.Source, Spec: r.Spec})
		}
		node := func() *Notifier {
			return New(Config{Name: "eu-1", Store: m, Propose: m.propose, Encode: encode, Dial: net.dial})
		}
		do(statestore.Initialize{Installation: "test", CA: statestore.TrustedCA{Fingerprint: "f", PEM: "p"}})
		apply("")
		apply("notify: { receivers: { bus: { webhook: { url: http://bus } }, chat: { webhook: { url: http://chat } } }, routes: [{ to: [bus] }, { match: { type: [service.thawed] }, to: [bus, chat] }] }\n")
		for range 3 {
			lead(t, node(), func() {
				do(statestore.FreezeService{Reason: "maintenance"})
				do(statestore.ThawService{})
				time.Sleep(3 * time.Second)
			})
		}
		var told, thawed []uint64
		for _, e := range m.State().Events {
			switch e.Type {
			case "service.thawed":
				thawed = append(thawed, e.Index)
				told = append(told, e.Index)
			case "service.frozen":
				told = append(told, e.Index)
			}
		}
		require.Len(t, told, 6)
		require.Equal(t, told, net["bus"].ids("installation"))
		require.Len(t, net["bus"].ids(""), 7, "and the revision that brought it on")
		require.Equal(t, thawed, net["chat"].ids(""))
		require.Equal(t, map[string]uint64{"bus": told[5], "chat": told[5]}, m.State().Delivered)
		require.NoError(t, m.State().VerifyAudit())
	})
}
