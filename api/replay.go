package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// replayLength is how far a replay goes back unless told otherwise.
const replayLength = 24 * time.Hour

type replayInput struct {
	writing
	Body apitype.ReplayRequest
}

func (s *Server) replayRoutes(api huma.API) {
	op := operation(http.MethodPost, "/replays", "replay", "What recorded votes would have come to under another spec; nothing is written", statestore.CanRead,
		http.StatusUnprocessableEntity)
	op.MaxBodyBytes = maxSpecBody + 1
	huma.Register(api, op, s.replay)
}

func (s *Server) replay(ctx context.Context, in *replayInput) (*output[apitype.Replay], error) {
	c := callOf(ctx)
	now, since := s.now(c.st), in.Body.Since
	switch {
	case since.IsZero():
		since = now.Add(-replayLength)
	case since.After(now):
		return nil, invalidField("/since", "must be a time that has passed, is %s", since.UTC().Format(time.RFC3339))
	}
	if err := s.takeWhatIf(c); err != nil {
		return nil, err
	}
	written, _, prob := s.decode(in.Body.Name, in.Body.Source)
	if prob != nil {
		return nil, prob
	}
	return envelope(c, "replay", replayView(c, policy.Replay(c.st, written.WithAddresses(c.st.Spec), since))), nil
}

// replayView leaves out what is of services that the caller may not read.
func replayView(c *call, r policy.Replayed) apitype.Replay {
	out := apitype.Replay{Since: r.Since, Until: r.Until, Votes: r.Votes, Targets: []apitype.ReplayTarget{}}
	for _, t := range r.Targets {
		if t.Target.Service == "" || c.st.Can(c.p, statestore.CanRead, t.Target.Service) {
			out.Targets = append(out.Targets, apitype.ReplayTarget{Target: t.Target.String(), Was: turnsView(t.Was), Would: turnsView(t.Would), Text: t.Text})
		}
	}
	hidden := slices.DeleteFunc(sortedKeys(c.st.Spec.Services), func(name string) bool { return c.st.Can(c.p, statestore.CanRead, name) })
	out.Warnings = slices.DeleteFunc(orEmpty(slices.Clone(r.Warnings)), func(w string) bool {
		return slices.ContainsFunc(hidden, func(name string) bool { return strings.Contains(w, name+"/") })
	})
	return out
}

func turnsView(turns []policy.Turn) []apitype.ReplayTurn {
	out := make([]apitype.ReplayTurn, 0, len(turns))
	for _, t := range turns {
		out = append(out, apitype.ReplayTurn{At: t.At, Side: t.Side.String()})
	}
	return out
}
