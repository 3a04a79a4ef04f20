package clicks

import (
	"bufio"
	"cmp"
	"hash/crc32"
	"os"
	"slices"

	"waypost"
	"waypost/api/clickbatch"
)

// compactedWriter writes the blocks of a compacted segment, link by link in their order.
type compactedWriter struct {
	out    *bufio.Writer
	packer *packer
	grade  grade
	boot   waypost.BootID
	node   string
	blocks []block
	size   int64

	// The block that is being filled:
	links    []waypost.LinkClicks
	spans    []span
	rows     []waypost.ClickRow
	who      []waypost.Visitor
	profiles profiles
	round    uint32 // of the dictionary
}

// span says where a link's rows and visitors end.
type span struct{ rows, who int }

func newCompactedWriter(p *packer) *compactedWriter {
	return &compactedWriter{out: bufio.NewWriterSize(nil, 128<<10), packer: p}
}

// reset begins a file.
func (w *compactedWriter) reset(f *os.File, s *stream, g grade) {
	w.out.Reset(f)
	w.grade, w.boot, w.node = g, s.boot.id, s.node
	w.blocks, w.size = w.blocks[:0], 0
	w.clear()
}

// clear empties the block.
func (w *compactedWriter) clear() {
	clear(w.links)
	w.links, w.spans, w.rows, w.who = w.links[:0], w.spans[:0], w.rows[:0], w.who[:0]
	w.profiles.reset()
	w.round++
}

// dictionary maps profiles of the block that is read to profiles of the block that is
// written.
type dictionary struct {
	of      []waypost.ClickProfile
	numbers []uint32 // + 1; 0: not known yet
	round   uint32
}

func newDictionary(of []waypost.ClickProfile) dictionary {
	return dictionary{of: of, numbers: make([]uint32, len(of)), round: ^uint32(0)}
}

// number translates a profile, and drops the details that the grade does not keep.
func (w *compactedWriter) number(d *dictionary, profile uint32) (uint32, bool) {
	if d.round != w.round {
		clear(d.numbers)
		d.round = w.round
	}
	if n := d.numbers[profile]; n > 0 {
		return n - 1, true
	}
	p := &d.of[profile]
	if w.grade == totalGrade {
		p = &waypost.ClickProfile{Bot: p.Bot, Rule: p.Rule, Variant: p.Variant}
	}
	n, ok := w.profiles.number(p)
	if ok {
		d.numbers[profile] = n + 1
	}
	return n, ok
}

// full reports whether the block should take no other link.
func (w *compactedWriter) full() bool {
	return len(w.links) >= maxBlockLinks || len(w.rows) >= maxBlockRows || len(w.who) >= maxBlockRows || w.crowded()
}

// crowded reports whether the dictionary has hardly room for another link's profiles.
func (w *compactedWriter) crowded() bool {
	return w.profiles.bytes >= maxProfileBytes/2 || len(w.profiles.list) >= clickbatch.MaxProfiles/2
}

// beginLink makes room for a link; its rows and visitors follow.
func (w *compactedWriter) beginLink(l *waypost.LinkClicks) error {
	if w.full() {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.links = append(w.links, waypost.LinkClicks{Domain: l.Domain, Code: l.Code, Last: l.Last})
	return nil
}

// row adds clicks to the link that was begun.
func (w *compactedWriter) row(d *dictionary, r waypost.ClickRow) error {
	if len(w.rows) >= 2*maxBlockRows {
		if err := w.goOn(); err != nil {
			return err
		}
	}
	n, ok := w.number(d, r.Profile)
	if !ok {
		if err := w.goOn(); err != nil {
			return err
		}
		n, _ = w.number(d, r.Profile) // the dictionary is empty now
	}
	if w.grade != exactGrade {
		r.At = waypost.Quarter(r.At)
	}
	r.Profile = n
	w.rows = append(w.rows, r)
	return nil
}

// visitor adds one to the link that was begun, behind its rows.
func (w *compactedWriter) visitor(v waypost.Visitor) error {
	if w.grade == totalGrade {
		return nil
	}
	w.who = append(w.who, v)
	if len(w.who)-w.last().who >= 4*maxBlockRows {
		return w.spill()
	}
	return nil
}

// spill ends the current block in the middle of a link with many visitors. One click
// stays with the visitors written so far, because a link must not have more visitors than
// clicks.
func (w *compactedWriter) spill() error {
	first := w.last()
	if w.who = append(w.who[:first.who], eachOnce(w.packer.pace, w.who[first.who:])...); len(w.who)-first.who < 2*maxBlockRows {
		return nil
	}
	rest, was := slices.Clone(w.rows[first.rows:]), newDictionary(slices.Clone(w.profiles.list))
	one := rest[len(rest)-1]
	if one.Count > 1 {
		rest[len(rest)-1].Count--
	} else {
		rest = rest[:len(rest)-1]
	}
	if len(rest) == 0 {
		w.who = w.who[:first.who] // more visitors than clicks cannot be true
		return nil
	}
	one.Count = 1
	w.rows = append(w.rows[:first.rows], one)
	l := w.links[len(w.links)-1]
	w.endLink()
	if err := w.flush(); err != nil {
		return err
	}
	w.links = append(w.links, l)
	for _, r := range rest {
		if err := w.row(&was, r); err != nil {
			return err
		}
	}
	return nil
}

// endLink completes the link that was begun.
func (w *compactedWriter) endLink() {
	first := w.last()
	w.rows = append(w.rows[:first.rows], w.alike(w.rows[first.rows:])...)
	w.who = append(w.who[:first.who], eachOnce(w.packer.pace, w.who[first.who:])...)
	w.spans = append(w.spans, span{len(w.rows), len(w.who)})
}

// last returns where the rows and visitors of the previous link end.
func (w *compactedWriter) last() span {
	if len(w.spans) == 0 {
		return span{}
	}
	return w.spans[len(w.spans)-1]
}

// goOn completes the block within a link, which continues in the next one.
func (w *compactedWriter) goOn() error {
	if first := w.last(); len(w.rows) > first.rows {
		if w.rows = append(w.rows[:first.rows], w.alike(w.rows[first.rows:])...); len(w.rows) < maxBlockRows && !w.crowded() {
			return nil // which was enough
		}
	}
	l := w.links[len(w.links)-1]
	if len(w.rows) > w.last().rows {
		w.endLink()
	} else {
		w.links = w.links[:len(w.links)-1] // it has no click in this block
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.links = append(w.links, l)
	return nil
}

// flush writes the block, unless it is empty.
func (w *compactedWriter) flush() error {
	if len(w.links) == 0 {
		return nil
	}
	b := waypost.ClickBatch{
		Node: w.node, Boot: w.boot, Seq: uint64(len(w.blocks) + 1), Exact: w.grade == exactGrade, Profiles: w.profiles.list, Links: w.links,
	}
	from, clicks := span{}, uint64(0)
	for i, to := range w.spans {
		l := &w.links[i]
		l.Rows, l.Visitors = w.rows[from.rows:to.rows], w.who[from.who:to.who]
		for _, r := range l.Rows {
			clicks += r.Count
		}
		from = to
	}
	packed := w.packer.pack(&b)
	_, err := w.out.Write(packed)
	w.blocks = append(w.blocks, block{w.size, uint32(len(packed)), crc32.Checksum(packed, castagnoli), clicks})
	w.size += int64(len(packed))
	w.clear()
	return err
}

// close writes the last block.
func (w *compactedWriter) close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.out.Flush()
}

// writeTally writes all clicks of a tally.
func (w *compactedWriter) writeTally(t *tally) error {
	b := t.batch(true)
	d := newDictionary(b.Profiles)
	for i := range b.Links {
		l := &b.Links[i]
		if err := w.beginLink(l); err != nil {
			return err
		}
		for _, r := range l.Rows {
			if err := w.row(&d, r); err != nil {
				return err
			}
		}
		for _, v := range l.Visitors {
			if err := w.visitor(v); err != nil {
				return err
			}
		}
		w.endLink()
		w.packer.pace.Step()
	}
	return w.close()
}

// alike joins rows that are alike, unless each click keeps its time.
func (w *compactedWriter) alike(rows []waypost.ClickRow) []waypost.ClickRow {
	if w.grade == exactGrade || len(rows) < 2 {
		return rows
	}
	sortPaced(w.packer.pace, rows, func(a, b waypost.ClickRow) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Profile, b.Profile))
	})
	n := 0
	for _, r := range rows[1:] {
		if last := &rows[n]; last.At == r.At && last.Profile == r.Profile {
			last.Count += r.Count
		} else {
			n++
			rows[n] = r
		}
	}
	return rows[:n+1]
}
