package systemd_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// systemd passes over what it does not understand, and says so; then a limit or a
// protection is missing.
func TestTheUnitsSayWhatSystemdUnderstands(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed")
	}
	const deploy = "../../deploy"
	units, err := filepath.Glob(filepath.Join(deploy, "waypost-*.*"))
	require.NoError(t, err)
	require.Len(t, units, 4)
	dir, args := t.TempDir(), []string{"verify", "--man=no", "--generators=no"}
	take := func(from, to string) string {
		text, err := os.ReadFile(filepath.Join(deploy, from))
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, []byte("/usr/bin/waypost"), []byte("/usr/bin/env")) // which is there
		to = filepath.Join(dir, to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, text, 0o600))
		return to
	}
	for _, unit := range units {
		args = append(args, take(filepath.Base(unit), filepath.Base(unit)))
	}
	said, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	require.NoError(t, err, string(said))
	require.Empty(t, string(said))
}

// An edge sizes its table by /proc/meminfo, and Go its listen backlog by /proc/sys.
func TestUnits_ShowTheMachinesMemory(t *testing.T) {
	units, err := filepath.Glob("../../deploy/*.service")
	require.NoError(t, err)
	require.NotEmpty(t, units)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		require.NotContains(t, string(text), "ProcSubset=pid", unit)
	}
}
