package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/config"
)

func (c *cli) serverCommand() *cobra.Command {
	var path, socket string
	cmd := &cobra.Command{
		Use:   "server -c FILE",
		Short: "Run a node",
		Example: `  quorate server -c /etc/quorate/node.yaml
  quorate server -c node.yaml --socket ./quorate.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.loadNode(path)
			if err != nil {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read node.yaml: %w", err)
			}
			level := new(slog.LevelVar)
			log := newLogger(c.err, cfg.Log, level)
			var running atomic.Pointer[node.Node]
			if !c.person {
				defer onHangUps(func() {
					if n := running.Load(); n != nil {
						_, _ = n.Reload() // it has said what came of it
						return
					}
					log.Warn("a hang-up while the node starts does nothing; what it would read is being read")
				})()
			}
			workers := makeRoom()
			collectOften()
			n, err := node.Open(cfg, node.Options{
				Workers: workers, OwnProcess: true,
				Version: version, Source: string(source), Socket: socket, CheckStore: checkStoreApart,
				Reload: func() (*config.Node, string, error) { return rereadNode(path) },
				Log:    log, Level: level,
			})
			if err != nil {
				return startError(path, err)
			}
			running.Store(n)
			notify("READY=1") // sockets are bound, and what was last agreed is loaded
			stopping := context.AfterFunc(cmd.Context(), func() { notify("STOPPING=1") })
			defer stopping()
			return n.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "/etc/quorate/node.yaml", "node.yaml")
	cmd.Flags().StringVar(&socket, "socket", "", "unix socket of the API; default /run/quorate/quorate.sock, else in data_dir")
	return cmd
}

// makeRoom returns how many DNS workers an address gets: one a core. A worker that has
// work never lets go of its processor, as the runtime calls it, so there is one for each
// worker of two addresses, and one more: then the kernel shares the cores out, and a
// flood takes neither probes nor consensus their turn, on a single core as on many.
func makeRoom() (workers int) {
	workers = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(2*workers + 1)
	return workers
}

// garbage is what may gather before it is collected, in percent of what is in use.
// Answers allocate nothing, so that collecting twice as often as usual costs them little,
// and a node with ten thousand services is a third smaller.
const garbage = 50

// collectOften keeps the heap small, unless the environment says how large it may be.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// onHangUps calls f at each SIGHUP until it is undone, instead of ending the process:
// whoever sends one to a daemon means "read your files again" and to lose no answers.
func onHangUps(f func()) (undo func()) {
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-hups:
				f()
			case <-stop:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hups)
		close(stop)
		<-stopped
	}
}

// rereadNode reads node.yaml for a node that runs. The error has every fault of it.
func rereadNode(path string) (*config.Node, string, error) {
	cfg, errs, _ := config.LoadNode(path)
	if len(errs) > 0 {
		return nil, "", errors.New(strings.TrimSpace(config.Format(errs)))
	}
	if err := unusedKeys(path, cfg); err != nil {
		return nil, "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read node.yaml: %w", err)
	}
	return cfg, string(source), nil
}

// unusedKeys refuses keys without behaviour by name.
func unusedKeys(path string, cfg *config.Node) error {
	if len(cfg.Unused) == 0 {
		return nil
	}
	var names []string
	for _, u := range cfg.Unused {
		names = append(names, u.Path)
	}
	return fmt.Errorf("%s sets what this version does not do: %s; remove those keys", path, strings.Join(names, ", "))
}

// loadNode reads node.yaml. A key without behaviour is refused by name: to ignore
// it would be to promise what this version does not do.
func (c *cli) loadNode(path string) (*config.Node, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, usageError(fmt.Errorf("%s does not exist; make it with quorate init or quorate join, or name another with -c FILE", path))
	}
	cfg, errs, warnings := config.LoadNode(path)
	if len(errs) > 0 {
		if hasKey(path, "zones") && !isNodeFile(path) {
			return nil, usageError(fmt.Errorf("%s is a spec, and node.yaml is wanted; a spec goes to: quorate apply -f %s", path, path))
		}
		fmt.Fprint(c.err, config.Format(errs))
		return nil, usageError(fmt.Errorf("%s is wrong; check it with: quorate check-config %s", path, path))
	}
	fmt.Fprint(c.err, config.FormatNotes(warnings))
	if err := unusedKeys(path, cfg); err != nil {
		return nil, usageError(err)
	}
	return cfg, nil
}

// newLogger logs to w as node.yaml says: text on a terminal and JSON otherwise
// when the format is auto.
func newLogger(w io.Writer, cfg config.NodeLog, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(cfg.Level)) // config has checked it
	o := &slog.HandlerOptions{Level: level}
	f, isFile := w.(*os.File)
	if cfg.Format == "text" || cfg.Format == "auto" && isFile && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// checkStoreDeadline is above what checking a store of gigabytes takes.
const checkStoreDeadline = 30 * time.Second

// checkStoreApart checks the store in a child process: a damaged bbolt file may
// panic or hang whoever opens it.
func checkStoreApart(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return nil // cannot be checked apart, and opening it here would risk the node
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkStoreDeadline)
	defer cancel()
	out, err := exec.CommandContext(ctx, self, "node", "check-store", dir).CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("check store %s: it did not end within %s", dir, checkStoreDeadline)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("check store %s: %s", dir, first)
}

// errExists refuses to overwrite a file of an earlier init or join.
func errExists(path string) error {
	return codeError{client.ExitConflict, fmt.Errorf("%s exists; nothing was changed", path)}
}
