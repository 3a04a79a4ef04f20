package devtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"waypost/internal/pgserver"
)

// Superuser returns the URL of a server for an operator by hand.
func Superuser(s *pgserver.Server) string {
	return strings.Replace(s.URL(), pgserver.Role+"@", "postgres@", 1)
}

// BaseBackup copies the files of the running PostgreSQL of a URL. The copy gets the owner
// of the file like.
func BaseBackup(t testing.TB, url, to, like string, args ...string) {
	t.Helper()
	args = append([]string{"--pgdata=" + to, "--dbname=" + url, "--checkpoint=fast", "--no-sync", "--wal-method=stream"}, args...)
	PostgresTool(t, "pg_basebackup", args...)
	OwnTree(t, to, like)
}

// OwnTree changes the owner of a tree to the owner of the file like.
func OwnTree(t testing.TB, dir, like string) {
	t.Helper()
	info, err := os.Stat(like)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// PostgresTool runs a program of PostgreSQL's, such as pg_dump, and skips the test where
// it is not installed.
func PostgresTool(t testing.TB, name string, args ...string) {
	t.Helper()
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	path := name
	if len(dirs) > 0 {
		path = dirs[len(dirs)-1]
	}
	if _, err := exec.LookPath(path); errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is not installed", name)
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// CopyTree replaces a directory by a copy of another, with its owners.
func CopyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}
