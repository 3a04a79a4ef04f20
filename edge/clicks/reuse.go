package clicks

import (
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"waypost/internal/failpoint"
)

// A file whose clicks are all in batches is used again: its space is there, and its pages are mapped
// and need not be written to the disk before they are written to again. A new file costs a page fault for each page, on the redirect
// path, and the removal of an old one the same again.
//
// An old click is never read as a new one. A file takes another name before anything in it changes, and is
// then one that is being made; after a kill, its memory is what was zeroed and written since. After a power cut it may
// have any page of any of its uses; but each record has the number of its segment, and counts only in that
// one.

var errMemory = errors.New("the memory of a segment cannot be written")

// isFault reports whether a panic is that memory could not be written.
func isFault(p any) bool {
	_, fault := p.(interface{ Addr() uintptr })
	return fault
}

// reuse makes another segment of one that nobody uses any more. When that fails, the file is gone.
func (d *directory) reuse(old *segment, node string, number uint64) (*segment, error) {
	s := newSegment(old.name.boot, number, old.size)
	making, file := temporary+s.name.String(), s.name.String()
	failpoint.Hit("remove segment: begun")
	err := d.rename(old.name.String(), making)
	failpoint.Hit("remove segment: done")
	if err != nil {
		return nil, errors.Join(err, d.discard(old))
	}
	// Opened again, so that errors tell the name that it has now.
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
		failpoint.Hit("make segment: synced") // which it need not be
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

// clear makes the memory that of an empty segment.
func (s *segment) clear(tail int64, head []byte) (err error) {
	const step = 256 << 10 // the garbage collector can wait for so much
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
	}
	copy(s.mem, head)
	return nil
}

// discard removes a segment that nobody uses any more.
func (d *directory) discard(s *segment) error {
	return errors.Join(s.unmap(), s.file.Close(), d.remove(s.name.String()))
}

// pace counts the segments that are taken in a second.
type pace struct {
	began          time.Time
	before, lately uint64
}

// of gives that for so many that were taken until now: in the second that passed last, or in this one if they
// are more already.
func (p *pace) of(takes uint64, now time.Time) uint64 {
	if now.Sub(p.began) > time.Second {
		p.began, p.before, p.lately = now, takes, takes-p.before
	}
	return max(p.lately, takes-p.before)
}

// wearing is for how long as many segments are kept to be used again as were taken in a second.
const wearing = 30 * time.Second

// peak is the most of something in a time.
type peak struct {
	most uint64
	at   time.Time
}

// of gives that with another figure.
func (p *peak) of(n uint64, now time.Time, within time.Duration) uint64 {
	if n >= p.most || now.Sub(p.at) > within {
		p.most, p.at = n, now
	}
	return p.most
}

// wear keeps a segment to be used again, as far as that is likely soon. The lock is held.
func (j *Journal) wear(l *lane, s *segment) bool {
	select {
	case <-j.stop:
		return false
	default:
	}
	fit := l == j.current && s.mem != nil && !s.damaged && !s.unsound && !s.bad.Load()
	if !fit || j.hold.Load() || len(j.worn) >= j.likely {
		return false
	}
	j.worn = append(j.worn, s)
	j.signal(j.freed)
	return true
}

// unworn gives a segment to be used again, if there is one.
func (j *Journal) unworn() *segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.worn) - 1
	if n < 0 {
		return nil
	}
	s := j.worn[n]
	j.worn = j.worn[:n]
	return s
}

// wornNow is how many segments wait to be used again.
func (j *Journal) wornNow() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.worn)
}

// discardWorn removes segments of which more are kept than will be used soon.
func (j *Journal) discardWorn(keep int) {
	j.mu.Lock()
	j.likely = keep
	var over []*segment
	if n := len(j.worn); n > keep {
		over, j.worn = slices.Clone(j.worn[keep:]), j.worn[:keep]
	}
	j.mu.Unlock()
	for _, s := range over {
		if err := j.dir.discard(s); err != nil {
			j.diskFailed("a segment of the click journal could not be put away", err)
		}
	}
}
