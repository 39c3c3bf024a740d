package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"
)

// Contexts is the client's file of installations it can talk to.
type Contexts struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// Context says how the client reaches one installation.
type Context struct {
	Addr      []string `yaml:"addr,omitempty"` // URLs or unix sockets, tried in order
	TokenFile string   `yaml:"token_file,omitempty"`

	// Demo is set while a demo runs; it removes the context when it ends.
	Demo *DemoContext `yaml:"demo,omitempty"`
}

// DemoContext is how the client reaches the demo itself.
type DemoContext struct {
	Control  string            `yaml:"control"`            // unix socket that takes orders
	Users    map[string]string `yaml:"users,omitempty"`    // user -> token file, for --as
	DNS      map[string]string `yaml:"dns,omitempty"`      // node -> IP:PORT
	APIs     map[string]string `yaml:"apis,omitempty"`     // node -> URL
	Previous string            `yaml:"previous,omitempty"` // context that was current before
}

// ContextsPath returns where the client keeps its contexts:
// $XDG_CONFIG_HOME/quorate/contexts.yaml, else below ~/.config.
func ContextsPath() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the contexts file: %w (set XDG_CONFIG_HOME)", err)
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "quorate", "contexts.yaml"), nil
}

// LoadContexts reads the contexts file at path. A file that does not exist has no contexts.
func LoadContexts(path string) (Contexts, error) {
	var c Contexts
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read contexts: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("read contexts %s: %w", path, err)
	}
	if c.Current != "" {
		if _, ok := c.Contexts[c.Current]; !ok {
			return c, fmt.Errorf("contexts %s: current names %q, which is none of %v", path, c.Current, c.Names())
		}
	}
	return c, nil
}

// Names returns the contexts' names, sorted.
func (c Contexts) Names() []string {
	names := make([]string, 0, len(c.Contexts))
	for n := range c.Contexts {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// SaveContexts writes the file at path, readable by its owner only, in one step.
func SaveContexts(path string, c Contexts) error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".contexts-*")
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when the rename worked
	_, werr := tmp.Write(text)
	if err := errors.Join(werr, tmp.Close()); err != nil {
		return fmt.Errorf("write contexts %s: %w", tmp.Name(), err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}
