package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand is cobra's, except that a verb which does not exist is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB]...",
		Short:   "Explain a verb",
		Example: "  quorate help drain\n  quorate help config rollback",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(fmt.Errorf("no verb %q (see: quorate --help)", strings.Join(args, " ")))
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}

// writeUsage writes what follows a verb's description: how to call it, its verbs and
// flags, and at the end, where a terminal shows them, two examples.
func writeUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s VERB\n", cmd.CommandPath())
	}
	for _, group := range cmd.Groups() {
		writeVerbs(w, group.Title, cmd, group.ID)
	}
	title := "Verbs:"
	if len(cmd.Groups()) > 0 {
		title = "Other:"
	}
	writeVerbs(w, title, cmd, "")
	if own := cmd.LocalFlags().FlagUsages(); own != "" {
		fmt.Fprintf(w, "\nFlags:\n%s", own)
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nEvery verb also takes the flags of: %s --help\n", cmd.Root().Name())
	}
	_, err := fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	return err
}

func writeVerbs(w io.Writer, title string, cmd *cobra.Command, group string) {
	for _, sub := range cmd.Commands() {
		if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		if title != "" {
			fmt.Fprintf(w, "\n%s\n", title)
			title = ""
		}
		fmt.Fprintf(w, "  %-13s %s\n", sub.Name(), sub.Short)
	}
}
