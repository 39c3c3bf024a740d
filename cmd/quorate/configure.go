package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// configureCommands read and change the spec.
func (c *cli) configureCommands() []*cobra.Command {
	return []*cobra.Command{c.checkConfigCommand(), c.planCommand(), c.applyCommand(), c.configCommand(), c.tokenCommand()}
}

// checked is what check-config found, for -o json. None of its lists is null.
type checked struct {
	Errors   []config.FieldError `json:"errors"`
	Unused   []config.Note       `json:"unused"`
	Warnings []config.Note       `json:"warnings"`
	Matches  []apitype.Match     `json:"matches"` // what selectors and exclusions pick
}

func (c *cli) checkConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE|DIR...",
		Short: "Check spec or node files without a server",
		Long: `Reports every error at once, each with file, line and column. A file that
holds a "node:" key is read as node.yaml, all others together as one spec.
Keys without behaviour in this version are noted; plan refuses them. Which
clusters a selector picks is shown, so that one too many or too few is seen.`,
		Example: `  quorate check-config spec.yaml
  quorate check-config /etc/quorate/node.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var (
				all   checked
				specs []string
			)
			for _, path := range args {
				if !isNodeFile(path) {
					specs = append(specs, path)
					continue
				}
				n, errs, warnings := config.LoadNode(path)
				all.Errors = append(all.Errors, errs...)
				all.Warnings = append(all.Warnings, warnings...)
				if n != nil {
					all.Unused = append(all.Unused, n.Unused...)
				}
			}
			if len(specs) > 0 {
				result, errs := loadSpec(specs)
				all.Errors = append(all.Errors, errs...)
				if result != nil {
					all.Unused = append(all.Unused, result.Unused...)
					all.Warnings = append(all.Warnings, result.Warnings...)
					all.Matches = picked(result.Spec)
				}
			}
			return c.showChecked(all)
		},
	}
}

func (c *cli) showChecked(all checked) error {
	if c.format() != "table" {
		all.Errors, all.Unused, all.Warnings, all.Matches = orEmpty(all.Errors), orEmpty(all.Unused), orEmpty(all.Warnings), orEmpty(all.Matches)
		if err := json.NewEncoder(c.out).Encode(all); err != nil {
			return err
		}
	} else {
		fmt.Fprint(c.err, config.FormatNotes(all.Warnings))
		fmt.Fprint(c.err, config.FormatNotes(all.Unused))
		fmt.Fprint(c.err, config.Format(all.Errors))
	}
	if n := len(all.Errors); n > 0 {
		return usageError(errors.New(count(n, "error")))
	}
	if c.format() == "table" {
		for _, m := range all.Matches {
			fmt.Fprintf(c.out, "matches  %s\n", matchText(m))
		}
		fmt.Fprintln(c.out, "ok")
	}
	return nil
}

// picked says which clusters the services that match or exclude answer with. What
// names its clusters, or takes all, is plain from the file.
func picked(spec *statestore.Spec) []apitype.Match {
	var all []apitype.Match
	for _, m := range policy.Matches(&statestore.Spec{}, spec) {
		if sel := spec.Services[m.Service].Clusters; sel.Match != "" || len(sel.Exclude) > 0 {
			all = append(all, apitype.Match{Service: m.Service, Selector: m.Selector, Clusters: m.Clusters})
		}
	}
	return all
}

// isNodeFile reports whether a file is a node.yaml: it has a top-level node key.
func isNodeFile(path string) bool { return hasKey(path, "node") }

// hasKey reports whether a line of the file begins with the key.
func hasKey(path, key string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, key+":") {
			return true
		}
	}
	return false
}

// readSpec reads a spec and refuses what check-config refuses, before any node is asked.
func readSpec(paths []string, stderr io.Writer) (*config.Result, error) {
	for _, path := range paths {
		if isNodeFile(path) {
			return nil, usageError(fmt.Errorf("%s is a node.yaml: it has a \"node:\" key; a spec is wanted. Nothing was sent", path))
		}
	}
	result, errs := loadSpec(paths)
	if len(errs) > 0 {
		fmt.Fprint(stderr, config.Format(errs))
		return nil, codeError{client.ExitUsage, fmt.Errorf("the spec has %s; nothing was sent", count(len(errs), "error"))}
	}
	fmt.Fprint(stderr, config.FormatNotes(result.Ignored))
	return result, nil
}

// loadSpec reads a spec and says what of it could not be served, as the server does.
func loadSpec(paths []string) (*config.Result, []config.FieldError) {
	result, errs := config.LoadSpec(paths, node.ReadZone)
	if len(errs) == 0 {
		errs = node.CheckSpec(strings.Join(paths, ", "), result)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return result, nil
}

func (c *cli) planCommand() *cobra.Command {
	var (
		files    []string
		exitCode bool
	)
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIR",
		Short: "Show what applying a spec would change",
		Example: `  quorate plan -f spec.yaml
  quorate plan -f spec/ --exit-code        exit 10 when there are differences`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usageError(fmt.Errorf("plan needs -f FILE or -f DIR"))
			}
			plan, err := c.plan(cmd, files)
			if err != nil {
				return err
			}
			if err := show(c, plan, planTable); err != nil {
				return err
			}
			p, err := one(plan)
			switch {
			case err != nil:
				return err
			case len(p.Blockers) > 0:
				return codeError{client.ExitRefused, fmt.Errorf("apply would be refused")}
			case exitCode && len(p.Changes) > 0:
				return quietError(client.ExitDiffers)
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil, "spec file or directory; may be repeated")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit 10 when there are differences")
	return cmd
}

// plan asks for a plan and keeps its source, so that apply --plan works through any node.
func (c *cli) plan(cmd *cobra.Command, files []string) (apitype.Envelope[apitype.Plan], error) {
	var none apitype.Envelope[apitype.Plan]
	result, err := readSpec(files, c.err)
	if err != nil {
		return none, err
	}
	env, err := send[apitype.Plan](cmd.Context(), c, client.Request{
		Method: http.MethodPost, Path: "/plans",
		Body: apitype.PlanRequest{Source: result.Source, Name: strings.Join(files, ",")},
	})
	if err != nil {
		return none, err
	}
	p, err := one(env)
	if err != nil {
		return none, err
	}
	if err := keepPlan(p.ID, result.Source); err != nil {
		fmt.Fprintf(c.err, "the plan is not kept here (%v); apply with -f instead\n", err)
	}
	return env, nil
}

// planPath is where the source of a plan is kept for apply --plan.
func planPath(id string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "quorate", "plans", filepath.Base(id)+".yaml"), nil
}

func keepPlan(id, source string) error {
	path, err := planPath(id)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(source), 0o600)
}

func planTable(w io.Writer, plans []apitype.Plan) {
	for _, p := range plans {
		if len(p.Changes) == 0 {
			fmt.Fprintf(w, "revision %d stays      class: %s\nno difference\n", p.Base, p.Class)
		} else {
			fmt.Fprintf(w, "revision %d -> %d      plan %s      class: %s\n", p.Base, p.Next, p.ID, p.Class)
		}
		paths := 34
		for _, ch := range p.Changes {
			paths = min(max(paths, len(ch.Path)), 50)
		}
		for _, ch := range p.Changes {
			switch {
			case ch.Old != "" && ch.New != "":
				fmt.Fprintf(w, "%s %-*s %s -> %s\n", ch.Op, paths, ch.Path, ch.Old, ch.New)
			default:
				fmt.Fprintf(w, "%s %-*s %s\n", ch.Op, paths, ch.Path, ch.Old+ch.New)
			}
		}
		for _, i := range p.Answers {
			fmt.Fprintf(w, "answers  %s: %s\n", i.Service, impactText(i))
		}
		for _, m := range p.Matches {
			fmt.Fprintf(w, "matches  %s\n", matchText(m))
		}
		reachTable(w, p.Clients, 8)
		fmt.Fprintf(w, "guards   updates %.0f%% of %.0f%%, deletes %.0f%% of %.0f%%, NS changed: %s\n",
			100*p.Guards.Updates, 100*p.Guards.MaxUpdates, 100*p.Guards.Deletes, 100*p.Guards.MaxDeletes, yesNo(p.Guards.NSChanged))
		for _, x := range p.Guards.Exceeded {
			fmt.Fprintf(w, "guard    %s%s\n", x, forceLifts)
		}
		for _, b := range p.Blockers {
			if p.Applied > 0 {
				fmt.Fprintf(w, "forced   %s: %s\n", b.Rule, b.Reason)
			} else {
				fmt.Fprintf(w, "blocked  %s\n", blockerText(b))
			}
		}
		for _, x := range p.Warnings {
			fmt.Fprintf(w, "warning  %s\n", x)
		}
		switch {
		case p.Applied > 0:
			fmt.Fprintf(w, "applied: revision %d at index %d\n", p.Next, p.Applied)
		case len(p.Changes) > 0 && len(p.Blockers) == 0:
			force := ""
			if len(p.Guards.Exceeded) > 0 {
				force = " --force"
			}
			fmt.Fprintf(w, "Apply with: quorate apply --plan %s%s\n", p.ID, force)
		}
	}
}

// forceLifts ends a line about what a person may pass over.
const forceLifts = " (--force lifts it)"

func blockerText(b apitype.Blocker) string {
	text := b.Rule + ": " + b.Reason
	if b.Waivable {
		text += forceLifts
	}
	return text
}

// matchText says which clusters a service's selector picks.
func matchText(m apitype.Match) string {
	text := fmt.Sprintf("%s: %s picks %s", m.Service, m.Selector, orDash(strings.Join(m.Clusters, ", ")))
	if len(m.Came) > 0 {
		text += "; new: " + strings.Join(m.Came, ", ")
	}
	if len(m.Went) > 0 {
		text += "; gone: " + strings.Join(m.Went, ", ")
	}
	return text
}

func (c *cli) applyCommand() *cobra.Command {
	var (
		a     act
		files []string
		id    string
		force bool
		drain bool
	)
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR | --plan ID",
		Short: "Make a spec the next revision",
		Example: `  quorate apply -f spec.yaml --reason "add ap"
  quorate apply -f spec.yaml --cascade --reason "eu is closed"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (len(files) == 0) == (id == "") {
				return usageError(fmt.Errorf("apply needs either -f FILE or --plan ID"))
			}
			if drain && id != "" {
				return usageError(fmt.Errorf("apply --cascade needs -f FILE: it looks at what the plan removes"))
			}
			if id == "" {
				plan, err := c.plan(cmd, files)
				if err != nil {
					return err
				}
				p, err := one(plan)
				if err != nil {
					return err
				}
				switch {
				case len(p.Changes) == 0:
					return show(c, plan, planTable)
				case a.dryRun:
					return c.dryApply(cmd, plan, p, force, drain)
				}
				if c.tty() {
					planTable(c.err, plan.Items)
					if err := c.askName("yes", "Type yes to apply it:"); err != nil {
						return err
					}
				}
				id = p.ID
				if drain {
					if err := c.cascade(cmd, p, a.reason, force); err != nil {
						return err
					}
				}
			}
			req := apitype.ApplyRequest{Reason: a.reason, Force: force}
			if path, err := planPath(id); err == nil {
				if source, err := os.ReadFile(path); err == nil {
					req.Source, req.Name = string(source), strings.Join(files, ",")
				}
			}
			env, err := send[apitype.Plan](cmd.Context(), c, client.Request{
				Method: http.MethodPost, Path: "/plans/" + url.PathEscape(id) + "/apply", Body: req,
			})
			if req.Source == "" && client.ExitCode(err) == client.ExitNotFound {
				return codeError{client.ExitNotFound, fmt.Errorf("no plan %q is known here; make one with: quorate plan -f FILE", id)}
			}
			if err != nil {
				return err
			}
			return show(c, env, planTable)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil, "spec file or directory; may be repeated")
	cmd.Flags().StringVar(&id, "plan", "", "id of a plan made before")
	cmd.Flags().BoolVar(&drain, "cascade", false, "first drain the clusters it removes, and wait for the cache clock")
	cmd.Flags().BoolVar(&force, "force", false, "go on although a guard rail of the plan is exceeded")
	return cmd
}
