package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make a node read its node.yaml and files again",
		Long: `The node that is asked reads node.yaml, the certificates of peer.tls and api.tls and
the GeoIP file again, as at SIGHUP. It takes over log.level, secrets, dns.geoip
and dns.rate_limit; another key that changed is refused by name, and then nothing is
taken over. A file that does not read is refused and the last good one stays in use.`,
		Example: `  quorate reload
  quorate reload --addr https://eu-1.ops.example.net:7653`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := send[apitype.Reloaded](cmd.Context(), c, client.Request{Method: http.MethodPost, Path: "/node/reload"})
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.Reloaded) {
				for _, r := range items {
					fmt.Fprintf(w, "%s has read %s again\n", r.Node, strings.Join(r.Read, ", "))
				}
			})
		},
	}
}
