package replica

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard stands between Pebble and the disk, because Pebble cannot live with two
// things that a disk does.
//
// A WAL that cannot be written, synced or created makes Pebble panic with locks
// held, and in part beyond recovery. Here such an error is noted as a lasting
// failure of the store and kept from Pebble; from then on nothing reaches the WAL,
// so that it ends in a whole prefix. Whoever commits asks the health afterwards,
// and never acknowledges what may not be on disk.
//
// A flush or compaction that fails is repeated at once and for ever. Here its
// errors are held back for a moment, so that a full disk does not cost a core.
type guard struct {
	vfs.FS
	health *health
	walDir string
	pause  time.Duration
	walBad atomic.Bool // nothing more is written to the WAL
}

var _ vfs.FS = (*guard)(nil)

// Unwrap implements vfs.FS.
func (g *guard) Unwrap() vfs.FS { return g.FS }

func (g *guard) walFailed(what string, err error) {
	g.walBad.Store(true)
	g.health.fail(fmt.Errorf("%s: %w", what, err), false)
}

// held gives err back after a moment.
func (g *guard) held(err error) error {
	if err != nil {
		time.Sleep(g.pause)
	}
	return err
}

func (g *guard) isWAL(name string) bool { return g.PathDir(name) == g.walDir }

// Create implements vfs.FS.
func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !g.isWAL(name) {
		f, err := g.FS.Create(name, category)
		if err != nil {
			return nil, g.held(err)
		}
		return &pacedFile{File: f, guard: g}, nil
	}
	return g.openWAL("create the WAL", func() (vfs.File, error) { return g.FS.Create(name, category) }), nil
}

// ReuseForWrite implements vfs.FS.
func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !g.isWAL(newname) {
		f, err := g.FS.ReuseForWrite(oldname, newname, category)
		return f, g.held(err)
	}
	return g.openWAL("recycle a WAL", func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) }), nil
}

func (g *guard) openWAL(what string, open func() (vfs.File, error)) vfs.File {
	if g.walBad.Load() {
		return &walFile{File: noFile{}, guard: g}
	}
	f, err := open()
	if err != nil {
		g.walFailed(what, err)
		return &walFile{File: noFile{}, guard: g}
	}
	return &walFile{File: f, guard: g}
}

// OpenDir implements vfs.FS.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err == nil && name == g.walDir {
		f = &walFile{File: f, guard: g}
	}
	return f, err
}

// pacedFile holds write errors back.
type pacedFile struct {
	vfs.File
	guard *guard
}

func (f *pacedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.guard.held(err)
}

func (f *pacedFile) Sync() error     { return f.guard.held(f.File.Sync()) }
func (f *pacedFile) SyncData() error { return f.guard.held(f.File.SyncData()) }

// walFile is a WAL, or the directory of WALs. It keeps its errors from Pebble.
type walFile struct {
	vfs.File
	guard *guard
}

// do runs op unless the WAL has failed.
func (f *walFile) do(what string, op func() error) error {
	if f.guard.walBad.Load() {
		return nil
	}
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
		return noFile{}.Stat()
	}
	return info, nil
}

func (f *walFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.guard.walFailed("close the WAL", err)
	}
	return nil
}

// noFile stands in for a WAL that could not be created.
type noFile struct{}

func (noFile) Close() error                            { return nil }
func (noFile) Read([]byte) (int, error)                { return 0, os.ErrClosed }
func (noFile) ReadAt([]byte, int64) (int, error)       { return 0, os.ErrClosed }
func (noFile) Write(p []byte) (int, error)             { return len(p), nil }
func (noFile) WriteAt(p []byte, _ int64) (int, error)  { return len(p), nil }
func (noFile) Preallocate(_, _ int64) error            { return nil }
func (noFile) Stat() (vfs.FileInfo, error)             { return noInfo{}, nil }
func (noFile) Sync() error                             { return nil }
func (noFile) SyncTo(int64) (fullSync bool, err error) { return true, nil }
func (noFile) SyncData() error                         { return nil }
func (noFile) Prefetch(_, _ int64) error               { return nil }
func (noFile) Fd() uintptr                             { return vfs.InvalidFd }

// noInfo describes a noFile: nothing, of no size.
type noInfo struct{}

func (noInfo) Name() string           { return "" }
func (noInfo) Size() int64            { return 0 }
func (noInfo) Mode() os.FileMode      { return 0 }
func (noInfo) ModTime() time.Time     { return time.Time{} }
func (noInfo) IsDir() bool            { return false }
func (noInfo) Sys() any               { return nil }
func (noInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
