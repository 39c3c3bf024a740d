package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorate/quorate/cmd/quorate/dev"
	"github.com/quorate/quorate/config"
)

// tryCommands let a person see it work on one machine.
func (c *cli) tryCommands() []*cobra.Command { return []*cobra.Command{c.devCommand()} }

func (c *cli) devCommand() *cobra.Command {
	var (
		nodes    int
		verbose  bool
		scenario string
	)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run three real nodes and three fake clusters here",
		Long: `Runs a demo on 127.0.0.1: real nodes with their own stores, TLS and ports, fake
clusters with a switch, fake databases that check the ownership token, three
people (alice, bob, carol; --as names one), data in a temporary folder. It needs
no root, no network and no file, and removes what it made when it ends. While it
runs, every other verb talks to it.`,
		Example: `  quorate dev
  quorate dev --scenario tour              plays the whole story in a minute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := config.ContextsPath()
			if err != nil {
				return usageError(err)
			}
			if _, err := config.LoadContexts(path); err != nil {
				return usageError(err) // the client could not find the demo
			}
			cfg := dev.Config{
				Nodes: nodes, Version: version, ContextsPath: path,
				Out: c.out, Err: c.err, JSON: c.format() == "json", Scenario: scenario,
			}
			if verbose {
				cfg.Log = slog.New(slog.NewTextHandler(c.err, nil))
			}
			err = dev.Run(cmd.Context(), cfg)
			if cmd.Context().Err() != nil && scenario == "" {
				return nil // Ctrl-C is how it ends
			}
			return plainOrder(err)
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 3, "how many nodes")
	cmd.Flags().StringVar(&scenario, "scenario", "", "play a story with captions, assert each step and end: tour")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "print the nodes' logs")
	for _, o := range []struct {
		use, short, example string
		args                cobra.PositionalArgs
	}{
		{"toggle CLUSTER up|down", "Switch a fake cluster", "quorate dev toggle eu down\n  quorate dev toggle eu up", cobra.ExactArgs(2)},
		{"blind NODE CLUSTER", "Drop one node's probes of one cluster", "quorate dev blind ap-1 eu\n  quorate dev heal", cobra.ExactArgs(2)},
		{"cut NODE...|all", "Cut a node off from its peers", "quorate dev cut us-1\n  quorate dev cut all", cobra.MinimumNArgs(1)},
		{"heal", "Undo every blind and cut", "quorate dev heal\n  quorate dev heal && quorate status", cobra.NoArgs},
		{"kill NODE...|all", "End a node", "quorate dev kill us-1\n  quorate dev kill all", cobra.MinimumNArgs(1)},
		{"lag SERVICE SECONDS|frozen|ok", "Let replication between the databases trail", "quorate dev lag orders-db 5\n  quorate dev lag orders-db ok", cobra.ExactArgs(2)},
		{"start NODE...|all", "Start a node again", "quorate dev start us-1\n  quorate dev start all", cobra.MinimumNArgs(1)},
	} {
		verb, _, _ := strings.Cut(o.use, " ")
		cmd.AddCommand(&cobra.Command{
			Use: o.use, Short: o.short, Example: "  " + o.example, Args: o.args,
			RunE: func(cmd *cobra.Command, args []string) error { return c.order(cmd.Context(), verb, args) },
		})
	}
	cmd.AddCommand(c.devWatchCommand())
	return cmd
}

// demo returns the context of the running demo.
func (c *cli) demo() (config.Context, error) {
	current, err := c.currentContext()
	if err != nil {
		return current, err
	}
	if current.Demo == nil {
		return current, dev.ErrNoDemo
	}
	return current, nil
}

func (c *cli) order(ctx context.Context, verb string, args []string) error {
	demo, err := c.demo()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	done, err := dev.Send(ctx, demo.Demo.Control, dev.Order{Verb: verb, Args: args})
	if err != nil {
		return plainOrder(err)
	}
	_, err = fmt.Fprintln(c.out, done)
	return err
}

// plainOrder keeps what is wrong with an order and drops that it is one.
func plainOrder(err error) error {
	if errors.Is(err, dev.ErrUsage) {
		return usageError(errors.New(strings.TrimPrefix(err.Error(), dev.ErrUsage.Error()+": ")))
	}
	return err
}

func (c *cli) devWatchCommand() *cobra.Command {
	var rate int
	var forTime time.Duration
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Query every node and check every answer",
		Long: `Asks every node for the demo's services many times a second, and checks each
answer against what was committed: for orders-db that it is the active side's,
withheld only while a cutover is under way, and never the old side's again. It
also writes to every database and counts how many take writes at once. Leave it
running while you break things. It exits with 1 when something was wrong.`,
		Example: `  quorate dev watch
  quorate dev watch --for 10s --rate 200`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			demo, err := c.demo()
			if err != nil {
				return err
			}
			if rate < 1 || rate > 10000 {
				return usageError(errors.New("--rate must be 1 to 10000 queries a second"))
			}
			ctx := cmd.Context()
			if forTime > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, forTime)
				defer cancel()
			}
			token, err := os.ReadFile(demo.TokenFile)
			if err != nil {
				return dev.ErrNoDemo
			}
			cfg := dev.WatchConfig{
				DNS: demo.Demo.DNS, APIs: demo.Demo.APIs, Control: demo.Demo.Control, Token: strings.TrimSpace(string(token)),
				Rate: rate, Out: c.out,
			}
			if f, ok := c.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				cfg.Width = func() int {
					width, _, _ := term.GetSize(int(f.Fd())) // not known: 0
					return width
				}
			}
			return dev.Watch(ctx, cfg)
		},
	}
	cmd.Flags().IntVar(&rate, "rate", 50, "queries a second to each node, for each name")
	cmd.Flags().DurationVar(&forTime, "for", 0, "end after this long; default until Ctrl-C")
	return cmd
}

// sortedKeys returns a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
