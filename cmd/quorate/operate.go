package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/consensus"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// operateCommands run nodes and look after them.
func (c *cli) operateCommands() []*cobra.Command {
	return []*cobra.Command{
		c.serverCommand(), c.reloadCommand(), c.initCommand(), c.joinCommand(), c.caCommand(),
		c.backupCommand(), c.recoverCommand(), c.probeCommand(), c.queryCommand(),
		c.simulateCommand(), c.replayCommand(), c.nodeCommand(), c.zoneCommand(),
	}
}

func (c *cli) queryCommand() *cobra.Command {
	var o dnsclient.Options
	var subnet string
	cmd := &cobra.Command{
		Use:   "query NAME [TYPE] [@SERVER]",
		Short: "Ask a DNS server one question",
		Long: `Without @SERVER the demo's nodes are asked when a demo runs; @NODE names one of
them.`,
		Example: `  quorate query web.gslb.example.com @192.0.2.53
  quorate query web.gslb.example.com AAAA @[2001:db8::53]:53`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, qtype, server, err := question(args)
			if err != nil {
				return usageError(err)
			}
			if subnet != "" {
				if o.Subnet, err = netip.ParsePrefix(subnet); err != nil {
					return usageError(fmt.Errorf("--subnet: must be a network such as 192.0.2.0/24, is %q", subnet))
				}
			}
			servers, err := c.queryServers(server)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("timeout") {
				o.Timeout = c.timeout
			}
			answered := 0
			for _, s := range servers {
				r, err := dnsclient.Query(cmd.Context(), s, name, qtype, o)
				switch {
				case errors.Is(err, dnsclient.ErrQuestion):
					return usageError(err)
				case err != nil && len(servers) == 1:
					return codeError{client.ExitNoQuorum, err}
				case err != nil:
					fmt.Fprintln(c.err, err)
					continue
				}
				answered++
				if err := c.showReply(r); err != nil {
					return err
				}
			}
			if answered == 0 {
				return codeError{client.ExitNoQuorum, errors.New("no server answered")}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.TCP, "tcp", false, "ask over TCP")
	cmd.Flags().BoolVar(&o.NSID, "nsid", false, "ask which node answers")
	cmd.Flags().StringVar(&subnet, "subnet", "", "ask for clients in this `network`, such as 192.0.2.0/24")
	return cmd
}

// question splits NAME [TYPE] [@SERVER], in any order after the name.
func question(args []string) (name, qtype, server string, err error) {
	name = args[0]
	for _, a := range args[1:] {
		into := &qtype
		if s, ok := strings.CutPrefix(a, "@"); ok {
			into, a = &server, s
		}
		if a == "" || *into != "" {
			return "", "", "", fmt.Errorf("query needs NAME [TYPE] [@SERVER], got %q", args)
		}
		*into = a
	}
	if strings.HasPrefix(name, "@") {
		return "", "", "", fmt.Errorf("query needs the name first: NAME [TYPE] [@SERVER], got %q", args)
	}
	return name, firstOf(qtype, "A"), server, nil
}

// queryServers resolves @SERVER: an address, a node of the demo, or nothing: then
// every node of the demo, by name.
func (c *cli) queryServers(server string) ([]string, error) {
	current, err := c.currentContext()
	if err != nil {
		return nil, err
	}
	if current.Demo != nil {
		if addr, ok := current.Demo.DNS[server]; ok {
			return []string{addr}, nil
		}
		if server == "" {
			var all []string
			for _, addr := range current.Demo.DNS {
				all = append(all, addr)
			}
			slices.Sort(all)
			return all, nil
		}
	}
	if server == "" {
		return nil, usageError(errors.New("query needs @SERVER: the address of a DNS server (no demo is running)"))
	}
	return []string{server}, nil
}

func (c *cli) showReply(r *dnsclient.Reply) error {
	if c.format() != "table" {
		return json.NewEncoder(c.out).Encode(r)
	}
	if len(r.Records) == 0 {
		fmt.Fprintf(c.out, "%s %s: %s\n", r.Server, r.Rcode, nothing(r))
	}
	for _, rec := range r.Records {
		fmt.Fprintf(c.out, "%s %s  %s\n", r.Server, r.Rcode, rec)
	}
	note := r.Took.Round(10 * time.Microsecond).String()
	if r.Stale {
		note += ", stale: the node hears no leader"
	}
	if r.Scope != nil {
		note += fmt.Sprintf(", holds for a /%d", *r.Scope)
	}
	if r.NSID != "" {
		note += ", answered by " + r.NSID
	}
	_, err := fmt.Fprintf(c.err, "%s answered in %s\n", r.Server, note)
	return err
}

// nothing says what a reply without records means.
func nothing(r *dnsclient.Reply) string {
	switch r.Rcode {
	case "NOERROR":
		return fmt.Sprintf("no %s records at %s", r.Type, r.Name)
	case "NXDOMAIN":
		return "no such name as " + r.Name
	case "REFUSED":
		return fmt.Sprintf("%s is in no zone that this server answers for", r.Name)
	}
	return "no answer for " + r.Name
}

// nodeCommand holds what looks at one node's files. check-store is what a server
// runs on its own store before opening it.
func (c *cli) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Short:   "Look at one node's files",
		Example: "  quorate node check-store /var/lib/quorate/raft\n  quorate node check-store ./data/raft",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "check-store DIR",
		Short:   "Verify a Raft store that no server uses",
		Example: "  quorate node check-store /var/lib/quorate/raft\n  quorate node check-store ./data/raft",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			if in := filepath.Join(dir, "raft"); !consensus.StoreExists(dir) && consensus.StoreExists(in) {
				dir = in // people name the data directory
			}
			if err := consensus.CheckStore(dir); err != nil {
				return err
			}
			text := "ok"
			if !consensus.StoreExists(dir) {
				text = "ok: there is no store in " + dir + " yet"
			}
			_, err := fmt.Fprintln(c.out, text)
			return err
		},
	})
	return cmd
}
