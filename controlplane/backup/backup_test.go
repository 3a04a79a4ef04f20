package backup_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/controlplane/backup"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// check is the check value of the cluster's secret.
var check = []byte(strings.Repeat("c", sha256.Size))

func configOf(address string) backup.Config {
	return backup.Config{DatabaseURL: address, Environ: os.Environ(), Version: "1.2.3", Progress: func(int64, int64) {}}
}

// as returns the address for another login.
func as(login, address string) string { return strings.Replace(address, "waypost@", login+"@", 1) }

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), as("postgres", address))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

func number(t *testing.T, conn *pgx.Conn, sql string) (n int64) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n), sql)
	return n
}

// source makes a database with links, and a login that may back it up.
func source(t *testing.T) (address string) {
	t.Helper()
	address = cluster.Database(t)
	hand := connect(t, address)
	exec(t, hand, `DO $$ BEGIN CREATE ROLE nightly LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	exec(t, hand, `GRANT waypost_backup TO nightly`)
	exec(t, hand, `INSERT INTO cluster (code_length, prefix_length, secret_check) VALUES (7, 2, $1)`, check)
	exec(t, hand, `INSERT INTO domain (id, host) VALUES (1, 'go.example.com') ON CONFLICT DO NOTHING`)
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url)
		SELECT 1, 1, 'link-' || n, 'https://example.com/' FROM generate_series(1, 50) n`)
	return address
}

// empty makes a database with nothing in it.
func empty(t *testing.T, name string) (address string) {
	t.Helper()
	server := cluster.Server(t)
	require.NoError(t, server.CreateDatabase(t.Context(), name, ""))
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), name)) })
	return server.DatabaseURL(name)
}

// made makes a backup.
func made(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "backup")
	_, err := backup.Make(t.Context(), configOf(as("nightly", source(t))), dir)
	require.NoError(t, err)
	return dir
}

// change rewrites the manifest of a backup.
func change(t *testing.T, dir string, by func(m map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, backup.ManifestFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	by(m)
	text, err = json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// truncate cuts a file to a share of its length.
func truncate(t *testing.T, path string, percent int64) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()*percent/100))
}

func TestBackup_IsRestoredWithItsHistory(t *testing.T) {
	address := source(t)
	dir := filepath.Join(t.TempDir(), "backup")
	m, err := backup.Make(t.Context(), configOf(pgservertest.Patient(as("nightly", address))), dir)
	require.NoError(t, err)
	require.True(t, m.AddsUp())
	require.Equal(t, int64(50), m.Links)
	require.Equal(t, "waypost", m.Owner)
	_, err = backup.Make(t.Context(), configOf(as("nightly", address)), dir)
	require.ErrorContains(t, err, "is there already")
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
	for _, name := range []string{backup.ManifestFile, backup.DumpFile, backup.RolesFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}
	text, err := os.ReadFile(filepath.Join(dir, backup.ManifestFile))
	require.NoError(t, err)
	require.NotContains(t, string(text), "postgres:")

	to := empty(t, "restored")
	r, err := backup.Restore(t.Context(), configOf(as("postgres", to)), dir, check)
	require.NoError(t, err)
	require.Empty(t, r.MadeRoles, "this PostgreSQL has them")
	there := connect(t, to)
	require.Equal(t, int64(50), number(t, there, `SELECT count(*) FROM link`))
	require.Equal(t, int64(0), number(t, there, `SELECT system_identifier FROM changelog_epoch`), "an epoch is opened in this PostgreSQL too")
	require.NoError(t, migrations.Up(t.Context(), to), "by the control plane's login")

	require.Eventually(t, func() bool { // PostgreSQL may see a moment later that the first restore has left
		_, err = backup.Restore(t.Context(), configOf(as("postgres", to)), dir, check)
		return err == nil || !strings.Contains(err.Error(), "is under way")
	}, 10*time.Second, 20*time.Millisecond)
	require.ErrorContains(t, err, "is not empty")
}

func TestBackup_ALoginThatSeesNoTenantIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := backup.Make(t.Context(), configOf(source(t)), dir)
	require.ErrorContains(t, err, "GRANT waypost_backup")
	require.NoDirExists(t, dir)
}

// Each restore is refused before the database is touched, which cannot be reached.
func TestRestore_RefusesADamagedBackupBeforeItTouchesTheDatabase(t *testing.T) {
	whole := made(t)
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"no manifest": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, backup.ManifestFile)))
		}, "is no backup"},
		"a truncated manifest": {func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, backup.ManifestFile), 50) }, "manifest is damaged"},
		"a huge manifest": {func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, backup.ManifestFile), 1<<30))
		}, "larger than"},
		"a truncated dump": {func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, backup.DumpFile), 99) }, "bytes, and the manifest says"},
		"no dump": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, backup.DumpFile)))
		}, "not whole"},
		"a flipped bit": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, backup.DumpFile)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			text[len(text)/2] ^= 1
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}, "does not have the SHA-256"},
		"a link instead of a file": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, backup.DumpFile)
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		}, "no regular file"},
		"a newer schema": {func(t *testing.T, dir string) {
			change(t, dir, func(m map[string]any) { m["schema_version"] = migrations.Newest + 1 })
		}, "use a newer waypost"},
		"another format": {func(t *testing.T, dir string) {
			change(t, dir, func(m map[string]any) { m["format"], m["more"] = 2, true })
		}, "has format 2, made by Waypost \"1.2.3\""},
		"an unknown field": {func(t *testing.T, dir string) {
			change(t, dir, func(m map[string]any) { m["more"] = true })
		}, "manifest is damaged"},
		"an owner that is SQL": {func(t *testing.T, dir string) {
			change(t, dir, func(m map[string]any) { m["owner"] = `x'; DROP TABLE link; --` })
		}, "impossible value"},
		"no position": {func(t *testing.T, dir string) {
			change(t, dir, func(m map[string]any) { delete(m, "position") })
		}, "impossible value"},
		"another secret": {func(t *testing.T, dir string) {
			change(t, dir, func(m map[string]any) { m["secret_check"] = strings.Repeat("ab", sha256.Size) })
		}, "cluster secret is not that of the backup"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			c.damage(t, dir)
			_, err := backup.Restore(t.Context(), configOf("postgres://nobody@127.0.0.1:1/none"), dir, check)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestRestore_ThatFailsLeavesAnEmptyDatabase(t *testing.T) {
	dir, to := made(t), empty(t, "failed")
	truncate(t, filepath.Join(dir, backup.DumpFile), 80)
	change(t, dir, func(m map[string]any) { // somebody has made the manifest fit
		text, err := os.ReadFile(filepath.Join(dir, backup.DumpFile))
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		m["files"].(map[string]any)[backup.DumpFile] = map[string]any{"size": len(text), "sha256": hex.EncodeToString(sum[:])}
	})
	_, err := backup.Restore(t.Context(), configOf(as("postgres", to)), dir, nil)
	require.ErrorContains(t, err, "the database is empty as before")
	require.Zero(t, number(t, connect(t, to), `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`))
}

func TestRestore_RowsThatAreNotThoseOfTheManifestAreNoticed(t *testing.T) {
	dir, to := made(t), empty(t, "differs")
	change(t, dir, func(m map[string]any) { m["rows_digest"] = strings.Repeat("5", 16) })
	_, err := backup.Restore(t.Context(), configOf(as("postgres", to)), dir, nil)
	require.ErrorContains(t, err, "are not those of the manifest")
	require.ErrorContains(t, err, `DROP DATABASE "differs"`)
}

func TestRestore_NeedsASuperuser(t *testing.T) {
	_, err := backup.Restore(t.Context(), configOf(empty(t, "plain")), made(t), nil)
	require.ErrorContains(t, err, "is no superuser")
}
