package clicks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"waypost"
	"waypost/internal/failpoint"
)

// A segment is a file of a fixed size. It begins with
//
//	  0  "WPCLICKS"
//	  8  version 1, 7 bytes zero
//	 16  boot
//	 32  number of the segment
//	 40  length of the node, 1 byte; the node
//	124  CRC-32C of all that
//
// and continues with records from 128 on. Bytes that are not written yet are zero.
//
// Once all clicks of a file are in batches, the file is reused: its space is allocated,
// and its pages are mapped and need no writeback before they are written again. A new
// file would cost the redirects a page fault for each page, and its removal the same
// again.
//
// An old click is never read as a new one. A file takes a temporary name before anything
// in it changes. After a kill, its memory is as it was zeroed and written since. After a
// power cut it may have any page of any of its uses; but each record has the number of
// its segment, and counts in that one only.
const (
	segmentMagic   = "WPCLICKS"
	segmentVersion = 1
	segmentHead    = 128
)

// Format names the versions of the journal's files.
func Format() string {
	return fmt.Sprintf("%d.%d.%d.%d", segmentVersion, recordVersion, batchVersion, compactedVersion)
}

var errSegmentHead = errors.New("it does not begin like a segment of this journal")

// segment is one file of the journal. A shard writes to it through mem, one click after
// the other. All others read it through the file, because that reports a fault of the
// disk as an error instead of a signal.
type segment struct {
	name   name // its state is the batcher's
	number uint32
	file   *os.File
	size   int64

	mem  []byte       // the mapping; the shard's until done is set, and the batcher's then
	tail atomic.Int64 // the bytes before it are written
	done atomic.Bool  // sealed: tail is final, and mem no longer changes
	bad  atomic.Bool  // writing to mem failed

	// The batcher's own:
	covered int64 // the bytes before it are in batches or compacted segments
	synced  int64 // the bytes before it are on the disk
	seen    int64 // the tail at the last round of syncs
	unsound bool  // a sync failed
	found   bool  // an earlier boot left it, so the end of its records is unknown
	damaged bool  // it holds bytes that are no record, or cannot be read
}

func newSegment(boot bootName, number uint64, size int64) *segment {
	s := &segment{
		name: name{segmentKind, boot, number, active}, number: uint32(number), size: size, covered: segmentHead, synced: segmentHead,
	}
	s.tail.Store(segmentHead)
	return s
}

// createSegment makes a segment that is mapped and has its space on the disk.
func createSegment(d *directory, boot bootName, node string, number uint64, size int64) (*segment, error) {
	s := newSegment(boot, number, size)
	file, err := d.create(s.name.String(), func(f *os.File) error {
		if err := d.disk.allocate(f, size); err != nil {
			return err
		}
		_, err := f.WriteAt(encodeSegmentHead(boot.id, node, number), 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.file = file
	s.mem, err = unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), file.Close(), d.remove(s.name.String()))
	}
	return s, nil
}

// openSegment opens a segment of an earlier boot. The error wraps errSegmentHead if the
// file is no segment.
func openSegment(d *directory, n name) (_ *segment, node string, err error) {
	f, err := os.Open(d.path(n.String()))
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if info.Size() < segmentHead || info.Size() > maxSegment {
		return nil, "", fmt.Errorf("%w: it has %d bytes", errSegmentHead, info.Size())
	}
	head := make([]byte, segmentHead)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errSegmentHead, err)
	}
	if node, err = decodeSegmentHead(head, n); err != nil {
		return nil, "", err
	}
	s := &segment{name: n, number: uint32(n.n), file: f, size: info.Size(), covered: segmentHead, synced: info.Size(), found: true}
	s.tail.Store(info.Size())
	s.done.Store(true)
	return s, node, nil
}

func encodeSegmentHead(boot waypost.BootID, node string, number uint64) []byte {
	b := make([]byte, segmentHead)
	copy(b, segmentMagic)
	b[8] = segmentVersion
	copy(b[16:], boot[:])
	binary.LittleEndian.PutUint64(b[32:], number)
	b[40] = byte(len(node))
	copy(b[41:], node)
	binary.LittleEndian.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
	return b
}

// decodeSegmentHead returns the node, if the head fits the file's name, or an earlier use
// of the file, which a power cut may have left.
func decodeSegmentHead(b []byte, n name) (node string, err error) {
	length, number := int(b[40]), binary.LittleEndian.Uint64(b[32:])
	if number == 0 || number > n.n || length > waypost.MaxNodeLength ||
		binary.LittleEndian.Uint32(b[124:]) != crc32.Checksum(b[:124], castagnoli) {
		return "", errSegmentHead
	}
	node = string(b[41 : 41+length])
	if string(encodeSegmentHead(n.boot.id, node, number)) != string(b) || !waypost.ValidNode(node) {
		return "", errSegmentHead
	}
	return node, nil
}

// append records a click; false if there is no room for it, or its memory cannot be
// written. The caller holds the lock of the segment's shard.
func (s *segment) append(c *waypost.Click, t *texts, seed maphash.Seed) (ok bool) {
	// A page may turn out to have no disk behind it, if a file system does not keep the
	// promise of fallocate, or a disk fails. That is a memory fault, which would end the
	// process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if !isFault(p) {
				panic(p)
			}
			s.bad.Store(true)
			ok = false
		}
	}()
	tail := int(s.tail.Load())
	where, entry, hash := t.find(s.mem[:tail], c, seed)
	size := recordSize(c, where)
	if tail+size > len(s.mem) {
		return false
	}
	failpoint.Hit("append click: begun")
	putRecord(s.mem[tail:tail+size:tail+size], c, s.number, where)
	s.tail.Store(int64(tail + size))
	if entry != nil && where == 0 {
		*entry = textsEntry{hash, uint32(tail)}
	}
	failpoint.Hit("append click: done")
	return true
}

// junkBefore reports whether there is damage in the part that was covered before a crash,
// so that it is known after the crash too. Zeros are no damage: clicks in a batch need
// not be on the disk a second time. Neither is a last record that an earlier crash cut
// off.
func (s *segment) junkBefore(end int64) bool {
	buf := make([]byte, end-segmentHead)
	if _, err := s.file.ReadAt(buf, segmentHead); err != nil {
		return true
	}
	walk, between := scan{buf: buf, number: s.number}, false
	for {
		_, ok := walk.record()
		if !ok {
			return walk.damaged() && (between || !walk.cut())
		}
		between = walk.junk
		walk.accept()
	}
}

// unmap releases the memory, once the segment is sealed.
func (s *segment) unmap() error {
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return os.NewSyscallError("munmap", unix.Munmap(mem))
}

var errMemory = errors.New("the memory of a segment cannot be written")

// isFault reports whether a panic is that memory could not be written.
func isFault(p any) bool {
	_, fault := p.(interface{ Addr() uintptr })
	return fault
}

// reuse makes a new segment of the file of a finished one. If it fails, the file is
// removed.
func (d *directory) reuse(old *segment, node string, number uint64) (*segment, error) {
	s := newSegment(old.name.boot, number, old.size)
	making, file := temporary+s.name.String(), s.name.String()
	failpoint.Hit("remove segment: begun")
	err := d.rename(old.name.String(), making)
	failpoint.Hit("remove segment: done")
	if err != nil {
		return nil, errors.Join(err, d.discard(old))
	}
	// Opened again, so that errors show its current name.
	s.file, err = os.OpenFile(d.path(making), os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, d.remove(making), old.unmap(), old.file.Close())
	}
	s.mem, old.mem = old.mem, nil
	if err = old.file.Close(); err == nil {
		err = s.clear(old.tail.Load(), encodeSegmentHead(s.name.boot.id, node, number))
	}
	if err == nil {
		failpoint.Hit("make segment: written")
		failpoint.Hit("make segment: synced") // no sync is needed
		err = d.rename(making, file)
	}
	if err != nil {
		return nil, errors.Join(err, s.unmap(), s.file.Close(), d.remove(making))
	}
	failpoint.Hit("make segment: renamed")
	if err = d.sync(); err != nil {
		return nil, errors.Join(err, s.unmap(), s.file.Close(), d.remove(file))
	}
	failpoint.Hit("make segment: durable")
	return s, nil
}

// clear empties the memory of a segment.
func (s *segment) clear(tail int64, head []byte) (err error) {
	const step = 64 << 10 // yields to the garbage collector and to redirects in between
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if !isFault(p) {
				panic(p)
			}
			err = errMemory
		}
	}()
	for used := s.mem[:tail]; len(used) > 0; used = used[min(step, len(used)):] {
		clear(used[:min(step, len(used))])
		runtime.Gosched()
	}
	copy(s.mem, head)
	return nil
}

// discard removes a finished segment.
func (d *directory) discard(s *segment) error {
	return errors.Join(s.unmap(), s.file.Close(), d.remove(s.name.String()))
}
