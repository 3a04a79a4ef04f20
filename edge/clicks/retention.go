package clicks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"time"

	"waypost/internal/pacer"
)

// Acknowledged batches are retained for a while, because a control plane that fails over
// to an older copy of its database asks for them again. Each is in its own file at first,
// and later many are in a pack, which is
//
//	"WPCLICKP", version 1, 3 bytes zero
//	boot, 16 bytes
//	first and last sequence, 8 bytes each
//	for each batch: length, 4 bytes; its file
//	CRC-32C of all that, 4 bytes
//
// with little-endian numbers.
const (
	packMagic   = "WPCLICKP"
	packVersion = 1
	packHead    = 8 + 4 + 16 + 8 + 8
	packTail    = 4

	// A pack is made of that many batches, or bytes.
	packBatches = 256
	packBytes   = 1 << 20
	maxPack     = 1 << 20 // and one batch more

	// retainedShare is the part of the quota, one of that many, that retained batches may
	// take.
	retainedShare = 8
)

var errPack = errors.New("it is no whole pack of this journal")

// retention keeps acknowledged batches, as long as there is room for them. Their lists
// are in the streams, under the catalog's lock.
type retention struct {
	*base
	catalog *catalog
}

// retained is an acknowledged batch, or a pack of them.
type retained struct {
	name        name
	first, last uint64
	size        int64
	since       time.Time
}

// expire packs retained batches, and removes batches that are too old or too many. The
// batcher's lock is held.
func (r *retention) expire(now time.Time, p *pacer.Pacer) {
	streams := r.catalog.all()
	for _, s := range streams {
		if err := r.pack(s, p); err != nil {
			r.diskFailed("cannot pack acknowledged batches", err)
		}
	}
	r.catalog.mu.Lock()
	defer r.catalog.unlock()
	var sum int64
	for _, s := range streams {
		s.retained = slices.DeleteFunc(s.retained, func(f retained) bool {
			old := now.Sub(f.since) > r.cfg.KeepAcknowledged && !s.needs(f)
			if old {
				r.catalog.removeLater(f.name, removeRetainedFailed)
			}
			return old
		})
		for _, f := range s.retained {
			sum += f.size
		}
	}
	for sum > r.cfg.MaxBytes/retainedShare {
		freed := r.removeOldest()
		if freed == 0 {
			break
		}
		sum -= freed
	}
}

// removeRetainedFailed is logged for a file that the next boot will retain again.
const removeRetainedFailed = "cannot remove an acknowledged batch"

// removeOldest removes the oldest retained file once the catalog is unlocked, and returns
// its size; 0 if there is none. The catalog's lock is held.
func (r *retention) removeOldest() int64 {
	for _, s := range r.catalog.streams {
		for i, f := range s.retained {
			if !s.needs(f) {
				r.catalog.removeLater(f.name, removeRetainedFailed)
				s.retained = slices.Delete(s.retained, i, i+1)
				return f.size
			}
		}
	}
	return 0
}

// makeRoom removes retained files, the oldest first, until that many bytes are free.
func (r *retention) makeRoom(bytes int64) (freed int64) {
	r.catalog.mu.Lock()
	defer r.catalog.unlock()
	for freed < bytes {
		n := r.removeOldest()
		if n == 0 {
			break
		}
		freed += n
	}
	return freed
}

// toPack returns the first batches that make a pack, without a gap, or nil if too few
// wait.
func (r *retention) toPack(s *stream) (some []retained, size int64) {
	r.catalog.mu.Lock()
	defer r.catalog.mu.Unlock()
	for _, f := range s.retained {
		switch {
		case s.needs(f):
			continue
		case f.name.kind == batchKind && f.size < r.cfg.packBytes:
			some = append(some, f)
			size += f.size
			if len(some) == r.cfg.packBatches || size >= r.cfg.packBytes {
				return some, size
			}
			continue
		case len(some) > 1:
			return some, size
		}
		some, size = nil, 0 // a pack, or a batch as large as one, stays as it is
	}
	return nil, 0
}

// pack puts the oldest retained batches of a stream into one file, if there are enough.
// It removes them once that is durable.
func (r *retention) pack(s *stream, p *pacer.Pacer) error {
	some, size := r.toPack(s)
	if len(some) == 0 {
		return nil
	}
	le := binary.LittleEndian
	first, last := some[0].first, some[len(some)-1].last
	out := make([]byte, 0, packHead+int(size)+4*len(some)+packTail)
	out = append(append(out, packMagic...), packVersion, 0, 0, 0)
	out = append(out, s.boot.id[:]...)
	out = le.AppendUint64(le.AppendUint64(out, first), last)
	for _, f := range some {
		raw, err := r.dir.read(f.name.String(), maxBatchFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		out = append(le.AppendUint32(out, uint32(len(raw))), raw...)
		p.Pause()
	}
	out = le.AppendUint32(out, crc32.Checksum(out, castagnoli))
	made := retained{name{packKind, s.boot, first, shipped}, first, last, int64(len(out)), some[0].since}
	f, err := r.dir.create(made.name.String(), func(f *os.File) error { return writePaced(f, out, p) })
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	in := func(o retained) bool { return o.name.kind == batchKind && o.first >= first && o.last <= last }
	r.catalog.mu.Lock()
	s.retained = append([]retained{made}, slices.DeleteFunc(s.retained, in)...)
	slices.SortFunc(s.retained, func(a, b retained) int { return byNumber(a.name, b.name) })
	r.catalog.mu.Unlock()
	for _, o := range some {
		if err := r.dir.remove(o.name.String()); err != nil {
			r.diskFailed(removeRetainedFailed, err)
		}
		p.Pause()
	}
	return nil
}

// revive takes up the batches that a boot retained. A batch in a pack needs no file of
// its own.
func (j *Journal) reviveRetained(r *remains) error {
	for _, n := range r.packs {
		f, err := j.openPack(n)
		if err != nil && !unreadable(err) {
			return err
		}
		switch {
		case err != nil:
			err = j.giveUp(n, err)
		case !j.cfg.retains():
			err = j.dir.remove(n.String())
		default:
			r.stream.retained = append(r.stream.retained, f)
		}
		if err != nil {
			return err
		}
	}
	packs := len(r.stream.retained)
	for _, n := range r.shipped {
		info, err := os.Stat(j.dir.path(n.String()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went to quarantine
		}
		if err != nil {
			return err
		}
		packed := slices.ContainsFunc(r.stream.retained[:packs], func(f retained) bool { return f.first <= n.n && n.n <= f.last })
		if n.n != r.stream.seq && (packed || !j.cfg.retains()) {
			if err := j.dir.remove(n.String()); err != nil {
				return err
			}
			continue
		}
		if j.cfg.retains() {
			r.stream.retained = append(r.stream.retained, retained{n, n.n, n.n, info.Size(), info.ModTime()})
		}
	}
	return nil
}

// openPack reads the head of a pack.
func (b *base) openPack(n name) (retained, error) {
	f, err := os.Open(b.dir.path(n.String()))
	if err != nil {
		return retained{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return retained{}, err
	}
	head := make([]byte, packHead)
	if _, err := f.ReadAt(head, 0); err != nil {
		return retained{}, fmt.Errorf("%w: %w", errPack, err)
	}
	first, last := binary.LittleEndian.Uint64(head[28:]), binary.LittleEndian.Uint64(head[36:])
	if !isPackHead(head, n) || first != n.n || last < first {
		return retained{}, errPack
	}
	return retained{n, first, last, info.Size(), info.ModTime()}, nil
}

func isPackHead(b []byte, n name) bool {
	return string(b[:12]) == packMagic+string([]byte{packVersion, 0, 0, 0}) && string(b[12:28]) == string(n.boot.id[:])
}

// unpack returns the file of one batch in a pack; nil if the pack does not hold it.
func unpack(b []byte, n name, seq uint64) ([]byte, error) {
	if len(b) < packHead+packTail || !isPackHead(b, n) {
		return nil, errPack
	}
	end := len(b) - packTail
	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return nil, fmt.Errorf("%w: the checksum does not match", errPack)
	}
	for b = b[packHead:end]; len(b) >= 4; {
		length := int(binary.LittleEndian.Uint32(b))
		if b = b[4:]; length > len(b) {
			return nil, errPack
		}
		if f, err := decodeBatchFile(b[:length]); err == nil && f.seq == seq {
			return b[:length], nil
		}
		b = b[length:]
	}
	return nil, nil
}

// body returns the body of an acknowledged batch; false if it is no longer retained.
func (r *retention) body(s *stream, seq uint64) ([]byte, bool) {
	for range 3 { // it may be packed between the look and the reading
		r.catalog.mu.Lock()
		i := slices.IndexFunc(s.retained, func(f retained) bool { return f.first <= seq && seq <= f.last })
		var f retained
		if i >= 0 {
			f = s.retained[i]
		}
		r.catalog.mu.Unlock()
		if i < 0 {
			return nil, false
		}
		raw, err := r.dir.read(f.name.String(), maxPack+maxBatchFile+1<<20)
		if err == nil && f.name.kind == packKind {
			raw, err = unpack(raw, f.name, seq)
		}
		var b batchFile
		if err == nil {
			b, err = decodeBatchFile(raw)
		}
		if err == nil && b.seq == seq && b.boot == s.boot.id {
			return b.body, true
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r.log.Error("cannot read an acknowledged batch of clicks", "file", f.name.String(), "seq", seq, "error", err)
		return nil, false
	}
	return nil, false
}

// newest returns the sequence of a stream's newest retained batch, or 0 without one.
func (r *retention) newest(s *stream) uint64 {
	r.catalog.mu.Lock()
	defer r.catalog.mu.Unlock()
	if n := len(s.retained); n > 0 {
		return s.retained[n-1].last
	}
	return 0
}
