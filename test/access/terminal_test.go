package access_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/internal/logtest"
	"waypost/test/devtest"
)

func TestAPasswordIsTypedTwiceAndNotShown(t *testing.T) {
	database := databases.Database(t)
	const word = "correct horse battery"
	for _, c := range []struct {
		typed []string
		code  int
		want  string
	}{
		{[]string{word, "wrong horse battery"}, 1, "the two are not the same"},
		{[]string{word, word}, 0, "root@example.com is an administrator"},
	} {
		person := newShell(t, "WAYPOST_CONTROL_DATABASE_URL="+database)
		code, shown, told := onTerminal(t, person.env, c.typed, "admin", "create", "--email", "root@example.com")
		require.Equal(t, c.code, code, told)
		require.Contains(t, told, "Password of root@example.com: ")
		require.Contains(t, told, c.want)
		require.NotContains(t, shown+told, "horse")
	}
}

// onTerminal runs a command whose input is a terminal, answers each of its questions with
// a line, and returns what the terminal showed and the command said.
func onTerminal(t *testing.T, env, lines []string, args ...string) (code int, shown, told string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here:", err)
	}
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer terminal.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, devtest.Binary(t), args...)
	cmd.Env, cmd.Stdin = env, terminal
	out := &logtest.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())

	var echoed bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { // ends when both sides of the terminal are closed
		_, _ = echoed.ReadFrom(master)
	})
	hidden := func() bool {
		state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		return err == nil && state.Lflag&unix.ECHO == 0
	}
	for i, line := range lines {
		// What was typed before is not hidden any more once the next question is there.
		require.Eventually(t, func() bool { return strings.Count(out.String(), ": ") == i+1 && hidden() }, time.Minute, time.Millisecond)
		_, err = master.WriteString(line + "\n")
		require.NoError(t, err)
	}
	_ = cmd.Wait() // its outcome is in ProcessState
	require.NoError(t, terminal.Close())
	wg.Wait()
	return cmd.ProcessState.ExitCode(), echoed.String(), out.String()
}
