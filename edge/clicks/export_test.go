package clicks

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"waypost"
)

// SetSync lets syncs of files and of the directory fail, or be seen.
func (c *Config) SetSync(sync func(*os.File) error) { c.disk.sync = sync }

// SetRename lets changes of the state of a file be slow.
func (c *Config) SetRename(rename func(from, to string) error) { c.disk.rename = rename }

// SetPackBatches lets packs be small.
func (c *Config) SetPackBatches(n int) { c.packBatches = n }

// ToPack returns which of acknowledged batches of these sizes, numbered from 1 on, make
// the next pack of at most that many batches or that many bytes.
func ToPack(sizes []int64, batches int, bytes int64) (numbers []uint64) {
	r := &retention{base: &base{cfg: Config{packBatches: batches, packBytes: bytes}}, catalog: &catalog{}}
	st := &stream{seq: uint64(len(sizes))}
	for i, size := range sizes {
		n := uint64(i + 1)
		kind := batchKind
		if size == 0 {
			kind = packKind
		}
		st.retained = append(st.retained, retained{name: name{kind: kind, n: n}, first: n, last: n, size: size})
	}
	some, _ := r.toPack(st)
	for _, k := range some {
		numbers = append(numbers, k.first)
	}
	return numbers
}

// SetAllocate lets the disk be full.
func (c *Config) SetAllocate(allocate func(*os.File, int64) error) { c.disk.allocate = allocate }

// SetReuseFor lets segments be kept to be used again for another time.
func (c *Config) SetReuseFor(d time.Duration) { c.reuseFor = d }

// TryRecord records a click, or reports that it would be dropped.
func (j *Journal) TryRecord(domain waypost.DomainID, code []byte, at int64) bool {
	return j.recorder.record(&waypost.Click{Domain: domain, Code: code, At: at})
}

// Dropped is the number of clicks dropped.
func (j *Journal) Dropped() uint64 { return j.recorder.dropped.Load() }

// Walk returns the codes of the records in a part of a segment.
func Walk(b []byte) (codes []string, tail int, hole bool) {
	s := scan{buf: b}
	for {
		r, ok := s.record()
		if !ok {
			return codes, s.tail(), s.hole
		}
		codes = append(codes, string(r.Code))
		s.accept()
	}
}

// AppendRecord appends the bytes of a record to a part of a segment.
func AppendRecord(b []byte, code string) []byte {
	return AppendClick(b, waypost.Click{Domain: 1, Code: []byte(code), At: 1})
}

// AppendClick is AppendRecord of any click.
func AppendClick(b []byte, c waypost.Click) []byte {
	size := recordSize(&c, 0)
	b = append(b, make([]byte, size)...)
	putRecord(b[len(b)-size:], &c, 0, 0)
	return b
}

// AppendNumbered is AppendRecord to a segment of some number.
func AppendNumbered(b []byte, code string, number uint32) []byte {
	return AppendNumberedClick(b, waypost.Click{Domain: 1, Code: []byte(code), At: 1}, number)
}

// AppendNumberedClick is AppendNumbered of any click.
func AppendNumberedClick(b []byte, c waypost.Click, number uint32) []byte {
	size := recordSize(&c, 0)
	b = append(b, make([]byte, size)...)
	putRecord(b[len(b)-size:], &c, number, 0)
	return b
}

// AppendReference is AppendClick of one whose texts are elsewhere.
func AppendReference(b []byte, c waypost.Click, where uint32) []byte {
	size := recordSize(&c, where)
	b = append(b, make([]byte, size)...)
	putRecord(b[len(b)-size:], &c, 0, where)
	return b
}

// Meets reports whether a click is taken to have the texts of another one when their
// hashes are the same.
func Meets(c, other waypost.Click) bool {
	t, seed, mem := &texts{}, maphash.MakeSeed(), AppendClick(make([]byte, segmentHead), other)
	_, e, hash := t.find(mem, &c, seed)
	*e = textsEntry{hash, segmentHead}
	where, _, _ := t.find(mem, &c, seed)
	return where != 0
}

// WalkFile returns the clicks in a file from a place on, as they are told to an Audience.
func WalkFile(file []byte, from int64) (all []waypost.Click) {
	s := scanOf(bytes.NewReader(file), make([]byte, int64(len(file))-from), from, 0)
	for {
		r, ok := s.record()
		if !ok {
			return all
		}
		s.textsOf(&r)
		all = append(all, r)
		s.accept()
	}
}

// SegmentHead returns what a segment of a number begins with, of the boot in the name of
// another.
func SegmentHead(file, node string, number uint64) []byte {
	n, _ := parseName(file)
	return encodeSegmentHead(n.boot.id, node, number)
}

// ReadClick reads the record with which b begins.
func ReadClick(b []byte) (c waypost.Click, size int) { return getRecord(b) }

// ReencodeBatchFile reads a batch's file and returns it as it would be written.
func ReencodeBatchFile(b []byte) ([]byte, error) {
	f, err := decodeBatchFile(b)
	if err != nil {
		return nil, err
	}
	return f.append(nil), nil
}

// Tally adds clicks up.
type Tally struct {
	sums   *tally
	packer *packer
}

// NewTally makes a Tally.
func NewTally(with Profiler) *Tally {
	p, err := newPacker(nil)
	if err != nil {
		panic(err)
	}
	return &Tally{sums: newTally(with, nil), packer: p}
}

// Pack returns the body of the batch of the clicks in a part of a segment.
func (t *Tally) Pack(part []byte) []byte {
	t.sums.reset()
	s := scan{buf: part}
	for {
		r, ok := s.record()
		if !ok || !t.sums.addClick(&r, &s) {
			break
		}
		s.accept()
	}
	b := t.sums.batch(false)
	b.Node, b.Seq = "edge-1", 1
	return bytes.Clone(t.packer.pack(&b))
}

// TryClick is TryRecord of any click.
func (j *Journal) TryClick(c waypost.Click) bool { return j.recorder.record(&c) }

// CompactedReader reads compacted segments, one after the other.
type CompactedReader struct{ zstd *zstd.Decoder }

// NewCompactedReader makes a CompactedReader.
func NewCompactedReader() (*CompactedReader, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	return &CompactedReader{z}, err
}

// Close ends it.
func (r *CompactedReader) Close() { r.zstd.Close() }

// Check reads what follows the blocks of a compacted segment, and of these that which has
// a byte; -1: all.
func (r *CompactedReader) Check(b []byte, at int) error {
	var magic [4]byte
	if len(b) < 4 {
		return errCompacted
	}
	copy(magic[:], b[len(b)-4:])
	length := int(binary.LittleEndian.Uint32(magic[:]))
	if length > len(b)-4 {
		return errCompacted
	}
	f, _, err := decodeFoot(b[len(b)-4-length:len(b)-4], int64(len(b)-4-length))
	if err != nil {
		return err
	}
	for n, block := range f.blocks {
		if at >= 0 && (int64(at) < block.at || int64(at) >= block.at+int64(block.length)) {
			continue
		}
		if _, err := f.readBlock(bytes.NewReader(b), r.zstd, n, nil); err != nil {
			return err
		}
	}
	return nil
}

// ReencodeFoot reads what follows the blocks of a compacted segment and returns it as it
// would be written.
func ReencodeFoot(b []byte) ([]byte, error) {
	var before int64
	if len(b) > compactedHead {
		before = blocksOf(b)
	}
	f, c, err := decodeFoot(b, before)
	if err != nil {
		return nil, err
	}
	again := f.foot(&c)
	return again[:len(again)-4], nil
}

// blocksOf guesses the length of the blocks from the lengths that are stated.
func blocksOf(b []byte) (sum int64) {
	for at := len(b) - 4 - 16; at > compactedHead; at -= 16 {
		sum += int64(binary.LittleEndian.Uint32(b[at:]))
		if f, _, err := decodeFoot(b, sum); err == nil && f != nil {
			return sum
		}
	}
	return sum
}

// SampleFoot returns what might follow the blocks of a compacted segment.
func SampleFoot() []byte {
	f := compacted{name: name{n: 3}, node: "edge-1", grade: quarterGrade, seq: 7, blocks: []block{{0, 10, 1, 5}, {10, 20, 2, 6}}}
	b := f.foot(&checkpoint{next: 9, segments: []coveredSegment{{8, 200}}, nextCompacted: 3, compacted: []coveredCompacted{{2, 1}}})
	return b[:len(b)-4]
}

// SamplePack returns a pack of one batch.
func SamplePack(batch []byte) []byte {
	b := append([]byte(packMagic), packVersion, 0, 0, 0)
	b = append(b, make([]byte, 16+8+8)...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(batch))), batch...)
	return append(b, 0, 0, 0, 0)
}

// Unpack returns a batch in a pack.
func Unpack(b []byte, seq uint64) ([]byte, error) { return unpack(b, name{}, seq) }

// Spares counts the ready segments.
func (j *Journal) Spares() int { return len(j.spares.ready) }

// Reusable counts the segments that wait to be reused.
func (j *Journal) Reusable() int { return j.spares.reusable() }

// Recorded is the number of clicks recorded.
func (j *Journal) Recorded() uint64 { return j.recorder.recorded() }
