package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever is in the way of the directory in memory, the command runs, and its status is
// the script's.
func TestTestsRunAlsoWhereTheyCannotInMemory(t *testing.T) {
	t.Parallel()
	own := func(shm string) string { return filepath.Join(shm, fmt.Sprintf("wp-%d", os.Getuid())) }
	for name, c := range map[string]struct {
		prepare  func(t *testing.T, shm string)
		path     string // in place of PATH
		inMemory bool
	}{
		"nothing in the way":   {inMemory: true},
		"left by another":      {inMemory: true, prepare: func(t *testing.T, shm string) { require.NoError(t, os.Mkdir(own(shm), 0o755)) }},
		"a link to nothing":    {prepare: func(t *testing.T, shm string) { require.NoError(t, os.Symlink("/nonexistent/there", own(shm))) }},
		"a link to a place":    {prepare: func(t *testing.T, shm string) { require.NoError(t, os.Symlink(t.TempDir(), own(shm))) }},
		"a file":               {prepare: func(t *testing.T, shm string) { require.NoError(t, os.WriteFile(own(shm), nil, 0o600)) }},
		"no directory there":   {prepare: func(t *testing.T, shm string) { require.NoError(t, os.Remove(shm)) }},
		"one cannot be locked": {path: "without flock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shm, err := os.MkdirTemp("/dev/shm", "waypost-test-")
			if err != nil {
				t.Skip("there is no memory for files: ", err)
			}
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(shm)) })
			if c.prepare != nil {
				c.prepare(t, shm)
			}
			path := os.Getenv("PATH")
			if c.path != "" {
				path = t.TempDir()
				for _, tool := range []string{"bash", "env", "stat", "df", "tail", "sed", "mkdir", "rm"} {
					at, err := exec.LookPath(tool)
					require.NoError(t, err)
					require.NoError(t, os.Symlink(at, filepath.Join(path, tool)))
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "./in-memory.sh", "bash", "-c", `echo "at $TMPDIR${GOTMPDIR-}"; exit 7`)
			cmd.Env = append(os.Environ(), "SHM="+shm, "PATH="+path, "TMPDIR=/tmp", "GOTMPDIR=/tmp") // where tests would be
			cmd.WaitDelay = time.Minute
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "%v: %s", err, said)
			require.Equal(t, 7, exit.ExitCode(), "%s", said)
			if !strings.Contains(string(said), "at "+shm) {
				require.Equal(t, "at /tmp/tmp\n", string(said))
				if c.inMemory {
					t.Skip("there is not enough memory")
				}
				return
			}
			require.True(t, c.inMemory, "%s", said)
			require.Equal(t, "at "+own(shm)+"\n", string(said))
			_, err = os.Lstat(own(shm))
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}
