package clicks

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"waypost"
	"waypost/internal/failpoint"
)

// directory holds the files of a journal. Two directories in it hold files that are no
// longer shipped and never removed: batches that the control plane will not count, and
// files that could not be read.
type directory struct {
	root string
	self *os.File
	disk disk
}

const (
	deadDir       = "dead"
	quarantineDir = "quarantine"
)

// openDirectory makes the directory if it is missing. One process uses it at a time: its
// owner sees to that.
func openDirectory(root string, d disk) (*directory, error) {
	for _, dir := range []string{root, filepath.Join(root, deadDir), filepath.Join(root, quarantineDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	self, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	return &directory{root: root, self: self, disk: d}, nil
}

func (d *directory) close() error { return d.self.Close() }

func (d *directory) path(file string) string { return filepath.Join(d.root, file) }

// sync makes the names in the directory durable.
func (d *directory) sync() error { return d.disk.sync(d.self) }

// create makes a file that exists as a whole, and durably, or not at all. Fill gets a new
// file under a temporary name. The returned file is open.
func (d *directory) create(file string, fill func(*os.File) error) (*os.File, error) {
	f, err := d.createTemporary(file)
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

// createTemporary opens a temporary file. It ends with finish or abandon.
func (d *directory) createTemporary(file string) (*os.File, error) {
	return os.OpenFile(d.path(temporary+file), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// finish makes the file durable under its name.
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

// kindOf returns the first word of a file's name.
func kindOf(file string) string {
	kind, _, _ := strings.Cut(file, "-")
	return kind
}

// abandon removes a file that was begun.
func (d *directory) abandon(f *os.File) error {
	return errors.Join(f.Close(), ignoreMissing(os.Remove(f.Name())))
}

func (d *directory) rename(from, to string) error {
	return d.disk.rename(d.path(from), d.path(to))
}

// remove removes a file; a missing file is no error. It is durable after the next sync.
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

// read returns a whole file, or slightly more than limit bytes of a larger one.
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

// moveTo puts a file into one of the inner directories, under a name that is free there.
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

// used sums up the sizes of the directory's files, in bytes.
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
		return ignoreMissing(err) // it may just have been shipped
	})
	return sum, err
}

// A file's name says its boot and its state:
//
//	segment-ORDINAL-BOOT-NUMBER.active    is written to
//	segment-ORDINAL-BOOT-NUMBER.sealed    takes no more clicks
//	compacted-ORDINAL-BOOT-NUMBER.sealed  clicks of segments, in less room
//	batch-ORDINAL-BOOT-SEQUENCE.fixed     is still to be acknowledged
//	batch-ORDINAL-BOOT-SEQUENCE.shipped   is acknowledged, and kept: the newest of its boot
//	                                      for its checkpoint, and all to be sent again
//	pack-ORDINAL-BOOT-SEQUENCE.shipped    many of these, from a sequence on
//
// The ordinal puts the boots in order; numbers and sequences begin at 1.
type name struct {
	kind  kind
	boot  bootName
	n     uint64
	state state
}

type (
	kind  string
	state string
)

const (
	segmentKind   kind = "segment"
	compactedKind kind = "compacted"
	batchKind     kind = "batch"
	packKind      kind = "pack"

	active  state = "active"
	sealed  state = "sealed"
	fixed   state = "fixed"
	shipped state = "shipped"

	temporary = ".new-" // begins the name of a file that is still being made
)

// bootName identifies a start of an edge, and orders it among the others.
type bootName struct {
	ordinal uint32
	id      waypost.BootID
}

func (b bootName) String() string { return fmt.Sprintf("%08x-%x", b.ordinal, b.id[:]) }

func (b bootName) compare(o bootName) int {
	return cmp.Or(cmp.Compare(b.ordinal, o.ordinal), cmp.Compare(string(b.id[:]), string(o.id[:])))
}

func (n name) String() string {
	return fmt.Sprintf("%s-%s-%016x.%s", n.kind, n.boot, n.n, n.state)
}

// in returns the same file's name in another state.
func (n name) in(s state) name {
	n.state = s
	return n
}

// parseName reads the names that [name.String] writes, and no others.
func parseName(text string) (name, bool) {
	base, end, _ := strings.Cut(text, ".")
	parts := strings.Split(base, "-")
	if len(parts) != 4 {
		return name{}, false
	}
	n := name{kind: kind(parts[0]), state: state(end)}
	ordinal, err1 := strconv.ParseUint(parts[1], 16, 32)
	id, err2 := hex.DecodeString(parts[2])
	number, err3 := strconv.ParseUint(parts[3], 16, 64)
	if err1 != nil || err2 != nil || err3 != nil || len(id) != len(n.boot.id) || number == 0 {
		return name{}, false
	}
	n.boot, n.n = bootName{uint32(ordinal), waypost.BootID(id)}, number
	known := n.kind == segmentKind && (n.state == active || n.state == sealed) || n.kind == compactedKind && n.state == sealed ||
		n.kind == packKind && n.state == shipped || n.kind == batchKind && (n.state == fixed || n.state == shipped)
	return n, known && n.String() == text
}

// writeZeros allocates space if the system can do so only by writing.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}
