package clicks

import (
	"bufio"
	"cmp"
	"hash/crc32"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"

	"waypost"
	"waypost/api/clickbatch"
)

// foldWriter writes the blocks of a fold, link by link in their order.
type foldWriter struct {
	out    *bufio.Writer
	zstd   *zstd.Encoder
	grade  grade
	boot   waypost.BootID
	node   string
	blocks []foldBlock
	size   int64

	// The block that is being filled:
	links    []waypost.LinkClicks
	spans    []span
	rows     []waypost.ClickRow
	who      []waypost.Visitor
	profiles profiles
	round    uint32 // of the dictionary

	plain, packed []byte
}

// span is where a link's rows and visitors end.
type span struct{ rows, who int }

func newFoldWriter(f *os.File, z *zstd.Encoder, l *lane, g grade) *foldWriter {
	w := &foldWriter{out: bufio.NewWriterSize(f, 1<<20), zstd: z, grade: g, boot: l.boot.id, node: l.node}
	w.profiles.reset()
	return w
}

// dictionary tells which profile of a block that is written is that of one that is read.
type dictionary struct {
	of      []waypost.ClickProfile
	numbers []uint32 // + 1; 0: not asked for yet
	round   uint32
}

func newDictionary(of []waypost.ClickProfile) dictionary {
	return dictionary{of: of, numbers: make([]uint32, len(of)), round: ^uint32(0)}
}

// number translates a profile, of which the fold may keep less.
func (w *foldWriter) number(d *dictionary, profile uint32) (uint32, bool) {
	if d.round != w.round {
		clear(d.numbers)
		d.round = w.round
	}
	if n := d.numbers[profile]; n > 0 {
		return n - 1, true
	}
	p := &d.of[profile]
	if w.grade == totalGrade {
		p = &waypost.ClickProfile{Bot: p.Bot}
	}
	n, ok := w.profiles.number(p)
	if ok {
		d.numbers[profile] = n + 1
	}
	return n, ok
}

// full reports whether the block should take no other link.
func (w *foldWriter) full() bool {
	return len(w.links) >= maxBlockLinks || len(w.rows) >= maxBlockRows || len(w.who) >= maxBlockRows || w.crowded()
}

// crowded reports whether the dictionary has hardly room for another link's profiles.
func (w *foldWriter) crowded() bool {
	return w.profiles.bytes >= maxProfileBytes/2 || len(w.profiles.list) >= clickbatch.MaxProfiles/2
}

// begin makes room for a link. Its rows and visitors follow.
func (w *foldWriter) begin(l *waypost.LinkClicks) error {
	if w.full() {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.links = append(w.links, waypost.LinkClicks{Domain: l.Domain, Code: l.Code, Last: l.Last})
	return nil
}

// row adds clicks to the link that was begun.
func (w *foldWriter) row(d *dictionary, r waypost.ClickRow) error {
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
func (w *foldWriter) visitor(v waypost.Visitor) error {
	if w.grade == totalGrade {
		return nil
	}
	w.who = append(w.who, v)
	if len(w.who)-w.last().who >= 4*maxBlockRows {
		return w.spill()
	}
	return nil
}

// spill completes the block with many visitors of the link that was begun, and a click of
// one of them: that many are never more than the clicks.
func (w *foldWriter) spill() error {
	first := w.last()
	if w.who = append(w.who[:first.who], eachOnce(w.who[first.who:])...); len(w.who)-first.who < 2*maxBlockRows {
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
		w.who = w.who[:first.who] // more visitors than clicks: it is not true
		return nil
	}
	one.Count = 1
	w.rows = append(w.rows[:first.rows], one)
	l := w.links[len(w.links)-1]
	w.end()
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

// end completes the link that was begun.
func (w *foldWriter) end() {
	first := w.last()
	w.rows = append(w.rows[:first.rows], alike(w.rows[first.rows:], w.grade)...)
	w.who = append(w.who[:first.who], eachOnce(w.who[first.who:])...)
	w.spans = append(w.spans, span{len(w.rows), len(w.who)})
}

// last is where the rows and visitors of the link before end.
func (w *foldWriter) last() span {
	if len(w.spans) == 0 {
		return span{}
	}
	return w.spans[len(w.spans)-1]
}

// goOn completes the block within a link, which goes on in the next one.
func (w *foldWriter) goOn() error {
	if first := w.last(); len(w.rows) > first.rows {
		if w.rows = append(w.rows[:first.rows], alike(w.rows[first.rows:], w.grade)...); len(w.rows) < maxBlockRows && !w.crowded() {
			return nil // that was enough
		}
	}
	l := w.links[len(w.links)-1]
	if len(w.rows) > w.last().rows {
		w.end()
	} else {
		w.links = w.links[:len(w.links)-1] // nothing of it is in this block
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.links = append(w.links, l)
	return nil
}

// flush writes the block, if there is something in it.
func (w *foldWriter) flush() error {
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
	w.plain = clickbatch.Append(w.plain[:0], &b)
	w.packed = w.zstd.EncodeAll(w.plain, w.packed[:0])
	_, err := w.out.Write(w.packed)
	w.blocks = append(w.blocks, foldBlock{w.size, uint32(len(w.packed)), crc32.Checksum(w.packed, castagnoli), clicks})
	w.size += int64(len(w.packed))
	clear(w.links)
	w.links, w.spans, w.rows, w.who = w.links[:0], w.spans[:0], w.rows[:0], w.who[:0]
	w.profiles.reset()
	w.round++
	return err
}

// close writes what is left of the blocks.
func (w *foldWriter) close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.out.Flush()
}

// writeTally writes all clicks of a tally.
func (w *foldWriter) writeTally(t *tally) error {
	b := t.batch(true)
	d := newDictionary(b.Profiles)
	for i := range b.Links {
		l := &b.Links[i]
		if err := w.begin(l); err != nil {
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
		w.end()
	}
	return w.close()
}

// alike puts rows together that are alike, unless each click is to have its time.
func alike(rows []waypost.ClickRow, g grade) []waypost.ClickRow {
	if g == exactGrade || len(rows) < 2 {
		return rows
	}
	slices.SortFunc(rows, func(a, b waypost.ClickRow) int {
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
