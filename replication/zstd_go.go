//go:build !cgo

package replication

import "github.com/klauspost/compress/zstd"

// compressor makes zstd frames without C.
type compressor struct{ zstd *zstd.Encoder }

func newCompressor() compressor {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // of options alone
	}
	return compressor{z}
}

// append compresses src behind dst.
func (c compressor) append(dst, src []byte) ([]byte, error) { return c.zstd.EncodeAll(src, dst), nil }
