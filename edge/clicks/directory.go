package clicks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"waypost/internal/failpoint"
)

// directory is where a journal lives. Beside its segments and batches there are
// two directories for what is no longer shipped and never wiped: batches that the
// control plane will not count, and files that could not be read.
type directory struct {
	root string
	self *os.File // locked
	disk disk
}

const (
	deadDir       = "dead"
	quarantineDir = "quarantine"
)

// openDirectory makes the directory where it is missing and locks it, or takes part
// in the lock that beside is. The kernel lets go of the lock when the last process
// that has a part in it ends, however it does.
func openDirectory(root string, beside *os.File, d disk) (*directory, error) {
	for _, dir := range []string{root, filepath.Join(root, deadDir), filepath.Join(root, quarantineDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	self, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	if beside != nil {
		own, err := self.Stat()
		others, err2 := beside.Stat()
		if err := errors.Join(err, err2, self.Close()); err != nil {
			return nil, err
		}
		if !os.SameFile(own, others) {
			return nil, fmt.Errorf("the lock that was handed over is not that of %s", root)
		}
		self = beside
	}
	err = unix.Flock(int(self.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process has it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", root, err), self.Close())
	}
	return &directory{root: root, self: self, disk: d}, nil
}

func (d *directory) close() error { return d.self.Close() }

func (d *directory) path(file string) string { return filepath.Join(d.root, file) }

// sync makes durable which names the directory has.
func (d *directory) sync() error { return d.disk.sync(d.self) }

// create makes a file that is there as a whole, and durable, or not at all. What
// fill gets is a new file under another name. The file comes back open.
func (d *directory) create(file string, fill func(*os.File) error) (*os.File, error) {
	f, err := d.begin(file)
	if err != nil {
		return nil, err
	}
	if err = fill(f); err == nil {
		err = d.finish(f, file)
	}
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", file, errors.Join(err, d.abandon(f)))
	}
	return f, nil
}

// begin makes a file that is not there yet. It ends with finish or abandon.
func (d *directory) begin(file string) (*os.File, error) {
	return os.OpenFile(d.path(temporary+file), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// finish makes it durable under a name.
func (d *directory) finish(f *os.File, file string) error {
	kind := kindOf(file)
	failpoint.Hit("make " + kind + ": written")
	if err := d.disk.sync(f); err != nil {
		return err
	}
	failpoint.Hit("make " + kind + ": synced")
	if err := os.Rename(f.Name(), d.path(file)); err != nil {
		return err
	}
	failpoint.Hit("make " + kind + ": renamed")
	err := d.sync()
	failpoint.Hit("make " + kind + ": durable")
	return err
}

// kindOf gives the first word of a file's name.
func kindOf(file string) string {
	kind, _, _ := strings.Cut(file, "-")
	return kind
}

// abandon takes a file away that was begun.
func (d *directory) abandon(f *os.File) error {
	return errors.Join(f.Close(), ignoreMissing(os.Remove(f.Name())))
}

func (d *directory) rename(from, to string) error {
	return os.Rename(d.path(from), d.path(to))
}

// remove takes a file away; one that is gone already is no error. It is not
// durable before the next sync.
func (d *directory) remove(file string) error {
	kind := kindOf(file)
	failpoint.Hit("remove " + kind + ": begun")
	err := ignoreMissing(os.Remove(d.path(file)))
	failpoint.Hit("remove " + kind + ": done")
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// read gives a whole file, or a little more than limit bytes of one that is larger.
func (d *directory) read(file string, limit int64) ([]byte, error) {
	f, err := os.Open(d.path(file))
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if info, err := f.Stat(); err == nil { // a guess that saves copies
		buf.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(io.LimitReader(f, limit+1))
	return buf.Bytes(), errors.Join(err, f.Close())
}

// moveTo puts a file into one of the directories beside, under a name that is free
// there.
func (d *directory) moveTo(dir, file string) error {
	to := filepath.Join(dir, file)
	for n := 2; ; n++ {
		_, err := os.Lstat(d.path(to))
		if errors.Is(err, fs.ErrNotExist) {
			return d.rename(file, to)
		}
		if err != nil {
			return err
		}
		to = filepath.Join(dir, file+"."+strconv.Itoa(n))
	}
}

// used is the number of bytes that the directory's files have.
func (d *directory) used() (int64, error) {
	var sum int64
	err := filepath.WalkDir(d.root, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return ignoreMissing(err) // it was shipped meanwhile
	})
	return sum, err
}
