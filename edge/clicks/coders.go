package clicks

import (
	"errors"

	"github.com/klauspost/compress/zstd"

	"waypost/api/clickbatch"
)

// newEncoder compresses batches: at its fastest, because codes are as good as random.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstd.SpeedFastest))
}

func (j *Journal) newCoders() (err error) {
	if j.zstd, err = newEncoder(); err != nil {
		return err
	}
	if j.mergeZstd, err = newEncoder(); err != nil {
		return err
	}
	j.unzip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(clickbatch.MaxBytes), zstd.WithDecoderLowmem(true))
	return err
}

func (j *Journal) closeCoders() error {
	j.unzip.Close()
	return errors.Join(j.zstd.Close(), j.mergeZstd.Close())
}
