//go:build linux

package apart_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

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
