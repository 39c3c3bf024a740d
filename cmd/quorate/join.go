package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/consensus/mesh"
)

func (c *cli) joinCommand() *cobra.Command {
	var f fresh
	cmd := &cobra.Command{
		Use:   "join TOKEN@HOST[:PORT]",
		Short: "Make this host a node of an installation",
		Long: `Trades a join token for a certificate at any voter. The token names the
installation's authority, so nothing else needs to be trusted. Writes node.yaml
unless it exists; start the node with "quorate server" afterwards.`,
		Example: `  quorate join qjt1.TOKEN@us-1.example.net --name eu-1 --region eu-west
  quorate join qjt1.TOKEN@192.0.2.1:7654 -c node.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, addr, err := mesh.SplitJoinTarget(args[0])
			if err != nil {
				return usageError(err)
			}
			if _, err := mesh.ParseJoinToken(token); err != nil {
				return usageError(err)
			}
			cfg, err := c.nodeConfig(&f)
			if err != nil {
				return err
			}
			resp, err := node.Join(cmd.Context(), cfg, version, addr, token)
			switch {
			case errors.Is(err, mesh.ErrHasIdentity):
				return codeError{client.ExitConflict, err}
			case errors.As(err, new(tls.RecordHeaderError)):
				return codeError{joinCode(err), fmt.Errorf("%w; is %s the port between nodes, 7654 by default?", err, addr)}
			case err != nil:
				return codeError{joinCode(err), err}
			}
			role := "nonvoter"
			if cfg.Voter {
				role = "voter"
			}
			fmt.Fprintf(c.out, "joined %s as %s (%s)\nNext: quorate server -c %s\n", resp.Installation, cfg.Name, role, f.config)
			return nil
		},
	}
	f.flags(cmd)
	return cmd
}

// joinCode is the exit code of a join that did not come about.
func joinCode(err error) int {
	var (
		dial   *net.OpError
		record tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, mesh.ErrRefused), errors.Is(err, mesh.ErrWrongPeer):
		return client.ExitForbidden
	case errors.As(err, &dial), errors.As(err, &record), errors.Is(err, io.EOF):
		return client.ExitNoQuorum
	}
	return client.ExitFailure
}
