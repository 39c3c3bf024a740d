package node

import (
	"runtime"
	"runtime/debug"
)

// buildRevision is the commit the binary was built from, or "unknown".
func buildRevision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

func goVersion() string { return runtime.Version() }
