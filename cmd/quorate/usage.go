package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

// markUsageErrors makes wrong arguments of any command exit 2, say what the
// command wants and name its help.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			// An empty argument is a script's unset variable; to many verbs none
			// means all.
			if slices.Contains(args, "") {
				return usageError(fmt.Errorf("%s: an argument is empty, got %q (see: %s --help)", verbOf(cmd), args, cmd.CommandPath()))
			}
			if check(cmd, args) == nil {
				return nil
			}
			return usageError(fmt.Errorf("%w (see: %s --help)", wrongArgs(cmd, args), cmd.CommandPath()))
		}
	}
	for _, sub := range cmd.Commands() {
		markUsageErrors(sub)
	}
}

// wrongArgs says what is wrong with a command's arguments.
func wrongArgs(cmd *cobra.Command, args []string) error {
	if cmd.HasSubCommands() && len(args) > 0 {
		err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2 // typing errors; cobra's own default applies elsewhere only
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, ", "))
		}
		return err
	}
	_, wants, _ := strings.Cut(cmd.Use, " ")
	if wants == "" || strings.HasPrefix(wants, "-") { // it takes flags only
		return fmt.Errorf("%s takes no argument, got %q", verbOf(cmd), args)
	}
	if len(args) == 0 {
		return fmt.Errorf("%s needs %s, got nothing", verbOf(cmd), wants)
	}
	return fmt.Errorf("%s needs %s, got %q", verbOf(cmd), wants, args)
}

// verbOf is a command's path without the program's name.
func verbOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// tell prints an error for people: what, why and the next command. Mistakes in a
// request are named as the flags that made them; those in a file stand first, one a
// line, and are counted last.
func tell(w io.Writer, cmd *cobra.Command, err error) {
	w = plain{w}
	var (
		problem *client.ProblemError
		none    *client.UnreachableError
	)
	text := strings.TrimSuffix(err.Error(), "\n")
	switch {
	case errors.As(err, &problem) && len(problem.Errors) > 0:
		for i := range problem.Errors {
			problem.Errors[i].Pointer = flagOf(cmd, problem.Errors[i].Pointer)
		}
		text = problem.Error()
		if n := len(problem.Errors); n > 1 {
			fmt.Fprintln(w, text)
			text = fmt.Sprintf("%s; nothing was changed", count(n, "error"))
		}
	case errors.As(err, &problem) && problem.Name() == apitype.ProblemUnauthorized:
		problem.Next = "give --token-file FILE; a token comes from: quorate token create USER --groups GROUP"
		text = problem.Error()
	case errors.As(err, &problem) && problem.Name() == apitype.ProblemNotFound && problem.Next == "":
		problem.Next = listOf(problem.Problem.Error())
		text = problem.Error()
	case errors.As(err, &none) && !none.Unknown:
		text += "\nnext: give --addr HOST:PORT of a node's API, or run this as root on a node's host; a demo is started by: quorate dev"
	}
	fmt.Fprintln(w, "quorate: "+text)
}

// emptyFlags refuses flags of every verb that were given without a value: one would
// act elsewhere, or as somebody else, than the script meant.
func emptyFlags(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		all := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			all = list.GetSlice()
		}
		if len(all) == 0 || slices.Contains(all, "") {
			err = usageError(fmt.Errorf("--%s is empty; give it a value or leave it out", f.Name))
		}
	})
	return err
}

// listOf returns the verb that lists what was not found, or "".
func listOf(text string) string {
	if rest, ok := strings.CutPrefix(text, "no cluster of "); ok {
		service, _, _ := strings.Cut(rest, " ")
		return "quorate votes " + service // its targets, by cluster
	}
	for what, verb := range map[string]string{
		"no cluster is": "clusters", "no service is": "services", "no member is": "members", "no cutover is": "cutover list",
		"no revision is": "config history", "no zone is": "config show", "token ": "token list", "no plan of": "plan -f FILE",
	} {
		if strings.HasPrefix(text, what) {
			return "quorate " + verb
		}
	}
	return ""
}

// flagOf returns the flag or argument that a pointer into a request comes from:
// "/services/0" and "?client" are what was given as --services and --client. It is
// "" for what no flag or argument gave.
func flagOf(cmd *cobra.Command, pointer string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(pointer, "/?"), "/")
	if pointer == "" || pointer[0] != '/' && pointer[0] != '?' {
		return pointer
	}
	if name == "waivers" {
		name = "waive" // one a flag
	}
	switch f := cmd.Flags().Lookup(name); {
	case f != nil:
		return "--" + name
	case strings.Contains(cmd.Use, strings.ToUpper(name)):
		return strings.ToUpper(name)
	}
	return "" // the verb itself chose it
}

// count returns "1 error", "2 errors".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine joins an error's lines: some causes come with a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ": ") }

// changedFlags lists which of a set of flags were given.
func changedFlags(cmd *cobra.Command, names ...string) []string {
	var changed []string
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			changed = append(changed, "--"+n)
		}
	}
	return changed
}

// startError adds to a server's failure to start what its operator can do.
func startError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w by another process; end that one or change the address in %s", err, path)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: no interface of this host has that address; change it in %s", err, path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; the server may need CAP_NET_BIND_SERVICE for a port below 1024, or another owner of the file", err)
	}
	return err
}
