//go:build linux

package apart_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/bench/apart"
)

// allowed gives the processors that a process says it may use.
func allowed(t *testing.T, status []byte) string {
	t.Helper()
	_, rest, found := strings.Cut(string(status), "Cpus_allowed_list:")
	require.True(t, found)
	list, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(list)
}

func own(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/thread-self/status")
	require.NoError(t, err)
	return allowed(t, status)
}

func TestTheServerAndItsClientsHaveNoProcessorInCommon(t *testing.T) {
	h, err := apart.Split()
	require.NoError(t, err)
	if !h.Apart() {
		t.Skip("there is one processor")
	}
	all := own(t)
	giveBack, err := h.Keep()
	require.NoError(t, err)
	clients := own(t)
	var out strings.Builder
	server := exec.CommandContext(t.Context(), "cat", "/proc/self/status")
	server.Stdout = &out
	require.NoError(t, h.Start(server.Start))
	require.NoError(t, server.Wait())
	servers := allowed(t, []byte(out.String()))
	require.NotEqual(t, all, clients)
	require.NotEqual(t, all, servers)
	require.NotEqual(t, clients, servers)
	require.NoError(t, giveBack())
	require.Equal(t, all, own(t))
}

func TestAProcessorThatIsTakenAwayShowsAsAPause(t *testing.T) {
	h, err := apart.Split()
	require.NoError(t, err)
	var busy []*exec.Cmd
	for range runtime.NumCPU() { // one for each of the server's, at least
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		require.NoError(t, h.Start(cmd.Start))
		busy = append(busy, cmd)
	}
	server, _, err := h.Pauses(300 * time.Millisecond)
	for _, cmd := range busy {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was killed")
	}
	require.NoError(t, err)
	require.Greater(t, server.Part, 0.1, "another has half of it")
	require.Greater(t, server.Longest, time.Millisecond)
}
