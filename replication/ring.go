package replication

import (
	"sort"

	"waypost"
)

// ring is the newest stretch of the changelog as frames, for all followers to
// share. It is bounded in bytes and in frames; who needs older ones reads the
// source. It is not safe for concurrent use: the Server's lock guards it.
type ring struct {
	maxFrames, maxBytes int

	base    waypost.Position // just before the first entry
	entries []ringEntry
	bytes   int
}

// ringEntry is a batch frame, or a transaction too large for one: then frame is
// nil, and whoever comes to it is reset.
type ringEntry struct {
	after uint64 // the sequence before its first
	last  waypost.Position
	frame []byte
}

// restart empties the ring at p.
func (g *ring) restart(p waypost.Position) {
	g.base, g.entries, g.bytes = p, nil, 0
}

// tail is the newest position that the ring holds.
func (g *ring) tail() waypost.Position {
	if n := len(g.entries); n > 0 {
		return g.entries[n-1].last
	}
	return g.base
}

func (g *ring) add(es []ringEntry) {
	for _, e := range es {
		g.entries = append(g.entries, e)
		g.bytes += len(e.frame)
	}
	drop := 0
	for g.bytes > g.maxBytes && drop < len(g.entries) || len(g.entries)-drop > g.maxFrames {
		g.bytes -= len(g.entries[drop].frame)
		g.base = g.entries[drop].last
		g.entries[drop] = ringEntry{} // let the frame go now, not when the array does
		drop++
	}
	g.entries = g.entries[drop:]
}

// since gives up to limit entries that follow p, and whether p is a boundary of
// the ring at all, by its stamp as well.
func (g *ring) since(p waypost.Position, limit int) (es []ringEntry, onRing bool) {
	if p == g.tail() {
		return nil, true
	}
	i := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].after >= p.Seq })
	if i == len(g.entries) || g.entries[i].after != p.Seq {
		return nil, false
	}
	before := g.base
	if i > 0 {
		before = g.entries[i-1].last
	}
	if p != before {
		return nil, false
	}
	return append(es, g.entries[i:min(i+limit, len(g.entries))]...), true
}

// boundary gives the first sequence within [from, to] at which the ring can take
// over, and false when there is none.
func (g *ring) boundary(from, to uint64) (uint64, bool) {
	i := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].after >= from })
	if i < len(g.entries) && g.entries[i].after <= to {
		return g.entries[i].after, true
	}
	if t := g.tail().Seq; t >= from && t <= to {
		return t, true
	}
	return 0, false
}

// frames turns a batch into ring entries of about frameTarget bytes, each signed if
// there is a signer; what came as a frame stays one, and as it was signed.
func (e *encoder) frames(b *Batch, signer *Signer) []ringEntry {
	if b.Frame != nil {
		return []ringEntry{{after: b.Transactions[0].Seq - 1, last: b.Last(), frame: signed(&b.Signature, b.Frame)}}
	}
	var es []ringEntry
	for ts := b.Transactions; len(ts) > 0; {
		n, size := 1, batchHeaderSize+transactionSize(&ts[0])
		for n < len(ts) {
			more := transactionSize(&ts[n])
			if size+more > frameTarget {
				break
			}
			n, size = n+1, size+more
		}
		part := Batch{Epoch: b.Epoch, Transactions: ts[:n]}
		entry := ringEntry{after: ts[0].Seq - 1, last: part.Last()}
		if size <= maxFrame {
			payload := appendBatch(make([]byte, 0, size), b.Epoch, ts[:n])
			var signature Signature
			if signer != nil {
				signature = signer.signBatch(&part, payload)
			}
			entry.frame = signed(&signature, e.frame(frameBatch, 0, payload))
		}
		es = append(es, entry)
		ts = ts[n:]
	}
	return es
}
