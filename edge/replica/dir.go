package replica

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
)

// A replica's directory holds stores, of which the file CURRENT names the live
// one, and what was set aside:
//
//	LOCK                         held by the process that has it open
//	CURRENT                      "waypost-replica FORMAT store-000007\n"
//	store-000007/                the live store
//	restore-000008/              tables and progress of a snapshot that is being taken
//	store-000008/                what they are put into; without them left over, and removed at Open
//	quarantine-TIME-store-000006 could not be read: never removed by us
const (
	currentName      = "CURRENT"
	currentTemp      = currentName + tempSuffix
	tempSuffix       = ".tmp"
	currentMagic     = "waypost-replica"
	storePrefix      = "store-"
	restorePrefix    = "restore-"
	quarantinePrefix = "quarantine-"
)

// errUnreadable says that CURRENT is there and makes no sense.
var errUnreadable = errors.New("CURRENT cannot be read")

// path of a name within the directory.
func (db *DB) path(name string) string { return db.fs.PathJoin(db.cfg.Dir, name) }

// lock keeps a second process out of the directory.
func (db *DB) lock() error {
	if err := db.makeDir(db.cfg.Dir); err != nil {
		return fmt.Errorf("make the replica's directory: %w", err)
	}
	lock, err := pebble.LockDirectory(db.cfg.Dir, db.fs)
	switch {
	case err == nil:
		db.dirLock = lock
		return nil
	case errors.Is(err, syscall.EAGAIN), !isErrno(err):
		return fmt.Errorf("the replica in %s is in use by another process: stop that one first: %w", db.cfg.Dir, err)
	default:
		return fmt.Errorf("lock the replica in %s: %w", db.cfg.Dir, err)
	}
}

// makeDir makes a directory and those above it as far as they are missing, each
// durably: a directory whose entry is lost in a power cut takes all of it along.
func (db *DB) makeDir(dir string) error {
	if _, err := db.fs.Stat(dir); !oserror.IsNotExist(err) {
		return err
	}
	parent := db.fs.PathDir(dir)
	if parent != dir {
		if err := db.makeDir(parent); err != nil {
			return err
		}
	}
	if err := db.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return db.syncDir(parent)
}

// isErrno tells what the operating system refused from what was read and found
// wrong.
func isErrno(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// unreadable reports whether a store cannot be opened because of what is in its
// files, and never will be. A refusal of the system (no descriptors, no space, no
// permission) says nothing about the files.
func unreadable(err error) bool {
	return !errors.Is(err, errNewerFormat) && (!isErrno(err) || oserror.IsNotExist(err))
}

// readCurrent gives the name of the live store, "" when there is none.
func (db *DB) readCurrent() (string, error) {
	f, err := db.fs.Open(db.path(currentName))
	if oserror.IsNotExist(err) {
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
	if len(fields) != 3 || err != nil || format < firstFormat ||
		!strings.HasPrefix(fields[2], storePrefix) || db.fs.PathBase(fields[2]) != fields[2] {
		return "", errUnreadable
	}
	return fields[2], nil
}

// setCurrent makes name the live store, for good once it returns. When renamed is
// true with an error, either store may be the one that the next Open finds.
func (db *DB) setCurrent(name string, format uint32) (renamed bool, err error) {
	return db.replaceFile(db.cfg.Dir, currentName, fmt.Appendf(nil, "%s %d %s\n", currentMagic, format, name))
}

// replaceFile puts a file in the place of one of its name, for good once it returns. When
// renamed is true with an error, either may be found after a crash.
func (db *DB) replaceFile(dir, name string, content []byte) (renamed bool, err error) {
	temp := db.fs.PathJoin(dir, name+tempSuffix)
	f, err := db.fs.Create(temp, vfs.WriteCategoryUnspecified)
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
	db.cfg.Points.Hit("replace file: written")
	if err := db.fs.Rename(temp, db.fs.PathJoin(dir, name)); err != nil {
		return true, fmt.Errorf("rename %s: %w", name, err)
	}
	db.cfg.Points.Hit("replace file: renamed")
	return true, db.syncDir(dir)
}

// syncDir makes the entries of a directory durable.
func (db *DB) syncDir(dir string) error {
	d, err := db.fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// stores lists the store directories and the highest number ever given to one
// that is still here, set aside or not.
func (db *DB) stores() (names []string, highest int, err error) {
	all, err := db.fs.List(db.cfg.Dir)
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

// sweep removes what a swap has left over, or an interrupted restore on which none can go on.
func (db *DB) sweep(keep string) error {
	unfinished, err := db.sweepRestores(keep)
	if err != nil {
		return err
	}
	names, _, err := db.stores()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == keep || unfinished > 0 && name == storeName(unfinished) {
			continue
		}
		db.cfg.Logger.Info("removing a store that was left over", "store", name)
		db.cfg.Points.Hit("sweep store: begun")
		if err := db.fs.RemoveAll(db.path(name)); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	if err := db.fs.Remove(db.path(currentTemp)); err != nil && !oserror.IsNotExist(err) {
		return fmt.Errorf("remove %s: %w", currentTemp, err)
	}
	return nil
}

// quarantine sets a store aside, and says so loudly. It is never looked at again
// by us, and never removed.
func (db *DB) quarantine(name string, why error) error {
	aside := quarantinePrefix + time.Now().UTC().Format("20060102T150405.000000000") + "-" + name
	db.metrics.quarantined.Inc()
	db.cfg.Logger.Error("the replica cannot be read; it is set aside and a new one will be taken",
		"store", name, "moved_to", db.path(aside), "error", why)
	db.cfg.Points.Hit("set store aside: begun")
	if err := db.fs.Rename(db.path(name), db.path(aside)); err != nil && !oserror.IsNotExist(err) {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	db.cfg.Points.Hit("set store aside: renamed")
	return db.syncDir(db.cfg.Dir)
}

// findStore finds the live store, or none, and leaves nothing else behind but what
// is set aside.
func (db *DB) findStore() error {
	name, err := db.readCurrent()
	switch {
	case errors.Is(err, errUnreadable):
		return db.setAllAside(err)
	case err != nil:
		return fmt.Errorf("replica in %s: %w", db.cfg.Dir, err)
	case name == "":
		return db.sweep("")
	}
	st, err := db.openExisting(name)
	switch {
	case err == nil:
		db.live.Store(st)
	case !unreadable(err):
		return fmt.Errorf("replica in %s: %w", db.cfg.Dir, err)
	default:
		return db.setAllAside(err)
	}
	return db.sweep(name)
}

// setAllAside leaves an empty replica.
func (db *DB) setAllAside(why error) error {
	names, _, err := db.stores()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := db.quarantine(name, why); err != nil {
			return err
		}
	}
	db.cfg.Points.Hit("forget stores: begun")
	if err := db.fs.Remove(db.path(currentName)); err != nil && !oserror.IsNotExist(err) {
		return fmt.Errorf("remove %s: %w", currentName, err)
	}
	db.cfg.Points.Hit("forget stores: done")
	return db.syncDir(db.cfg.Dir)
}

// openExisting opens a store that must be there and hold a state.
func (db *DB) openExisting(name string) (*store, error) {
	if _, err := db.fs.Stat(db.path(name)); err != nil {
		return nil, fmt.Errorf("open store %s: %w", name, err)
	}
	st, err := db.openStore(name, false)
	if err != nil {
		return nil, err
	}
	err = st.load()
	if err == nil {
		err = st.loadLog(db.frozen)
	}
	if err == nil {
		if f := st.health.lasting.Load(); f != nil {
			err = f.err
		}
	}
	if err != nil {
		return nil, errors.Join(err, st.pdb.Close())
	}
	return st, nil
}

// errClosed is what a closed replica answers.
var errClosed = waypost.Errorf(waypost.EUnavailable, "the replica is closed")
