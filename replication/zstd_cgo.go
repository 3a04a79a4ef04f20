//go:build cgo

package replication

import (
	"slices"

	"github.com/DataDog/zstd"
)

// compressor makes zstd frames with the library in C that Pebble uses as well, in half
// the time that the other one takes.
type compressor struct{ ctx zstd.Ctx }

func newCompressor() compressor { return compressor{zstd.NewCtx()} }

// append compresses src behind dst.
func (c compressor) append(dst, src []byte) ([]byte, error) {
	bound := zstd.CompressBound(len(src))
	dst = slices.Grow(dst, bound)
	packed, err := c.ctx.CompressLevel(dst[len(dst):len(dst)+bound], src, zstd.BestSpeed)
	return dst[:len(dst)+len(packed)], err
}
