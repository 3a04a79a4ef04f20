package restart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// checkLimit bounds the check of the next program.
const checkLimit = time.Minute

// checkFlag makes a program of Waypost check its configuration and end.
const checkFlag = "--check-config"

// Check runs the program on the disk with the arguments and the environment of this
// process, to check its configuration and nothing else. The error holds the output of
// that program.
func Check(ctx context.Context) error {
	path, err := program()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, append(slices.Clone(os.Args[1:]), checkFlag)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", path, checkFlag, err, bytes.ReplaceAll(bytes.TrimSpace(out), []byte("\n"), []byte("; ")))
	}
	return nil
}

// Exec replaces the program of this process by the one on the disk, with the same
// arguments and environment, and leaves the sockets to it. It returns only an error. The
// caller has closed everything that is to be closed in order: the kernel ends all
// goroutines. SIGHUP is ignored until the new program asks for it.
func (h *Held) Exec() error {
	path, err := program()
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{pidVariable, countVariable, namesVariable, descriptorsVariable, noteVariable}, name)
	})
	if len(h.descriptors) > 0 {
		var numbers []string
		for _, fd := range h.descriptors {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
				return os.NewSyscallError("fcntl", err)
			}
			numbers = append(numbers, strconv.Itoa(fd))
		}
		env = append(env, pidVariable+"="+strconv.Itoa(os.Getpid()), namesVariable+"="+strings.Join(h.names, ":"),
			descriptorsVariable+"="+strings.Join(numbers, ":"), noteVariable+"="+h.Note)
	}
	signal.Ignore(syscall.SIGHUP)
	return fmt.Errorf("start %s: %w", path, syscall.Exec(path, os.Args, env))
}

// program returns the path of the program that is on the disk now.
func program() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return os.Executable()
	}
	return path, nil
}
