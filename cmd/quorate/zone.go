package main

import "github.com/spf13/cobra"

// zoneCommand looks at zones.
func (c *cli) zoneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "zone",
		Short:   "Look at zones and their signing",
		Example: "  quorate zone dnssec status gslb.example.com\n  quorate zone dnssec keygen /etc/quorate/dnssec/ksk.key",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.zoneDNSSECCommand())
	return cmd
}
