package clicks

import (
	"bytes"
	"os"

	"github.com/klauspost/compress/zstd"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/internal/pacer"
)

// packer encodes and compresses batches, in small pieces.
type packer struct {
	pace   *pacer.Pacer
	codec  clickbatch.Codec
	zstd   *zstd.Encoder
	plain  []byte
	packed bytes.Buffer
}

// zstdBlock is the window and the block of the compression, in bytes. A block takes about
// 0.1 ms.
const zstdBlock = 32 << 10

// newPacker makes a packer. It compresses at its fastest, because codes look random.
func newPacker(p *pacer.Pacer) (*packer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdBlock))
	if err != nil {
		return nil, err
	}
	return &packer{pace: p, codec: clickbatch.Codec{Pause: p.Pause}, zstd: z}, nil
}

// pack returns the body of a batch, which is valid until the next call.
func (p *packer) pack(b *waypost.ClickBatch) []byte {
	p.plain = p.codec.Append(p.plain[:0], b)
	p.packed.Reset()
	p.zstd.Reset(&p.packed)
	for rest := p.plain; len(rest) > 0; {
		n := min(zstdBlock, len(rest))
		_, _ = p.zstd.Write(rest[:n]) // which cannot fail in memory
		rest = rest[n:]
		p.pace.Pause()
	}
	_ = p.zstd.Close()
	return p.packed.Bytes()
}

// writePaced writes to a file, in small pieces.
func writePaced(f *os.File, b []byte, p *pacer.Pacer) error {
	const piece = 128 << 10
	for len(b) > 0 {
		n := min(piece, len(b))
		if _, err := f.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		p.Pause()
	}
	return nil
}
