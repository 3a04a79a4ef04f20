package replica

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost/internal/failpoint"
)

// diskGuard is the file system of a store. It protects Pebble from two kinds of errors
// that Pebble handles badly.
//
// When a WAL cannot be written, synced or created, Pebble panics with locks held, in part
// beyond recovery. diskGuard records such an error as a lasting failure of the store and
// hides it from Pebble. From then on nothing reaches the WAL, so that it ends in a whole
// prefix. Each commit checks the health afterwards, and never acknowledges a batch that
// may not be on disk.
//
// Pebble repeats a failed flush or compaction at once, and does not stop. diskGuard
// delays its errors, so that a full disk does not cost a core.
type diskGuard struct {
	vfs.FS
	health *health
	walDir string
	pause  time.Duration
	walBad atomic.Bool // nothing more is written to the WAL
}

var _ vfs.FS = (*diskGuard)(nil)

// Unwrap implements vfs.FS.
func (g *diskGuard) Unwrap() vfs.FS { return g.FS }

func (g *diskGuard) walFailed(what string, err error) {
	g.walBad.Store(true)
	g.health.fail(fmt.Errorf("%s: %w", what, err), false)
}

// delayed returns err after a moment.
func (g *diskGuard) delayed(err error) error {
	if err != nil {
		time.Sleep(g.pause)
	}
	return err
}

func (g *diskGuard) isWAL(name string) bool { return g.PathDir(name) == g.walDir }

// Create implements vfs.FS.
func (g *diskGuard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !g.isWAL(name) {
		f, err := g.FS.Create(name, category)
		if err != nil {
			return nil, g.delayed(err)
		}
		return &delayedFile{File: f, guard: g}, nil
	}
	return g.openWAL("create the WAL", func() (vfs.File, error) { return g.FS.Create(name, category) }), nil
}

// ReuseForWrite implements vfs.FS.
func (g *diskGuard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !g.isWAL(newname) {
		f, err := g.FS.ReuseForWrite(oldname, newname, category)
		return f, g.delayed(err)
	}
	return g.openWAL("recycle a WAL", func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) }), nil
}

func (g *diskGuard) openWAL(what string, open func() (vfs.File, error)) vfs.File {
	if g.walBad.Load() {
		return &walFile{File: noFile(), guard: g}
	}
	f, err := open()
	if err != nil {
		g.walFailed(what, err)
		return &walFile{File: noFile(), guard: g}
	}
	return &walFile{File: f, guard: g}
}

// OpenDir implements vfs.FS.
func (g *diskGuard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err == nil && name == g.walDir {
		f = &walFile{File: f, guard: g}
	}
	return f, err
}

// delayedFile delays write errors.
type delayedFile struct {
	vfs.File
	guard *diskGuard
}

func (f *delayedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.guard.delayed(err)
}

func (f *delayedFile) Sync() error     { return f.guard.delayed(f.File.Sync()) }
func (f *delayedFile) SyncData() error { return f.guard.delayed(f.File.SyncData()) }

// walFile is a WAL, or the directory of WALs. It hides its errors from Pebble.
type walFile struct {
	vfs.File
	guard *diskGuard
}

// do runs op unless the WAL has failed.
func (f *walFile) do(what string, op func() error) error {
	if f.guard.walBad.Load() {
		return nil
	}
	failpoint.Hit(what)
	if err := op(); err != nil {
		f.guard.walFailed(what, err)
	}
	return nil
}

func (f *walFile) Write(p []byte) (int, error) {
	return len(p), f.do("write the WAL", func() error { _, err := f.File.Write(p); return err })
}

func (f *walFile) Sync() error     { return f.do("sync the WAL", f.File.Sync) }
func (f *walFile) SyncData() error { return f.do("sync the WAL", f.File.SyncData) }

func (f *walFile) SyncTo(length int64) (bool, error) {
	full := false
	err := f.do("sync the WAL", func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

func (f *walFile) Preallocate(offset, length int64) error {
	if f.guard.walBad.Load() {
		return nil
	}
	return f.File.Preallocate(offset, length) // Pebble ignores this error itself
}

func (f *walFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.guard.walFailed("stat the WAL", err)
		return noFile().Stat()
	}
	return info, nil
}

func (f *walFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.guard.walFailed("close the WAL", err)
	}
	return nil
}

// noFile replaces a WAL that could not be created. Nothing is written to it.
func noFile() vfs.File {
	f, err := vfs.NewMem().Create("WAL", vfs.WriteCategoryUnspecified)
	if err != nil {
		panic(err) // memory takes every file
	}
	return f
}
