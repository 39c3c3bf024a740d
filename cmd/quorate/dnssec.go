package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/dnsserver/dnssec"
)

// zoneDNSSECCommand looks after the signing of zones.
func (c *cli) zoneDNSSECCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dnssec",
		Short:   "Look after the signing of zones",
		Example: "  quorate zone dnssec status gslb.example.com\n  quorate zone dnssec roll gslb.example.com --zsk --next gslb-zsk-2",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.keygenCommand())
	return cmd
}

func (c *cli) keygenCommand() *cobra.Command {
	var algorithm string
	cmd := &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a private key to sign a zone with",
		Long: `Writes a new private key as PEM, readable by its owner alone. A file that exists
is never overwritten. Every node that answers needs a copy of the file, under one
name in the secrets of its node.yaml; the key itself never leaves these files.`,
		Example: `  quorate zone dnssec keygen /etc/quorate/dnssec/ksk.key
  quorate zone dnssec keygen zsk.key --algorithm ed25519`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			number, ok := dnssec.AlgorithmNumber(algorithm)
			if !ok {
				return usageError(fmt.Errorf("--algorithm: must be ecdsap256sha256 or ed25519, is %q", algorithm))
			}
			key, err := dnssec.Generate(number)
			if err != nil {
				return err
			}
			text, err := key.PEM()
			if err != nil {
				return err
			}
			if err := writeSecret(args[0], text); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.out, "wrote %s: %s\n", args[0], algorithm)
			return err
		},
	}
	cmd.Flags().StringVar(&algorithm, "algorithm", "ecdsap256sha256", "ecdsap256sha256 or ed25519, as in the spec")
	return cmd
}

// writeSecret writes a file that was not there, for its owner alone.
func writeSecret(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usageError(fmt.Errorf("%s exists and is left as it is; choose another name", path))
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil && closing != nil {
			err = fmt.Errorf("write %s: %w", path, closing)
		}
		if err != nil {
			_ = os.Remove(path) // half a key is worse than none
		}
	}()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Sync()
}
