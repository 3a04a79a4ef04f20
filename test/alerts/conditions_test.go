package alerts_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// TestConditions_OfDisksClocksAndRows makes the faults that take long, or need root.
func TestConditions_OfDisksClocksAndRows(t *testing.T) {
	if !devtest.Long() {
		t.Skip("make test-long")
	}
	w := start(t)
	w.edge("eu-2") // as a copy of its disk would do
	w.says("eu-2", "EdgeTwins", w.control.Admin)
	slow := w.edge("eu-4", "WAYPOST_EDGE_CONTROL_URLS="+w.control.API+",http://127.0.0.1:1")
	w.says("eu-4", "ReportsFail", slow.Admin)
	t.Run("disk", w.fillDisk)

	exec := w.superuser()
	w.create("rows")
	exec(`ALTER TABLE link DISABLE TRIGGER ALL`)
	exec(`UPDATE link SET stamp = stamp # 5`)
	exec(`ALTER TABLE link ENABLE TRIGGER ALL`)
	devtest.Run(t, []string{"WAYPOST_API=" + w.control.API}, "verify", "--source")
	w.says("cluster", "DigestDiffers", w.control.Admin)

	exec(`SET allow_system_table_mods = on`)
	exec(`ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO clock_of_the_machine`)
	exec(`CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
		AS 'SELECT pg_catalog.clock_of_the_machine() + interval ''400 days'''`)
	exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL`)
	w.says("one", "ClockWrong", w.control.Admin)
	w.says("eu-1", "ClockWrong", w.a.Admin)
	require.Contains(t, w.doctor().Stdout, "PostgreSQL's is 9600h0m0s ahead of it")
	require.Contains(t, strings.Join(strings.Fields(w.doctor().Stdout), " "), "links with a lifetime end too early or too late")
}

// superuser connects to PostgreSQL, and returns a function that executes a statement.
func (w *world) superuser() func(sql string) {
	w.t.Helper()
	cfg, err := pgx.ParseConfig(w.database.URL())
	require.NoError(w.t, err)
	cfg.User = "postgres"
	super, err := pgx.ConnectConfig(w.t.Context(), cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = super.Close(context.Background()) }) // PostgreSQL may have stopped
	return func(sql string) {
		w.t.Helper()
		_, err := super.Exec(w.t.Context(), sql)
		require.NoError(w.t, err, sql)
	}
}

// create creates a link and waits until the edge eu-1 has it.
func (w *world) create(code string) {
	w.t.Helper()
	created, err := http.Post(w.control.API+"/api/v1/urls", "application/json",
		strings.NewReader(`{"original_url": "https://example.com/", "custom_code": "`+code+`"}`))
	require.NoError(w.t, err)
	require.NoError(w.t, created.Body.Close())
	require.Equal(w.t, http.StatusCreated, created.StatusCode)
	require.Eventually(w.t, func() bool { return w.get("http://"+w.a.Addr+"/"+code) == http.StatusFound }, patience, 10*time.Millisecond)
}

// fillDisk lets the disk of an edge fill. A warning comes before changes wait.
func (w *world) fillDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	e := w.edgeIn(filepath.Join(dir, "edge"), "eu-5")
	// The edge takes room as well, so what is left is made by and by.
	fill := func(left int64, name string) {
		f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		require.Eventually(t, func() bool {
			var s syscall.Statfs_t
			require.NoError(t, syscall.Statfs(dir, &s))
			if free := int64(s.Bavail) * s.Bsize; free > left {
				_, _ = f.Write(make([]byte, min(free-left, 8<<20))) // the edge may be faster
			}
			return slices.Contains(w.reported(), name)
		}, patience, 50*time.Millisecond, "the API: %s", name)
	}
	fill(15<<20, "DiskFills")
	w.says("eu-5", "DiskFills", e.Admin)
	fill(2<<20, "ReplicaDiskLow")
	w.says("eu-5", "ReplicaDiskLow", e.Admin)
	require.NotContains(t, w.reported(), "DiskFills", "the worse one says it")
}
