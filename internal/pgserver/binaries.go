package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// minMajor is the oldest PostgreSQL with the behaviour that Waypost relies on.
const minMajor = 15

// ErrNotInstalled says that no usable PostgreSQL server was found; its text has the
// remedy.
var ErrNotInstalled = errors.New("no PostgreSQL server (version 15 or newer) found in /usr/lib/postgresql, " +
	"by pg_config or in PATH: install it with `apt-get install postgresql` or `make install-postgres`")

// binaries is an installed PostgreSQL server.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, name) }

// chooseBinaries returns the newest server, or, when data holds a cluster, one of
// that cluster's own major version: PostgreSQL opens no other.
func chooseBinaries(ctx context.Context, data string) (binaries, error) {
	found := findBinaries(ctx)
	if len(found) == 0 {
		return binaries{}, ErrNotInstalled
	}
	made, err := clusterMajor(data)
	if errors.Is(err, os.ErrNotExist) {
		return found[0], nil
	}
	if err != nil {
		return binaries{}, err
	}
	for _, b := range found {
		if b.major == made {
			return b, nil
		}
	}
	return binaries{}, fmt.Errorf("%s was made by PostgreSQL %d, but only %d is installed: install postgresql-%d, or move the directory away to start over",
		data, made, found[0].major, made)
}

// Tool finds a program of PostgreSQL's clients, such as pg_dump, with a major version of
// at least atLeast. It takes the closest version, because newer ones write settings that
// an older server does not know. It searches the directories of servers.
func Tool(ctx context.Context, name string, atLeast int) (path string, major int, err error) {
	newest := 0
	for _, dir := range programDirs(ctx, name) {
		at := filepath.Join(dir, name)
		out, err := exec.CommandContext(ctx, at, "--version").Output()
		if err != nil {
			continue
		}
		found := majorOf(string(out))
		if newest = max(newest, found); found >= atLeast && (path == "" || found < major) {
			path, major = at, found
		}
	}
	switch {
	case path != "":
		return path, major, nil
	case newest == 0:
		return "", 0, fmt.Errorf("no %s found in /usr/lib/postgresql, by pg_config or in PATH: install postgresql-client-%d", name, atLeast)
	}
	return "", 0, fmt.Errorf("%s of PostgreSQL %d or newer is needed, and the newest here is of %d: install postgresql-client-%d",
		name, atLeast, newest, atLeast)
}

// programDirs returns the directories in which PostgreSQL's programs may be.
func programDirs(ctx context.Context, name string) []string {
	var dirs []string
	if debian, err := filepath.Glob("/usr/lib/postgresql/*/bin"); err == nil {
		dirs = debian
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if p, err := exec.LookPath(name); err == nil {
		// Debian's clients are links to a wrapper, which has another name and does not
		// work under it.
		if at, err := filepath.EvalSymlinks(p); err == nil && filepath.Base(at) == name {
			dirs = append(dirs, filepath.Dir(at))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// findBinaries returns the usable installations, newest first.
func findBinaries(ctx context.Context) []binaries {
	var found []binaries
	for _, dir := range programDirs(ctx, "postgres") {
		b := binaries{dir: dir}
		if _, err := os.Stat(b.path("initdb")); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
		if err != nil {
			continue
		}
		if b.major = majorOf(string(out)); b.major >= minMajor {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(a, b binaries) int { return b.major - a.major })
	return found
}

// majorOf reads "postgres (PostgreSQL) 15.18 (Debian …)" and "17beta1"; 0 when
// it cannot.
func majorOf(version string) (major int) {
	_, rest, _ := strings.Cut(version, "(PostgreSQL) ")
	_, _ = fmt.Sscan(rest, &major)
	return major
}

// clusterMajor reads the version that a cluster on disk was made by.
func clusterMajor(data string) (int, error) {
	name := filepath.Join(data, "PG_VERSION")
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("version of the database cluster: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s holds no version: %w", name, err)
	}
	return n, nil
}
