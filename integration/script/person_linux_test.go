package script

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// personTimeout is how long a person has to get through a command's questions.
const personTimeout = 60 * time.Second

// question is what the command line asks a person: the word to type stands in it,
// or it is a name that the person knows.
var question = regexp.MustCompile(`Type (yes to waive \S+|the service name [^:\n]*): $`)

// types runs a command at a terminal and answers its questions: yes to each waiver,
// then name. It returns what stood on the screen and on stdout.
func types(cmd *exec.Cmd, name string) (screen, stdout string, err error) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = keyboard.Close() }() // what was written is on the screen
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return "", "", fmt.Errorf("unlock a terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		return "", "", fmt.Errorf("name a terminal: %w", err)
	}
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", "", err
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, &out, terminal
	if err := cmd.Start(); err != nil {
		_ = terminal.Close() // nobody uses it
		return "", "", err
	}
	_ = terminal.Close() // the command has its own
	late := time.AfterFunc(personTimeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var seen []byte
	for b := make([]byte, 1024); ; {
		n, err := keyboard.Read(b) // fails once the command has ended
		if seen = append(seen, b[:n]...); err != nil {
			break
		}
		if m := question.FindSubmatch(seen); m != nil {
			word := name
			if bytes.HasPrefix(m[1], []byte("yes")) {
				word = "yes"
			}
			if _, err := io.WriteString(keyboard, word+"\n"); err != nil {
				break
			}
		}
	}
	err = cmd.Wait()
	return string(bytes.ReplaceAll(seen, []byte("\r\n"), []byte("\n"))), out.String(), err
}
