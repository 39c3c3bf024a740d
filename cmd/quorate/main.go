// Command quorate is a global health checker and GSLB DNS server, and its client.
//
// The daemon wires the packages in order and stops them in reverse; the client
// verbs talk to any node over /v1. Nothing is decided here.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/client"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings handed in; it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{in: stdin, out: stdout, err: stderr, person: terminal(stdin, stderr)}
	return c.run(ctx, args)
}

// run does what the arguments say and returns the exit code.
func (c *cli) run(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return client.ExitOK
	}
	code := exitCode(err)
	if ctx.Err() != nil && code == client.ExitFailure {
		code = client.ExitInterrupt
	}
	var quiet quietError
	if !errors.As(err, &quiet) {
		tell(c.err, ran, err)
	}
	return code
}

// root returns the command tree: Look, Act, Configure, Operate, Try.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorate",
		Short: "Answer DNS from what a quorum agrees is alive",
		Long: `quorate probes clusters from several regions, agrees by quorum on what is
alive, and answers DNS for a delegated zone from that agreement.`,
		Example: `  quorate dev                              try it on this machine
  quorate status                           what is up, as a quorum sees it`,
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w (see: %s --help)", err, cmd.CommandPath()))
	})
	c.addGlobalFlags(root)
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"look", "Look:", c.lookCommands()},
		{"act", "Act:", c.actCommands()},
		{"configure", "Configure:", c.configureCommands()},
		{"operate", "Operate:", c.operateCommands()},
		{"try", "Try:", c.tryCommands()},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.SetVersionTemplate("quorate {{.Version}}\n")
	root.AddCommand(c.versionCommand())
	root.SetHelpCommand(helpCommand())
	root.SetUsageFunc(writeUsage)
	markUsageErrors(root)
	return root
}
