package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

func (s *Server) reloadRoute(api huma.API) {
	op := operation(http.MethodPost, "/node/reload", "reload-node", "Read this node's node.yaml and the files it names again", statestore.CanAdmin,
		http.StatusUnprocessableEntity, http.StatusNotImplemented)
	op.Description += " What does not read is refused, and the last good one of it stays in use; so is a key that only a restart takes over, by name, and then nothing is read."
	huma.Register(api, op, s.reload)
}

func (s *Server) reload(ctx context.Context, _ *writing) (*output[apitype.Reloaded], error) {
	c := callOf(ctx)
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	if s.cfg.Reload == nil {
		return nil, unsupported("read its files again")
	}
	s.log.Info("reload asked for", keyUser, c.p.User)
	read, err := s.cfg.Reload()
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, apitype.ProblemValidation, "node %s: %v", s.cfg.Node, err)
	}
	return envelope(c, "reloaded", apitype.Reloaded{Node: s.cfg.Node, Read: orEmpty(read)}), nil
}
