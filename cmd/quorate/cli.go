package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/config"
)

// cli is what every verb shares: where it talks to, as whom, and how it answers.
type cli struct {
	in  io.Reader
	out io.Writer // data
	err io.Writer // talk

	person bool // someone is at a terminal and can be asked

	addr      string
	context   string
	tokenFile string
	as        string
	caFile    string
	output    string
	key       string
	timeout   time.Duration
}

func (c *cli) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.addr, "addr", "", "nodes to talk to, comma list tried in order (QUORATE_ADDR)")
	f.StringVar(&c.context, "context", "", "context of the contexts file; default its current one")
	f.StringVar(&c.tokenFile, "token-file", "", "file with the bearer token (QUORATE_TOKEN_FILE)")
	f.StringVar(&c.caFile, "ca-file", "", "PEM that vouches for https addresses (QUORATE_CA_FILE)")
	f.StringVar(&c.as, "as", "", "user of the demo to act as; in the demo only")
	f.StringVarP(&c.output, "output", "o", "table", "table, json, jsonl, yaml or name")
	f.StringVar(&c.key, "idempotency-key", "", "repeat a write under the key it was first sent with")
	f.DurationVar(&c.timeout, "timeout", client.DefaultTimeout, "how long one call may take")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := emptyFlags(cmd); err != nil {
			return err
		}
		if c.timeout <= 0 {
			return usageError(fmt.Errorf("--timeout must be a duration above 0 such as 20s, is %s", c.timeout))
		}
		switch c.output {
		case "table", "json", "jsonl", "yaml", "name":
			return nil
		}
		return usageError(fmt.Errorf("--output must be table, json, jsonl, yaml or name, is %q", c.output))
	}
}

func (c *cli) format() string { return c.output }

// currentContext returns the contexts file's current context, or the one asked for.
func (c *cli) currentContext() (config.Context, error) {
	path, err := config.ContextsPath()
	if err != nil {
		return config.Context{}, usageError(err)
	}
	all, err := config.LoadContexts(path)
	if err != nil {
		return config.Context{}, usageError(err)
	}
	name := c.context
	if name == "" {
		return all.Contexts[all.Current], nil
	}
	ctx, ok := all.Contexts[name]
	if !ok {
		return ctx, usageError(fmt.Errorf("no context %q in %s; there are %v", name, path, all.Names()))
	}
	return ctx, nil
}

// client makes the client of a verb: --addr, else QUORATE_ADDR, else the context,
// else the local socket.
func (c *cli) client() (*client.Client, error) {
	o := client.Options{TokenFile: firstOf(c.tokenFile, os.Getenv("QUORATE_TOKEN_FILE")), CAFile: firstOf(c.caFile, os.Getenv("QUORATE_CA_FILE")), Timeout: c.timeout}
	if addr := firstOf(c.addr, os.Getenv("QUORATE_ADDR")); addr != "" {
		o.Addrs = strings.Split(addr, ",")
	}
	if len(o.Addrs) == 0 || o.TokenFile == "" || c.as != "" {
		current, err := c.currentContext()
		if err != nil {
			return nil, err
		}
		if len(o.Addrs) == 0 {
			o.Addrs = current.Addr
		}
		// A context's token goes to that context's addresses and to no other.
		own := sameAddrs(current.Addr)
		if !slices.ContainsFunc(sameAddrs(o.Addrs), func(a string) bool { return !slices.Contains(own, a) }) {
			o.TokenFile = firstOf(o.TokenFile, current.TokenFile)
		}
		if c.as != "" {
			switch {
			case current.Demo == nil:
				return nil, usageError(fmt.Errorf("--as %s works in the demo only; elsewhere use --token-file", c.as))
			case current.Demo.Users[c.as] == "":
				return nil, usageError(fmt.Errorf("--as must be one of the demo's users %s, is %q", strings.Join(sortedKeys(current.Demo.Users), ", "), c.as))
			}
			o.TokenFile = current.Demo.Users[c.as]
		}
	}
	if len(o.Addrs) == 0 {
		o.Addrs = []string{"unix:" + node.RunDir + "/quorate.sock"}
	}
	return client.New(o)
}

// sameAddrs spells addresses one way: HOST:PORT is http://HOST:PORT.
func sameAddrs(addrs []string) []string {
	same := make([]string, len(addrs))
	for i, a := range addrs {
		a = strings.TrimSuffix(strings.TrimSpace(a), "/")
		if !strings.Contains(a, "://") && !strings.HasPrefix(a, "unix:") {
			a = "http://" + a
		}
		same[i] = a
	}
	return same
}

// get reads one kind of object and says to stderr when it may be old.
func get[T any](ctx context.Context, c *cli, path string, query url.Values) (apitype.Envelope[T], error) {
	cl, err := c.client()
	if err != nil {
		return apitype.Envelope[T]{}, err
	}
	res, err := client.Get[T](ctx, cl, path, query)
	if err != nil {
		return apitype.Envelope[T]{}, err
	}
	c.noteStale(res.Meta)
	return res.Envelope, nil
}

// send does a write and returns what came of it.
func send[T any](ctx context.Context, c *cli, r client.Request) (apitype.Envelope[T], error) {
	cl, err := c.client()
	if err != nil {
		return apitype.Envelope[T]{}, err
	}
	r.Key = c.key
	res, err := client.Do[T](ctx, cl, r)
	if err != nil {
		return apitype.Envelope[T]{}, err
	}
	return res.Envelope, nil
}

func (c *cli) noteStale(m client.Meta) {
	if m.Stale {
		fmt.Fprintf(c.err, "NO QUORUM - as of %s, read only\n", clock(m.AsOf))
	}
}

// terminal reports whether a person reads what is said and can answer.
func terminal(stdin io.Reader, stderr io.Writer) bool {
	in, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	out, ok := stderr.(*os.File)
	return ok && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// tty reports whether a person can be asked.
func (c *cli) tty() bool { return c.person }

// errNotConfirmed is returned when a person typed something else.
var errNotConfirmed = errors.New("not confirmed; nothing was done")

// confirm makes sure that a severe act names its object: --confirm NAME, or typed
// by a person. Without a terminal the flag is required.
func (c *cli) confirm(flag, name, question string) error {
	switch {
	case flag == name:
		return nil
	case flag != "":
		return usageError(fmt.Errorf("--confirm must be %s, is %q; nothing was done", name, flag))
	case !c.tty():
		return usageError(fmt.Errorf("nobody can be asked here: add --confirm %s", name))
	}
	return c.askName(name, question)
}

func (c *cli) askName(name, question string) error {
	fmt.Fprint(c.err, question+" ")
	line, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && line == "" {
		return errNotConfirmed
	}
	if strings.TrimSpace(line) != name {
		return errNotConfirmed
	}
	return nil
}

func firstOf(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}

// requireReason refuses an act without a reason: a comment is for the post-mortem.
func requireReason(reason, verb string) error {
	if strings.TrimSpace(reason) == "" {
		return usageError(fmt.Errorf("%s needs --reason \"...\": it stands in the history", verb))
	}
	return nil
}
