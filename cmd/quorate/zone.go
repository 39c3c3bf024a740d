package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
)

// zoneCommand looks at zones.
func (c *cli) zoneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "zone",
		Short:   "Look at zones and their signing",
		Example: "  quorate zone show gslb.example.com\n  quorate zone dnssec status gslb.example.com",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.zoneShowCommand(), c.zoneDNSSECCommand())
	return cmd
}

func (c *cli) zoneShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ZONE",
		Short: "Print what a node serves of a zone",
		Long: `Prints the zone as a master file: static records, what is derived, glue. What
a service answers with differs by client; it stands as a comment, and
"quorate explain NAME" tells.`,
		Example: `  quorate zone show gslb.example.com
  quorate zone show gslb.example.com -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := get[apitype.Zone](cmd.Context(), c, "/zones/"+url.PathEscape(args[0]), nil)
			if err != nil {
				return err
			}
			return show(c, env, zoneTable)
		},
	}
}

func zoneTable(w io.Writer, zones []apitype.Zone) {
	for _, z := range zones {
		fmt.Fprintf(w, "; %s as %s serves it: serial %d, %s, %s\n", z.Zone, z.Node, z.Serial, count(z.Records, "record"), count(len(z.Services), "service"))
		for _, s := range z.Sets {
			switch {
			case len(s.Data) == 0:
				fmt.Fprintf(w, "; %s IN %s: service %s\n", s.Owner, s.Type, s.Service)
				continue
			case s.Service != "":
				fmt.Fprintf(w, "; of service %s:\n", s.Service)
			}
			for _, data := range s.Data {
				fmt.Fprintf(w, "%s\t%d\tIN\t%s\t%s\n", s.Owner, s.TTL, s.Type, data)
			}
		}
	}
}
