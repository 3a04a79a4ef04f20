package clicks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"os"
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
// and goes on with records from 128 on; what is not written yet is zero. A file all of whose clicks
// are in batches becomes another segment of its boot: see reuse.go.
const (
	segmentMagic   = "WPCLICKS"
	segmentVersion = 1
	segmentHead    = 128
)

// Format names the versions of the files that this version of the program writes, and
// reads.
func Format() string {
	return fmt.Sprintf("%d.%d.%d.%d", segmentVersion, recordVersion, batchVersion, foldVersion)
}

var errSegmentHead = errors.New("it does not begin like a segment of this journal")

// segment is one file of the journal. A shard writes to it through mem, one click
// after the other; everyone else reads it through the file, which tells what is
// wrong with a disk by an error instead of a signal.
type segment struct {
	name   name // its state is the keeper's
	number uint32
	file   *os.File
	size   int64

	mem  []byte       // the mapping; the shard's until sealed is set, and the keeper's then
	tail atomic.Int64 // what lies before is written
	done atomic.Bool  // sealed: tail is final, and nobody writes to mem any more
	bad  atomic.Bool  // writing to mem failed

	// The keeper's own:
	covered int64 // what lies before is in batches
	synced  int64 // what lies before is on the disk
	seen    int64 // where the tail was when it was last looked at whether to sync it
	unsound bool  // a sync failed
	found   bool  // it was left by an earlier boot: where its records end is not known
	damaged bool  // it holds what is no record, or cannot be read
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

// openSegment opens one that an earlier boot left. The error wraps errSegmentHead
// when it is none.
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

// decodeSegmentHead gives the node, if the head is that of the file's name, or of an earlier use of
// the file: a power cut may have left that one.
func decodeSegmentHead(b []byte, n name) (node string, err error) {
	length, number := int(b[40]), binary.LittleEndian.Uint64(b[32:])
	if number == 0 || number > n.n || length > waypost.MaxNodeLength || binary.LittleEndian.Uint32(b[124:]) != crc32.Checksum(b[:124], castagnoli) {
		return "", errSegmentHead
	}
	node = string(b[41 : 41+length])
	if string(encodeSegmentHead(n.boot.id, node, number)) != string(b) || !waypost.ValidNode(node) {
		return "", errSegmentHead
	}
	return node, nil
}

// append records a click; false when there is no room for it, or its memory cannot
// be written. It belongs to whoever holds the segment's shard, as do the texts.
func (s *segment) append(c *waypost.Click, t *texts, seed maphash.Seed) (ok bool) {
	// A page may turn out to have no disk behind it, where a file system does not
	// keep the promise of fallocate, or a disk fails. That is a fault in memory, which
	// would end the process.
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

// junkBefore reports whether there is damage in what was covered before a crash, so
// that it is still known after it. Zeros are none: what is in a batch need not be on
// the disk a second time when the power fails. Neither is a last record that the crash before that one cut off.
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

// unmap gives the memory back, once the segment is sealed.
func (s *segment) unmap() error {
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return os.NewSyscallError("munmap", unix.Munmap(mem))
}
