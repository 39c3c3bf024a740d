package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) memberTokenCommand() *cobra.Command {
	var role, life string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a join token; it is shown this once",
		Example: `  quorate members token
  quorate members token --role nonvoter --for 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role != "voter" && role != "nonvoter" {
				return usageError(fmt.Errorf("--role must be voter or nonvoter, is %q", role))
			}
			env, err := send[apitype.JoinToken](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/members/join-tokens",
				Body: apitype.JoinTokenRequest{Role: role, For: life},
			})
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.JoinToken) {
				for _, t := range items {
					fmt.Fprintln(w, t.Token)
					fmt.Fprintf(c.err, "for one %s, until %s. On the new host: quorate join TOKEN@%s --name NAME --region REGION\n",
						t.Role, stamp(t.Expires), c.voterAddress(cmd))
				}
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "voter", "the most the joining node may be: voter or nonvoter")
	cmd.Flags().StringVar(&life, "for", "1h", "how long the token is good for")
	return cmd
}

// voterAddress is where a new node can join: the address that the leader, or else
// any voter, tells the others.
func (c *cli) voterAddress(cmd *cobra.Command) string {
	addr := "HOST:7654"
	env, err := get[apitype.Member](cmd.Context(), c, "/members", nil)
	if err != nil {
		return addr // only a hint
	}
	for _, m := range env.Items {
		switch {
		case m.Peer == "":
		case m.Raft == "leader":
			return m.Peer
		case m.Raft == "voter":
			addr = m.Peer
		}
	}
	return addr
}

func (c *cli) memberRemoveCommand() *cobra.Command {
	var a act
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a node for good",
		Long: `Removes a member from the quorum and from the members' table. Refused when the
rest could not keep quorum. The node must join again to come back.`,
		Example: `  quorate members remove eu-1 --reason "host destroyed" --confirm eu-1
  quorate members`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireReason(a.reason, "members remove"); err != nil {
				return err
			}
			if err := c.confirm(a.confirm, args[0], "Type the node's name to remove it for good:"); err != nil {
				return err
			}
			return c.doAct(cmd, client.Request{
				Method: http.MethodDelete, Path: "/members/" + url.PathEscape(args[0]),
				Body: apitype.RemoveRequest{Reason: a.reason},
			})
		},
	}
	cmd.Flags().StringVar(&a.reason, "reason", "", "why; stands in the history")
	cmd.Flags().StringVar(&a.confirm, "confirm", "", "the node's name, instead of typing it")
	return cmd
}

func (c *cli) caCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Show and roll the mesh's certificate authority",
		Example: `  quorate ca show
  quorate ca roll`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	showCA := &cobra.Command{
		Use:   "show",
		Short: "List the CAs that nodes trust",
		Example: `  quorate ca show
  quorate ca show -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := get[apitype.CA](cmd.Context(), c, "/ca", nil)
			if err != nil {
				return err
			}
			return show(c, env, caTable)
		},
	}
	roll := &cobra.Command{
		Use:   "roll",
		Short: "Make a new CA, renew every certificate, retire the old",
		Long: `Every member must answer: each trusts the new CA, each voter gets its key, each
member a certificate of it, and only then is the old CA retired. When one does
not answer, the old CA stays trusted and the roll can be repeated.`,
		Example: `  quorate ca roll
  quorate ca show`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			before, err := get[apitype.CA](cmd.Context(), c, "/ca", nil)
			if err != nil {
				return err
			}
			env, err := send[apitype.CA](cmd.Context(), c, client.Request{Method: http.MethodPost, Path: "/ca/roll"})
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, after []apitype.CA) {
				caTable(w, after)
				retiredCAs(w, before.Items, after)
			})
		},
	}
	cmd.AddCommand(showCA, roll)
	return cmd
}

// retiredCAs names those of before that are trusted no more.
func retiredCAs(w io.Writer, before, after []apitype.CA) {
	for _, ca := range before {
		if !slices.ContainsFunc(after, func(a apitype.CA) bool { return a.Fingerprint == ca.Fingerprint }) {
			fmt.Fprintf(w, "retired CA %s, of %s\n", shortCA(ca), stamp(ca.At))
		}
	}
}

// shortCA is enough of a fingerprint to tell CAs apart.
func shortCA(ca apitype.CA) string { return ca.Fingerprint[:min(16, len(ca.Fingerprint))] }

func caTable(w io.Writer, cas []apitype.CA) {
	rows := make([][]string, 0, len(cas))
	for _, ca := range cas {
		state := "trusted"
		if ca.Signs {
			state = "signs"
		}
		rows = append(rows, []string{shortCA(ca), stamp(ca.At), state, orDash(strings.Join(ca.Members, ","))})
	}
	columns(w, "CA SINCE STATE CERTIFICATES_OF", rows)
}
