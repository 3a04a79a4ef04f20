package devtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

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
