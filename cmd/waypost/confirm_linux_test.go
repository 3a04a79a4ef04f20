package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal returns both ends of a pseudo terminal: the keyboard, and the standard input
// of a program.
func terminal(t *testing.T) (keyboard, stdin *os.File) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() }) // some tests have closed it
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	stdin, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stdin.Close()) })
	return keyboard, stdin
}

func TestOnATerminalItIsAskedBeforeClicksAreDeleted(t *testing.T) {
	for typed, went := range map[string]bool{"spring\n": true, "y\n": false, "\n": false} {
		keyboard, stdin := terminal(t)
		_, err := keyboard.WriteString(typed)
		require.NoError(t, err)
		var stderr bytes.Buffer
		p := &program{stdin: stdin, stderr: &stderr}
		err = p.confirm("Type the code: ", "spring")
		require.Equal(t, "Type the code: ", stderr.String())
		require.Equal(t, went, err == nil, "%q: %v", typed, err)
	}
}

func TestDev_TakesHangupForARenewalWhileItsTerminalIsOpen(t *testing.T) {
	keyboard, stdin := terminal(t)
	hangups := make(chan os.Signal)
	ctx, renew, stop := serverCommands{&program{stdin: stdin}}.divide(t.Context(), hangups)
	defer stop()
	hangups <- unix.SIGHUP
	require.Equal(t, unix.SIGHUP, <-renew)
	require.NoError(t, ctx.Err())
	require.NoError(t, keyboard.Close())
	hangups <- unix.SIGHUP
	select {
	case <-ctx.Done():
	case <-renew:
		t.Fatal("the terminal is closed")
	}

	ctx, renew, stop = serverCommands{&program{stdin: strings.NewReader("")}}.divide(t.Context(), hangups)
	defer stop()
	hangups <- unix.SIGHUP
	require.Equal(t, unix.SIGHUP, <-renew)
	require.NoError(t, ctx.Err())
}
