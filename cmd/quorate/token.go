package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

func (c *cli) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make bearer tokens, list and revoke them",
		Example: `  quorate token create sre-1 --groups sre --for 720h
  quorate token list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.tokenCreateCommand(), c.tokenListCommand(), c.tokenRevokeCommand())
	return cmd
}

func (c *cli) tokenCreateCommand() *cobra.Command {
	var (
		groups, sources []string
		life            string
	)
	cmd := &cobra.Command{
		Use:   "create USER",
		Short: "Make a token; it is shown this once",
		Long: `The signatures of a token count as those of the person who made it, or one person
could sign twice. Make those of approvers as root on a node's host, without --addr and
QUORATE_ADDR: made at the local socket they count as their user's.
Groups mean what the spec's roles say; while it has none, there are viewer, operator,
approver and admin.`,
		Example: `  quorate token create alice --groups approver --for 720h
  quorate token create ci --groups platform --sources 192.0.2.0/24`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(groups) == 0 {
				fmt.Fprintln(c.err, "without --groups the token is in no role and may do nothing; built-in roles are viewer, operator, approver, admin")
			}
			env, err := send[apitype.Token](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/tokens",
				Body: apitype.TokenRequest{User: args[0], Groups: groups, For: life, Sources: sources},
			})
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.Token) {
				for _, t := range items {
					fmt.Fprintln(w, t.Secret)
					fmt.Fprintf(c.err, "token %s of %s; it is not shown again. Keep it in a file of mode 0600 and use --token-file.\n", t.ID, t.User)
					if len(groups) > 0 && t.Roles != nil && len(t.Roles) == 0 {
						fmt.Fprintf(c.err, "no role has the group %s: the token may do nothing\n", strings.Join(groups, " or "))
					}
					if who := countsAs(t); who != t.User {
						fmt.Fprintf(c.err, "its signatures count as %s's; those of a token made at a node's local socket count as its user's\n", who)
					}
				}
			})
		},
	}
	cmd.Flags().StringSliceVar(&groups, "groups", nil, "groups, matched against the spec's roles")
	cmd.Flags().StringSliceVar(&sources, "sources", nil, "networks it may be used from; default any")
	cmd.Flags().StringVar(&life, "for", "", "lifetime such as 720h; default no end")
	return cmd
}

func (c *cli) tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List tokens, without their secrets",
		Example: `  quorate token list
  quorate token list -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := get[apitype.Token](cmd.Context(), c, "/tokens", nil)
			if err != nil {
				return err
			}
			return show(c, env, func(w io.Writer, items []apitype.Token) {
				rows := make([][]string, 0, len(items))
				for _, t := range items {
					rows = append(rows, []string{t.ID, t.User, orDash(strings.Join(t.Groups, ",")), orDash(t.Minter), countsAs(t), stamp(t.At), stamp(t.Expires)})
				}
				columns(w, "ID USER GROUPS MINTER COUNTS_AS MADE EXPIRES", rows)
			})
		},
	}
}

// countsAs is the person whose signatures a token makes: whoever made it, or nobody
// could be kept from signing twice with two tokens.
func countsAs(t apitype.Token) string {
	if t.Root || t.Minter == "" {
		return t.User
	}
	return t.Minter
}

func (c *cli) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token at once",
		Example: `  quorate token revoke 4f2a
  quorate token list`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.doAct(cmd, client.Request{Method: http.MethodDelete, Path: "/tokens/" + url.PathEscape(args[0])})
		},
	}
}
