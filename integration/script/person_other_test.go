//go:build !linux

package script

import (
	"errors"
	"os/exec"
)

// types answers a command's questions at a terminal; here there is none.
func types(*exec.Cmd, string) (screen, stdout string, err error) {
	return "", "", errors.ErrUnsupported
}
