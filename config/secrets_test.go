package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretsResolve(t *testing.T) {
	const value = "c4nary-5ecret"
	dir := t.TempDir()
	file := func(name, body string, mode os.FileMode) SecretSource {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return SecretSource{File: path}
	}
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink(filepath.Join(dir, "plain"), filepath.Join(dir, "link")))
	t.Setenv("QUORATE_TEST_SECRET", value+"\n")
	t.Setenv("QUORATE_TEST_EMPTY", "")
	tests := []struct {
		name   string
		source SecretSource
		want   string // "" when refused
		err    string
	}{
		{"a file is read", file("plain", value, 0o600), value, ""},
		{"a read-only file is read", file("ro", value, 0o400), value, ""},
		{"a link is followed", SecretSource{File: filepath.Join(dir, "link")}, value, ""},
		{"one newline goes", file("newline", value+"\n", 0o600), value, ""},
		{"a carriage return goes with it", file("crlf", value+"\r\n", 0o600), value, ""},
		{"only one newline goes", file("newlines", value+"\n\n", 0o600), value + "\n", ""},
		{"spaces stay", file("spaces", " "+value+" \n", 0o600), " " + value + " ", ""},
		{"a variable is read", SecretSource{Env: "QUORATE_TEST_SECRET"}, value, ""},
		{"a variable that is not set", SecretSource{Env: "QUORATE_TEST_NONE"}, "", "environment variable QUORATE_TEST_NONE is not set"},
		{"an empty variable", SecretSource{Env: "QUORATE_TEST_EMPTY"}, "", "is empty"},
		{"the group may read it", file("group", value, 0o640), "", "has mode 0640, which lets others than its owner at it; run chmod 600"},
		{"everybody may read it", file("all", value, 0o644), "", "has mode 0644"},
		{"the group may write it", file("write", value, 0o620), "", "has mode 0620"},
		{"an empty file", file("empty", "\n", 0o600), "", "is empty"},
		{"a file that is too long", file("long", strings.Repeat(value, maxSecret/len(value)+1), 0o600), "", "has more than 65536 bytes"},
		{"no file", SecretSource{File: filepath.Join(dir, "none")}, "", "no such file or directory"},
		{"a folder", SecretSource{File: dir}, "", "is not a regular file"},
		{"a pipe nobody writes to", SecretSource{File: pipe}, "", "is not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Secrets{"bus-hmac": tt.source}.Resolve("bus-hmac")
			if tt.want != "" {
				require.NoError(t, err)
				require.Equal(t, tt.want, string(got.Bytes()))
				return
			}
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, "secret bus-hmac: ")
			require.NotContains(t, err.Error(), value)
		})
	}
	_, err := Secrets(nil).Resolve("bus-hmac")
	require.ErrorIs(t, err, ErrNoSecret)
}

func TestASecretDoesNotPrint(t *testing.T) {
	s := Secret{[]byte("c4nary-5ecret")}
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(&b, verb, s)
		fmt.Fprintf(&b, verb, &s)
		fmt.Fprintf(&b, verb, struct{ S Secret }{s})
	}
	encoded, err := json.Marshal(map[string]any{"s": s, "p": &s})
	require.NoError(t, err)
	b.Write(encoded)
	log := slog.New(slog.NewJSONHandler(&b, nil))
	log.Info("x", "secret", s)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "secret", s)
	b.WriteString(s.String() + s.GoString())
	require.NotContains(t, b.String(), "c4nary")
	require.NotContains(t, b.String(), "63346e617279", "in hexadecimal")
	require.Contains(t, b.String(), hidden)
}

// Somebody who writes a value where its place belongs does not see it repeated.
func TestAValueAmongSecretsIsNotRepeated(t *testing.T) {
	for _, wrong := range []string{"x: hunter2", "x: [hunter2]", "x: { file: [hunter2] }", "x: { env: hunter2 hunter2 }", "x: { value: hunter2 }", "x: !!str hunter2", "x: hunter2, x: hunter2"} {
		n, errs, _ := ParseNode("node.yaml", []byte("node: { name: eu-1, region: eu-west }\npeer: { advertise: \"eu-1.example.com:7654\" }\nsecrets: { "+wrong+" }\n"))
		require.Nil(t, n, wrong)
		require.NotContains(t, Format(errs), "hunter2", wrong)
	}
}
