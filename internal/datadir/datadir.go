// Package datadir guards the directories in which Waypost keeps data. Each directory has
// a marker with its kind and version, and at most one process uses it at a time. The
// package leaves all other contents to the directory's owner.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"waypost/internal/atomicfile"
)

// Format is the content of the marker: the owner of the data, and its layout.
type Format string

// The formats of this version.
const (
	Dev     Format = "waypost dev 1"
	Edge    Format = "waypost edge 1"
	Control Format = "waypost control 1"
)

const (
	markerName = "format"
	lockName   = "lock"
	maxMarker  = 256
)

// Dir is a directory that is locked for this process.
type Dir struct {
	root     string
	lock     *os.File
	readOnly bool // the disk was read-only at Open
}

// Path joins names to the directory's own.
func (d *Dir) Path(names ...string) string {
	return filepath.Join(append([]string{d.root}, names...)...)
}

// Close lets go of the directory.
func (d *Dir) Close() error { return d.lock.Close() }

// ErrInUse says that another process holds the directory.
var ErrInUse = errors.New("in use")

// Holder returns the id of the process that holds the directory.
func Holder(root string) (pid int, err error) {
	path := filepath.Join(root, lockName)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("no process runs in the data directory: %w", err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return 0, fmt.Errorf("%s names no process: %w", path, err)
	}
	lock, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("data directory: %w", err)
	}
	// The process may have ended, and another one may have its id.
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if held, err := os.Stat(file); err == nil && os.SameFile(held, lock) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process runs in the data directory %s: the last one was %d, which has ended or is another user's", root, pid)
}

// sign writes this process's id where others look for the holder's. Every id has one
// length, so that signing again takes no room on a full disk.
func (d *Dir) sign() error {
	if _, err := d.lock.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// Inspect reports whether the directory is marked, and returns an error if it cannot be
// used, without changing anything. A missing or empty directory can be used. The errors
// say what to do.
func Inspect(root string, want Format) (marked bool, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("data directory: %w", err)
	}
	marker, err := readMarker(root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, refuseForeign(root, entries)
	}
	if err != nil {
		return false, fmt.Errorf("data directory: %w", err)
	}
	if marker != string(want) {
		return false, fmt.Errorf("the data directory %s is of another kind or version (%q, not %q): use the program that made it, or another --data-dir",
			root, marker, want)
	}
	lock, _, err := openLock(root)
	if err != nil {
		return true, err
	}
	return true, errors.Join(lockFile(lock, root), lock.Close())
}

func readMarker(root string) (string, error) {
	text, err := atomicfile.Read(filepath.Join(root, markerName), maxMarker)
	return strings.TrimSpace(string(text)), err
}

func refuseForeign(root string, entries []fs.DirEntry) error {
	// A first start that was killed at once leaves the lock and half a marker. A new ext4
	// file system has lost+found.
	foreign := slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == lockName || strings.HasPrefix(e.Name(), "."+markerName+".") || e.Name() == "lost+found" && e.IsDir()
	})
	if len(foreign) > 0 {
		return fmt.Errorf("the directory %s is not empty and was not made by Waypost (it has %s): choose another --data-dir", root, foreign[0].Name())
	}
	return nil
}

// Open makes the directory when it is missing, with perm, and locks it. The
// kernel frees the lock when this process ends, however it does. A directory on a disk
// that is read-only can be opened if it was opened before.
func Open(root string, want Format, perm fs.FileMode) (*Dir, error) {
	marked, err := Inspect(root, want)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, perm); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, readOnly, err := openLock(root)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, lock: lock, readOnly: readOnly}
	if err := d.claim(want, marked); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func (d *Dir) claim(want Format, marked bool) error {
	if err := lockFile(d.lock, d.root); err != nil {
		return err
	}
	if d.readOnly && marked {
		return nil // and Holder does not find this process
	}
	if err := d.sign(); err != nil {
		return err
	}
	if marked {
		return nil
	}
	return atomicfile.Write(d.Path(markerName), []byte(want+"\n"), 0o644)
}

// openLock opens the lock file, for reading alone on a read-only disk, on which a file
// can be locked as well.
func openLock(root string) (lock *os.File, readOnly bool, err error) {
	path := filepath.Join(root, lockName)
	lock, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if readOnly = errors.Is(err, unix.EROFS); readOnly {
		lock, err = os.Open(path)
	}
	if err != nil {
		return nil, readOnly, fmt.Errorf("data directory: %w", err)
	}
	return lock, readOnly, nil
}

// lockFile locks an open lock file; its error names the holder.
func lockFile(lock *os.File, root string) error {
	err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, err := io.ReadAll(io.LimitReader(lock, 32))
		if err != nil || len(holder) == 0 {
			holder = []byte("unknown")
		}
		return fmt.Errorf("the data directory %s is %w by process %s: stop that, or choose another --data-dir", root, ErrInUse, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", root, err)
	}
	return nil
}
