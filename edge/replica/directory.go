package replica

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"waypost/internal/pacer"
)

// storage is the directory of a replica, and opens stores in it. The file CURRENT names
// the live store:
//
//	CURRENT                      "waypost-replica FORMAT store-000007\n"
//	store-000007/                the live store
//	restore-000008/              tables and progress of a snapshot that is being taken
//	store-000008/                made of them; removed at Open without them
//	quarantine-TIME-store-000006 could not be read; never removed
//
// Its fields are set when it is made.
type storage struct {
	cfg          *Config
	metrics      *metrics
	cache        *pebble.Cache
	readOnly     bool // the disk took no writes at Open, and its store is only read
	memTableSize int  // bytes
	errorPause   time.Duration
}

const (
	currentName      = "CURRENT"
	currentTemp      = currentName + tempSuffix
	tempSuffix       = ".tmp"
	currentMagic     = "waypost-replica"
	storePrefix      = "store-"
	restorePrefix    = "restore-"
	quarantinePrefix = "quarantine-"
)

func storeName(number int) string { return fmt.Sprintf("%s%06d", storePrefix, number) }

func restoreName(number int) string { return fmt.Sprintf("%s%06d", restorePrefix, number) }

// errUnreadable means that CURRENT exists and cannot be parsed.
var errUnreadable = errors.New("CURRENT cannot be read")

// errReadOnly keeps changes from a store that was opened on a read-only disk. The store
// serves, and once the disk takes writes, the follower takes a new snapshot.
var errReadOnly = fmt.Errorf("the disk was read-only at the start: %w", syscall.EROFS)

// withoutLock is a read-only file system, on which no process can change a store.
type withoutLock struct{ vfs.FS }

// Lock implements [vfs.FS].
func (withoutLock) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// path returns the path of a name within the directory.
func (s *storage) path(name string) string { return s.cfg.FS.PathJoin(s.cfg.Dir, name) }

// openDir makes the directory. One process uses it at a time: its owner sees to that.
func (s *storage) openDir() error {
	if err := s.makeDir(s.cfg.Dir); err != nil {
		return fmt.Errorf("make the replica's directory: %w", err)
	}
	s.readOnly = errors.Is(unix.Access(s.cfg.Dir, unix.W_OK), unix.EROFS)
	return nil
}

// makeDir makes a directory and its missing parents, each durably, because a directory
// that loses its entry in a power cut loses its content too.
func (s *storage) makeDir(dir string) error {
	fs := s.cfg.FS
	if _, err := fs.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := s.makeDir(parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.syncDir(parent)
}

// syncDir makes the entries of a directory durable.
func (s *storage) syncDir(dir string) error {
	d, err := s.cfg.FS.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// probe checks that the disk takes writes.
func (s *storage) probe() error {
	name := s.path("PROBE")
	f, err := s.cfg.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	_, err = f.Write(make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), s.cfg.FS.Remove(name)); err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	return nil
}

// isErrno separates refusals of the operating system from content that was read and is
// wrong.
func isErrno(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// unreadable reports whether the content of a store's files keeps it from being opened,
// now and later. A refusal of the system (no descriptors, no space, no permission) says
// nothing about the files.
func unreadable(err error) bool {
	return !errors.Is(err, errNewerFormat) && (!isErrno(err) || errors.Is(err, os.ErrNotExist))
}

// readCurrent returns the name of the live store, "" without a live store.
func (s *storage) readCurrent() (string, error) {
	f, err := s.cfg.FS.Open(s.path(currentName))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open %s: %w", currentName, err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, 256))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", currentName, err)
	}
	fields := strings.Fields(string(raw))
	var format uint64 // 0: none
	if len(fields) >= 2 && fields[0] == currentMagic {
		if format, err = strconv.ParseUint(fields[1], 10, 32); err == nil && format > storeFormat {
			return "", errNewerFormat
		}
	}
	if len(fields) != 3 || err != nil || format != storeFormat ||
		!strings.HasPrefix(fields[2], storePrefix) || s.cfg.FS.PathBase(fields[2]) != fields[2] {
		return "", errUnreadable
	}
	return fields[2], nil
}

// setCurrent makes name the live store, durably once it returns. When renamed is true
// with an error, the next Open may find either store.
func (s *storage) setCurrent(name string) (renamed bool, err error) {
	return s.replaceFile(s.cfg.Dir, currentName, fmt.Appendf(nil, "%s %d %s\n", currentMagic, storeFormat, name))
}

// replaceFile replaces a file, durably once it returns. When renamed is true with an
// error, either file may be found after a crash.
func (s *storage) replaceFile(dir, name string, content []byte) (renamed bool, err error) {
	fs := s.cfg.FS
	temp := fs.PathJoin(dir, name+tempSuffix)
	f, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false, fmt.Errorf("create %s: %w", name, err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	s.cfg.Points.Hit("replace file: written")
	if err := fs.Rename(temp, fs.PathJoin(dir, name)); err != nil {
		return true, fmt.Errorf("rename %s: %w", name, err)
	}
	s.cfg.Points.Hit("replace file: renamed")
	return true, s.syncDir(dir)
}

// stores lists the store directories, and the highest number among all that are here,
// those in quarantine included.
func (s *storage) stores() (names []string, highest int, err error) {
	all, err := s.cfg.FS.List(s.cfg.Dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list the replica's directory: %w", err)
	}
	for _, name := range all {
		at := strings.LastIndex(name, storePrefix)
		if at < 0 {
			continue
		}
		n, err := strconv.Atoi(name[at+len(storePrefix):])
		if err != nil {
			continue
		}
		highest = max(highest, n)
		if at == 0 {
			names = append(names, name)
		}
	}
	return names, highest, nil
}

// findStore opens the live store, and returns nil without one. It removes all other
// stores except the quarantined ones and the store of an unfinished restore.
func (s *storage) findStore() (*store, error) {
	name, err := s.readCurrent()
	switch {
	case errors.Is(err, errUnreadable): // which one was live is unknown
		names, _, listErr := s.stores()
		return nil, cmp.Or(listErr, s.quarantineStores(names, err))
	case err != nil:
		return nil, fmt.Errorf("replica in %s: %w", s.cfg.Dir, err)
	case name == "":
		return nil, s.sweep("")
	}
	st, err := s.openExisting(name)
	switch {
	case err == nil:
	case unreadable(err):
		return nil, cmp.Or(s.quarantineStores([]string{name}, err), s.sweep(""))
	default:
		return nil, fmt.Errorf("replica in %s: %w", s.cfg.Dir, err)
	}
	if s.readOnly {
		s.readOnly = false // of the store that is open; a later store needs a disk that takes writes
		st.health.fail(errReadOnly, false)
		return st, nil
	}
	if err := s.sweep(name); err != nil {
		return nil, errors.Join(err, st.pdb.Close())
	}
	return st, nil
}

// sweep removes the remains of a swap, or of an interrupted restore that cannot be
// resumed.
func (s *storage) sweep(keep string) error {
	unfinished, err := s.sweepRestores(keep)
	if err != nil {
		return err
	}
	names, _, err := s.stores()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == keep || unfinished > 0 && name == storeName(unfinished) {
			continue
		}
		s.cfg.Logger.Info("removing a store that was left over", "store", name)
		s.cfg.Points.Hit("sweep store: begun")
		if err := s.cfg.FS.RemoveAll(s.path(name)); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	if err := s.cfg.FS.Remove(s.path(currentTemp)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", currentTemp, err)
	}
	return nil
}

// sweepRestores removes the files of restores that cannot be resumed, and returns the
// number of the remaining restore, or 0.
func (s *storage) sweepRestores(live string) (unfinished int, err error) {
	all, err := s.cfg.FS.List(s.cfg.Dir)
	if err != nil {
		return 0, fmt.Errorf("list the replica's directory: %w", err)
	}
	for _, name := range all {
		text, ok := strings.CutPrefix(name, restorePrefix)
		n, err := strconv.Atoi(text)
		if !ok || err != nil {
			continue
		}
		_, ok, err = s.readProgress(restoreName(n))
		if err != nil {
			return 0, err
		}
		if ok && storeName(n) > live && n > unfinished {
			n, unfinished = unfinished, n
		}
		if n == 0 {
			continue
		}
		if err := s.removeRestore(n, storeName(n) == live); err != nil {
			return 0, fmt.Errorf("remove the remains of a restore: %w", err)
		}
	}
	return unfinished, nil
}

// removeSlowly removes a directory and pauses now and then: a file of a store takes a
// processor for as long as a hundred redirects.
func (s *storage) removeSlowly(dir string, pace *pacer.Pacer) error {
	fs := s.cfg.FS
	names, _ := fs.List(dir) // RemoveAll reports what is wrong
	for _, name := range names {
		if path := fs.PathJoin(dir, name); fs.Remove(path) != nil { // a directory
			_ = s.removeSlowly(path, pace)
		}
		pace.Pause()
	}
	return fs.RemoveAll(dir)
}

// removeRestore removes the files of a restore, and its store unless that is to stay.
func (s *storage) removeRestore(number int, keepStore bool) error {
	s.cfg.Points.Hit("remove restore: begun")
	err := s.cfg.FS.RemoveAll(s.path(restoreName(number)))
	s.cfg.Points.Hit("remove restore: tables removed")
	if !keepStore {
		err = errors.Join(err, s.cfg.FS.RemoveAll(s.path(storeName(number))))
	}
	return err
}

// quarantine moves a store away, and reports it as an error. This package never opens the
// store again, and never removes it.
func (s *storage) quarantine(name string, why error) error {
	moved := quarantinePrefix + time.Now().UTC().Format("20060102T150405.000000000") + "-" + name
	s.metrics.quarantined.Inc()
	s.cfg.Logger.Error("cannot read the replica; quarantining it and taking a new one",
		"store", name, "moved_to", s.path(moved), "error", why)
	s.cfg.Points.Hit("set store aside: begun")
	if err := s.cfg.FS.Rename(s.path(name), s.path(moved)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("quarantine %s: %w", name, err)
	}
	s.cfg.Points.Hit("set store aside: renamed")
	return s.syncDir(s.cfg.Dir)
}

// quarantineStores moves stores away, the live one among them, and leaves an empty
// replica.
func (s *storage) quarantineStores(names []string, why error) error {
	for _, name := range names {
		if err := s.quarantine(name, why); err != nil {
			return err
		}
	}
	s.cfg.Points.Hit("forget stores: begun")
	if err := s.cfg.FS.Remove(s.path(currentName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", currentName, err)
	}
	s.cfg.Points.Hit("forget stores: done")
	return s.syncDir(s.cfg.Dir)
}
