package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The book is read while the node opens: failing there would take its DNS away.
func TestADamagedAddressBookIsAnEmptyOne(t *testing.T) {
	for name, text := range map[string]string{
		"cut short": `{"eu-1": "192.0.`, "empty": "", "another shape": `[1, 2]`, "null": "null", "half right": `{"eu-1": "192.0.2.1:7654", "us-1": 5}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), peersFile)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			b := &addressBook{n: &Node{log: slog.New(slog.DiscardHandler)}, path: path}
			b.load()
			require.NotNil(t, b.learned)
			require.Empty(t, b.learned)
		})
	}
}
