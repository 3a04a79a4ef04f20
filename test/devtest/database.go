package devtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"waypost/internal/datadir"
	"waypost/internal/pgserver"
	"waypost/migrations"
)

// emptied is the directory of a PostgreSQL that has the schema and nothing else, made
// once for all systems of a test process: initdb and the migrations take longer than all
// else that a system does at its first start. No control plane has seen it, so systems
// that begin with a copy are clusters of their own.
var emptied = struct {
	once sync.Once
	dir  string
	err  error
}{}

// Cleanup stops the shared systems and removes the files that the tests of this process
// share. TestMain calls it at the end.
func Cleanup() error {
	err := stopShared()
	if emptied.dir != "" {
		err = errors.Join(err, os.RemoveAll(emptied.dir))
	}
	return err
}

func makeEmptied() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if emptied.dir, err = os.MkdirTemp("", "waypost-dev-"); err != nil {
		return err
	}
	// PostgreSQL may be another user.
	if err := os.Chmod(emptied.dir, 0o711); err != nil {
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{
		Dir:      filepath.Join(emptied.dir, "postgres"),
		Settings: map[string]string{"fsync": "off", "full_page_writes": "off"},
	})
	if err != nil {
		return err
	}
	return errors.Join(migrations.Up(ctx, server.URL()), server.Stop(ctx))
}

// CopyDatabase copies the PostgreSQL that has the schema and nothing else to a directory,
// which must not be there yet. pgserver.Start opens it.
func CopyDatabase(t testing.TB, dir string) {
	t.Helper()
	Binary(t)
	if emptied.once.Do(func() { emptied.err = makeEmptied() }); emptied.err != nil {
		t.Fatal(emptied.err)
	}
	CopyTree(t, filepath.Join(emptied.dir, "postgres"), dir)
}

// begun leaves a directory as a system does that is killed at its first start when it has
// migrated its database.
func begun(t testing.TB, dataDir string) {
	t.Helper()
	dir, err := datadir.Open(dataDir, datadir.Dev, 0o711)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	err = errors.Join(os.Mkdir(dir.Path("secrets"), 0o700),
		os.WriteFile(dir.Path("secrets", "cluster"), fmt.Appendf(nil, "%x\n", secret), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	CopyDatabase(t, dir.Path("postgres"))
}
