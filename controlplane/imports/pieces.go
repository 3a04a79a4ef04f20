package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/linkfile"
)

// Bounds of a piece of rows.
const (
	pieceRows  = 1000
	pieceBytes = 4 << 20 // of cells, without the last row
	maxPiece   = 64 << 20
)

// packer compresses pieces. Both halves may be used by many goroutines at once.
var packer = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, err1 := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	d, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxPiece))
	if err := errors.Join(err1, err2); err != nil {
		panic("imports: zstd: " + err.Error()) // the options above are wrong
	}
	return e, d
})

// Pack compresses a piece, or a part of a file.
func Pack(content []byte) []byte {
	e, _ := packer()
	return e.EncodeAll(content, nil)
}

// Unpack reverses Pack.
func Unpack(content []byte) ([]byte, error) {
	_, d := packer()
	b, err := d.DecodeAll(content, nil)
	if err != nil {
		return nil, fmt.Errorf("a piece of an import cannot be read: %w", err)
	}
	return b, nil
}

// pack returns rows or outcomes as they are kept.
func pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return Pack(text), err
}

func unpack[T any](content []byte) (v T, err error) {
	text, err := Unpack(content)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	return v, err
}

// outcomes of some rows.
type outcomes struct {
	Rows    int            `json:"rows"`
	Epoch   uint32         `json:"epoch,omitzero"` // of the transaction
	Seq     uint64         `json:"seq,omitzero"`
	Made    []int64        `json:"made,omitzero"`    // ids of the links
	Refused map[int]string `json:"refused,omitzero"` // by place among the rows
}

// parts reads the file of an import, part by part, and counts its bytes.
type parts struct {
	s       *Imports
	ctx     context.Context //nolint:containedctx // of one reading
	i       *Import
	worker  string
	n       int // parts so far
	content []byte
	err     error // of the store
}

// Read implements io.Reader.
func (p *parts) Read(b []byte) (int, error) {
	for len(p.content) == 0 {
		if p.n == p.i.FileParts {
			return 0, io.EOF
		}
		p.n++
		if p.content, p.err = p.s.Store.Part(p.ctx, p.i, p.worker, p.n); p.err != nil {
			return 0, p.err
		}
	}
	n := copy(b, p.content)
	p.content = p.content[n:]
	p.i.Bytes += int64(n)
	return n, nil
}

// WriteRefused writes the refused rows of an import, whose rows were read, as a file that
// can be mended. After a dry run these are the rows that would be refused now.
func (s *Imports) WriteRefused(ctx context.Context, by controlplane.Actor, id string, w io.Writer) (err error) {
	if err := MayImport(by); err != nil { // rows may hold passwords
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil { // the answer has begun, and can only be cut off
			s.Logger.WarnContext(ctx, "cannot write the refused rows of an import", "import", id, "error", err)
		}
	}()
	i, err := s.Store.Import(ctx, by.Workspace, id)
	if err != nil {
		return err
	}
	to := linkfile.NewRefusedWriter(w, &i.Shape)
	if i.State == api.ImportReady && i.Checked != nil {
		i.By = by
		again := &work{Imports: s, i: &i, rows: cursor{s: s, i: &i}}
		err := again.tryAll(ctx, new(Counts), func(b *batch, o *outcomes) error {
			for _, n := range slices.Sorted(maps.Keys(o.Refused)) {
				if err := to.Add(b.rows[n], o.Refused[n]); err != nil {
					return err
				}
			}
			return nil
		})
		return errors.Join(err, to.Flush())
	}
	rows := &cursor{s: s, i: &i}
	for at := int64(0); ; {
		p, found, err := s.Store.RowsAt(ctx, by.Workspace, id, true, at)
		if err != nil {
			return err
		}
		var o outcomes
		if found {
			if o, err = unpack[outcomes](p.Content); err != nil {
				return err
			}
		}
		if at >= p.First+int64(o.Rows) {
			return to.Flush()
		}
		for _, n := range slices.Sorted(maps.Keys(o.Refused)) {
			row, err := rows.at(ctx, p.First+int64(n), 1)
			if err != nil {
				return err
			}
			if err := to.Add(row[0], o.Refused[n]); err != nil {
				return err
			}
		}
		at = p.First + int64(o.Rows)
	}
}

// cursor reads the rows of an import in their order.
type cursor struct {
	s     *Imports
	i     *Import
	first int64
	rows  []linkfile.Row
}

// at returns up to most rows from a row on, which is there.
func (c *cursor) at(ctx context.Context, row int64, most int) ([]linkfile.Row, error) {
	if row < c.first || row >= c.first+int64(len(c.rows)) {
		p, found, err := c.s.Store.RowsAt(ctx, c.i.Workspace, c.i.ID, false, row)
		if err == nil && !found {
			err = fmt.Errorf("the row %d of the import is lost", row)
		}
		if err != nil {
			return nil, err
		}
		if c.rows, err = unpack[[]linkfile.Row](p.Content); err != nil {
			return nil, err
		}
		if c.first = p.First; row < c.first || row >= c.first+int64(len(c.rows)) {
			return nil, fmt.Errorf("the row %d of the import is lost", row)
		}
	}
	rows := c.rows[row-c.first:]
	return rows[:min(len(rows), most)], nil
}

// joined joins values without blanks for people.
func joined(all any) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ", ")
}
