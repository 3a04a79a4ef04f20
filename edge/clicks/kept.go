package clicks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"
)

// Acknowledged batches are kept for a while: a control plane that fails over to an older copy
// of its database asks for them again. Each is in its own file at first, and many of them
// in a pack then, which is
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

	// A pack is made of so many batches, or so many bytes: redirects wait while it is, where there is one processor.
	packBatches = 256
	packBytes   = 1 << 20
	maxPack     = 16 << 20 // of earlier versions, and one batch more

	// keptShare is the part of the quota, one of so many, that they may take.
	keptShare = 8
)

var errPack = errors.New("it is no whole pack of this journal")

// kept is an acknowledged batch, or a pack of them.
type kept struct {
	name        name
	first, last uint64
	size        int64
	since       time.Time
}

// keeping reports whether acknowledged batches are kept at all.
func (j *Journal) keeping() bool { return j.cfg.KeepAcknowledged > 0 }

// tidy packs acknowledged batches, and removes those that are kept no longer. The fixer is
// held.
func (j *Journal) tidy(now time.Time) {
	j.mu.Lock()
	lanes := slices.Clone(j.lanes)
	j.mu.Unlock()
	for _, l := range lanes {
		if err := j.pack(l); err != nil {
			j.diskFailed("acknowledged batches could not be packed", err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var sum int64
	for _, l := range lanes {
		l.kept = slices.DeleteFunc(l.kept, func(k kept) bool {
			old := now.Sub(k.since) > j.cfg.KeepAcknowledged && !l.needs(k)
			return old && j.forget(k)
		})
		for _, k := range l.kept {
			sum += k.size
		}
	}
	for sum > j.cfg.MaxBytes/keptShare {
		freed := j.forgetOldest()
		if freed == 0 {
			break
		}
		sum -= freed
	}
}

// needs reports whether a batch is the newest one, which is kept for its cover as well.
func (l *lane) needs(k kept) bool { return k.name.kind == batchKind && k.first == l.seq }

// forget removes a file that is kept. The lock is held.
func (j *Journal) forget(k kept) bool {
	if err := j.dir.remove(k.name.String()); err != nil {
		j.diskFailed("an acknowledged batch could not be removed", err)
		return false
	}
	return true
}

// forgetOldest makes room, and gives how much. The lock is held.
func (j *Journal) forgetOldest() int64 {
	for _, l := range j.lanes {
		for i, k := range l.kept {
			if !l.needs(k) && j.forget(k) {
				l.kept = slices.Delete(l.kept, i, i+1)
				return k.size
			}
		}
	}
	return 0
}

// makeRoom removes what is kept, the oldest first, until so many bytes are free.
func (j *Journal) makeRoom(bytes int64) (freed int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for freed < bytes {
		n := j.forgetOldest()
		if n == 0 {
			break
		}
		freed += n
	}
	return freed
}

// toPack gives the first batches that make a pack; none: there are not so many. Of all between the first and the last
// none is left out.
func (j *Journal) toPack(l *lane) (some []kept, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range l.kept {
		switch {
		case l.needs(k):
			continue
		case k.name.kind == batchKind && k.size < j.cfg.packBytes:
			some = append(some, k)
			size += k.size
			if len(some) == j.cfg.packBatches || size >= j.cfg.packBytes {
				return some, size
			}
			continue
		case len(some) > 1:
			return some, size
		}
		some, size = nil, 0 // it is a pack, or as large as one, and stays as it is
	}
	return nil, 0
}

// pack puts the oldest acknowledged batches of a lane into one file, when there are so
// many. They are removed once that is durable.
func (j *Journal) pack(l *lane) error {
	some, size := j.toPack(l)
	if len(some) == 0 {
		return nil
	}
	le := binary.LittleEndian
	first, last := some[0].first, some[len(some)-1].last
	out := make([]byte, 0, packHead+int(size)+4*len(some)+packTail)
	out = append(append(out, packMagic...), packVersion, 0, 0, 0)
	out = append(out, l.boot.id[:]...)
	out = le.AppendUint64(le.AppendUint64(out, first), last)
	for _, k := range some {
		raw, err := j.dir.read(k.name.String(), maxBatchFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		out = append(le.AppendUint32(out, uint32(len(raw))), raw...)
	}
	out = le.AppendUint32(out, crc32.Checksum(out, castagnoli))
	k := kept{name{packKind, l.boot, first, shipped}, first, last, int64(len(out)), some[0].since}
	f, err := j.dir.create(k.name.String(), func(f *os.File) error {
		_, err := f.Write(out)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	in := func(o kept) bool { return o.name.kind == batchKind && o.first >= first && o.last <= last }
	for _, o := range l.kept {
		if in(o) {
			j.forget(o)
		}
	}
	l.kept = append([]kept{k}, slices.DeleteFunc(l.kept, in)...)
	slices.SortFunc(l.kept, func(a, b kept) int { return byNumber(a.name, b.name) })
	return nil
}

// reviveKept takes up what a boot has kept. What is in a pack need not be there a second
// time.
func (j *Journal) reviveKept(r *remains) error {
	for _, n := range r.packs {
		k, err := j.openPack(n)
		if err != nil && !unreadable(err) {
			return err
		}
		switch {
		case err != nil:
			err = j.giveUp(n, err)
		case !j.keeping():
			err = j.dir.remove(n.String())
		default:
			r.lane.kept = append(r.lane.kept, k)
		}
		if err != nil {
			return err
		}
	}
	packs := len(r.lane.kept)
	for _, n := range r.shipped {
		info, err := os.Stat(j.dir.path(n.String()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was put away
		}
		if err != nil {
			return err
		}
		packed := slices.ContainsFunc(r.lane.kept[:packs], func(k kept) bool { return k.first <= n.n && n.n <= k.last })
		if n.n != r.lane.seq && (packed || !j.keeping()) {
			if err := j.dir.remove(n.String()); err != nil {
				return err
			}
			continue
		}
		if j.keeping() {
			r.lane.kept = append(r.lane.kept, kept{n, n.n, n.n, info.Size(), info.ModTime()})
		}
	}
	return nil
}

// openPack reads what a pack says of itself.
func (j *Journal) openPack(n name) (kept, error) {
	f, err := os.Open(j.dir.path(n.String()))
	if err != nil {
		return kept{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return kept{}, err
	}
	head := make([]byte, packHead)
	if _, err := f.ReadAt(head, 0); err != nil {
		return kept{}, fmt.Errorf("%w: %w", errPack, err)
	}
	first, last := binary.LittleEndian.Uint64(head[28:]), binary.LittleEndian.Uint64(head[36:])
	if !packHeadOf(head, n) || first != n.n || last < first {
		return kept{}, errPack
	}
	return kept{n, first, last, info.Size(), info.ModTime()}, nil
}

func packHeadOf(b []byte, n name) bool {
	return string(b[:12]) == packMagic+string([]byte{packVersion, 0, 0, 0}) && string(b[12:28]) == string(n.boot.id[:])
}

// unpack gives the file of one batch in a pack; nil if it is not there.
func unpack(b []byte, n name, seq uint64) ([]byte, error) {
	if len(b) < packHead+packTail || !packHeadOf(b, n) {
		return nil, errPack
	}
	end := len(b) - packTail
	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return nil, fmt.Errorf("%w: the checksum does not hold", errPack)
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

// keptBody gives what shipped an acknowledged batch; false if it is gone.
func (j *Journal) keptBody(l *lane, seq uint64) ([]byte, bool) {
	for range 3 { // it may be packed meanwhile
		j.mu.Lock()
		i := slices.IndexFunc(l.kept, func(k kept) bool { return k.first <= seq && seq <= k.last })
		var k kept
		if i >= 0 {
			k = l.kept[i]
		}
		j.mu.Unlock()
		if i < 0 {
			return nil, false
		}
		raw, err := j.dir.read(k.name.String(), maxPack+maxBatchFile+1<<20)
		if err == nil && k.name.kind == packKind {
			raw, err = unpack(raw, k.name, seq)
		}
		var f batchFile
		if err == nil {
			f, err = decodeBatchFile(raw)
		}
		if err == nil && f.seq == seq && f.boot == l.boot.id {
			return f.body, true
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		j.log.Error("an acknowledged batch of clicks cannot be read", slog.String("file", k.name.String()), slog.Uint64("seq", seq), slog.Any("error", err))
		return nil, false
	}
	return nil, false
}
