package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
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
	cmd.AddCommand(c.dnssecStatusCommand(), c.dnssecRollCommand(), c.keygenCommand())
	return cmd
}

// signing asks how a zone is signed.
func (c *cli) signing(cmd *cobra.Command, zone string) (apitype.Envelope[apitype.Signing], error) {
	return send[apitype.Signing](cmd.Context(), c, client.Request{Method: http.MethodGet, Path: "/zones/" + url.PathEscape(zone) + "/dnssec"})
}

func (c *cli) dnssecStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status ZONE",
		Short: "Show a zone's keys, its rolls and its DS",
		Long: `Shows which keys the asked node has and what they do, where a roll of them
stands and when its next step may be taken, and what the parent zone should have.
Keys are each node's own files: ask every node (--addr) whether it has them.`,
		Example: `  quorate zone dnssec status gslb.example.com
  quorate zone dnssec status gslb.example.com -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := c.signing(cmd, args[0])
			if err != nil {
				return err
			}
			return show(c, env, signingTable)
		},
	}
}

func signingTable(w io.Writer, zones []apitype.Signing) {
	for _, z := range zones {
		if z.Mode == "off" {
			fmt.Fprintf(w, "%s is not signed (zones.%s.dnssec)\n", z.Zone, strings.TrimSuffix(z.Zone, "."))
			continue
		}
		fmt.Fprintf(w, "%s  %s since %s, %s, denial %s\n", z.Zone, z.Mode, stamp(z.Since), z.Algorithm, z.Denial)
		if z.Problem != "" {
			fmt.Fprintf(w, "problem  %s: %s\n", z.Node, z.Problem)
		}
		for _, k := range z.Keys {
			does := "published"
			if k.Signs {
				does = "signs"
			}
			fmt.Fprintf(w, "key      %s %-8s  %5d  %-9s  %s\n", k.Role, k.Place, k.Tag, does, k.Secret)
		}
		if !z.Until.IsZero() {
			fmt.Fprintf(w, "expiry   of the first signature in use on %s: %s\n", z.Node, stamp(z.Until))
		}
		for _, ds := range z.Parent {
			fmt.Fprintf(w, "parent   %s IN DS %s   from %s on\n", z.Zone, ds, stamp(z.ParentFrom))
		}
		for _, r := range z.Rolls {
			fmt.Fprintf(w, "roll     %s\n", rollText(r))
		}
		if !z.LeaveDue.IsZero() {
			fmt.Fprintf(w, "leaving  off from %s on, if the parent's DS went at once: quorate apply --force\n", stamp(z.LeaveDue))
		}
	}
}

// rollText says where the keys of a role stand.
func rollText(r apitype.SigningRoll) string {
	switch {
	case r.Then == nil:
		return fmt.Sprintf("%s: none since %s", r.Role, stamp(r.Since))
	case r.Next != "":
		return fmt.Sprintf("%s: %s is published since %s; it may be the key from %s on", r.Role, r.Next, stamp(r.Since), stamp(r.Then.Due))
	case r.Role == "ksk":
		return fmt.Sprintf("ksk: %s is the key since %s; %s may go from %s on, if the parent's DS was changed at once", r.Secret, stamp(r.Since), r.Previous, stamp(r.Then.Due))
	}
	return fmt.Sprintf("%s: %s signs since %s; %s may go from %s on", r.Role, r.Secret, stamp(r.Since), r.Previous, stamp(r.Then.Due))
}

func (c *cli) dnssecRollCommand() *cobra.Command {
	var (
		ksk, zsk bool
		next     string
	)
	cmd := &cobra.Command{
		Use:   "roll ZONE --ksk|--zsk",
		Short: "Print the next step of a key's roll",
		Long: `Prints what to write into the spec for the next step of a roll, and whether it may
be applied yet: begin with --next SECRET once every node has that secret, then ask
again for each step. Nothing is written; plan and apply check the same waits.`,
		Example: `  quorate zone dnssec roll gslb.example.com --zsk --next gslb-zsk-2
  quorate zone dnssec roll gslb.example.com --ksk`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ksk == zsk {
				return usageError(errors.New("roll needs either --ksk or --zsk"))
			}
			role := "zsk"
			if ksk {
				role = "ksk"
			}
			env, err := c.signing(cmd, args[0])
			if err != nil {
				return err
			}
			z, err := one(env)
			if err != nil {
				return err
			}
			return c.printRoll(z, role, next)
		},
	}
	cmd.Flags().BoolVar(&ksk, "ksk", false, "the key signing key, which the parent's DS names")
	cmd.Flags().BoolVar(&zsk, "zsk", false, "the zone signing key")
	cmd.Flags().StringVar(&next, "next", "", "secret of the key to come; begins a roll")
	return cmd
}

// printRoll prints the next step of a role's roll.
func (c *cli) printRoll(z apitype.Signing, role, next string) error {
	i := slices.IndexFunc(z.Rolls, func(r apitype.SigningRoll) bool { return r.Role == role })
	if i < 0 {
		return codeError{client.ExitRefused, fmt.Errorf("%s is not signed, so it has no key to roll", z.Zone)}
	}
	r := z.Rolls[i]
	if z.Problem != "" {
		return codeError{client.ExitRefused, fmt.Errorf("node %s cannot read every key, and the waits of a roll begin when all nodes can: %s", z.Node, z.Problem)}
	}
	zone := strings.TrimSuffix(z.Zone, ".")
	edit := func(keys string) error {
		_, err := fmt.Fprintf(c.out, "zones:\n  %s:\n    dnssec:\n      %s: { %s }\n", zone, role, keys)
		return err
	}
	switch {
	case r.Then == nil && next == "":
		return usageError(fmt.Errorf("no roll of the %s has begun; begin one with --next SECRET, the name of a new key in the secrets of every node (quorate zone dnssec keygen)", role))
	case r.Then == nil && next == r.Secret:
		return usageError(fmt.Errorf("--next: must be another secret than %s, the present one", r.Secret))
	case r.Then == nil:
		fmt.Fprintf(c.err, "may be applied now, once every node has the secret %s\n", next)
		return edit("secret: " + r.Secret + ", next: " + next)
	case next != "" && next != r.Next:
		return codeError{client.ExitRefused, fmt.Errorf("a roll of the %s is under way; end it first: %s", role, rollText(r))}
	}
	keys := "secret: " + r.Then.Secret
	if r.Then.Previous != "" {
		keys += ", previous: " + r.Then.Previous
	}
	if err := edit(keys); err != nil {
		return err
	}
	switch {
	case !r.Then.Ready:
		return codeError{client.ExitRefused, fmt.Errorf("too early: it may be applied from %s on", stamp(r.Then.Due))}
	case role == "ksk" && r.Previous != "":
		fmt.Fprintf(c.err, "may be applied once the parent's DS has named the key of %s for its TTL: dig DS %s\n", r.Secret, z.Zone)
	case role == "ksk":
		fmt.Fprintf(c.err, "may be applied now; then have the parent replace the DS: quorate zone dnssec status %s\n", zone)
	default:
		fmt.Fprintln(c.err, "may be applied now")
	}
	return nil
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
