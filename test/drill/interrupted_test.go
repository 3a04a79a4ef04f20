package drill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

func TestBackup_InterruptedLeavesNothingThatLooksLikeOne(t *testing.T) {
	d := &drill{t: t, base: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Dir(d.postgres("first")), 0o755))
	devtest.CopyDatabase(t, d.postgres("first"))
	d.startPostgres("first")
	t.Cleanup(d.stopPostgres)
	d.sql(`CREATE ROLE nightly LOGIN PASSWORD 'open-sesame'`)
	d.sql(`GRANT waypost_backup TO nightly`)
	d.sql(`INSERT INTO cluster (code_length, prefix_length, secret_check) VALUES (7, 2, sha256(''))`)

	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			// The dump waits for a table, and so is interrupted in its midst.
			release := d.lock(`LOCK TABLE link_tag IN ACCESS EXCLUSIVE MODE`)
			defer release()
			dir := t.TempDir()
			env := []string{"WAYPOST_CONTROL_DATABASE_URL=" + strings.Replace(d.as("nightly"), "nightly@", "nightly:open-sesame@", 1)}
			p := devtest.Spawn(t, env, "backup", "--out", filepath.Join(dir, "backup"))
			var child int
			var arguments []byte
			require.True(t, eventually(func() bool {
				dumps, _ := filepath.Glob(filepath.Join(dir, ".backup.*.partial", "waypost.dump")) // the pattern is right
				children := childrenOf(p.PID())
				if len(dumps) == 0 || len(children) == 0 {
					return false
				}
				child = children[0]
				arguments, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)) // until it runs pg_dump they are its parent's
				return strings.Contains(string(arguments), "--snapshot=")
			}), p.Output())
			require.NotContains(t, string(arguments), "open-sesame")

			p.Signal(sig)
			require.NotZero(t, p.ExitCode())
			require.True(t, eventually(func() bool {
				state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
				return err != nil || strings.Contains(string(state), ") Z ")
			}), "pg_dump has ended too")
			require.NoDirExists(t, filepath.Join(dir, "backup"))
			left, err := filepath.Glob(filepath.Join(dir, ".*"))
			require.NoError(t, err)
			if sig == syscall.SIGTERM {
				require.Empty(t, left)
				return
			}
			require.Len(t, left, 1)
			r := devtest.Run(t, env, "restore", left[0])
			require.Equal(t, 1, r.Code)
			require.Contains(t, r.Stderr, "is no backup")
		})
	}
}

func TestMigrate_OfAnOlderProgramRefusesANewerSchema(t *testing.T) {
	d := &drill{t: t, base: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Dir(d.postgres("first")), 0o755))
	devtest.CopyDatabase(t, d.postgres("first"))
	d.startPostgres("first")
	t.Cleanup(d.stopPostgres)
	// A newer program's migration has been there.
	d.sql(`INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version`)
	env := []string{"WAYPOST_CONTROL_DATABASE_URL=" + d.server.URL()}
	for _, args := range [][]string{{"migrate"}, {"control"}, {"backup", "--out", filepath.Join(d.base, "backup")}} {
		given := slices.Concat(env, []string{
			"WAYPOST_CONTROL_CLUSTER_SECRET=" + strings.Repeat("ab", 32), "WAYPOST_CONTROL_BASE_URL=https://go.example.com",
			"WAYPOST_CONTROL_REGION=eu", "WAYPOST_CONTROL_DATA_DIR=" + filepath.Join(d.base, "control"),
			"WAYPOST_CONTROL_EDGE_TOKEN=" + strings.Repeat("e", 32),
		})
		if args[0] == "backup" {
			given = []string{"WAYPOST_CONTROL_DATABASE_URL=" + d.as("postgres")}
		}
		r := devtest.Run(t, given, args...)
		require.Equal(t, 1, r.Code, "%v: %s", args, r.Stderr)
		require.Contains(t, r.Stderr+r.Stdout, "schema version", args)
	}
}
