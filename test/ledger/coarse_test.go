package ledger_test

import (
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
)

// coarse counts clicks that edges have sent without their times, which folds lose when
// room gets scarce: they are counted, but no one can tell them apart. Batches that
// come again are the same.
type coarse struct {
	unzip  *zstd.Decoder
	counts map[identity]map[string]int64 // by code, and by code, rule and variant
}

type identity struct {
	boot waypost.BootID
	seq  uint64
}

func newCoarse(t *testing.T) *coarse {
	t.Helper()
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	require.NoError(t, err)
	t.Cleanup(unzip.Close)
	return &coarse{unzip: unzip, counts: make(map[identity]map[string]int64)}
}

func (c *coarse) note(body []byte) error {
	plain, err := c.unzip.DecodeAll(body, nil)
	if err != nil {
		return err
	}
	b, err := clickbatch.Decode(plain)
	if err != nil || b.Exact {
		return err
	}
	counts := make(map[string]int64)
	for _, l := range b.Links {
		for _, r := range l.Rows {
			counts[string(l.Code)] += int64(r.Count)
			p := b.Profiles[r.Profile]
			counts[fmt.Sprintf("%s %d/%d", l.Code, p.Rule, p.Variant)] += int64(r.Count)
		}
	}
	c.counts[identity{b.Boot, b.Seq}] = counts
	return nil
}

// of returns how many clicks of a link there are, or of one rule and variant of it.
func (c *coarse) of(code string) (clicks int64) {
	for _, counts := range c.counts {
		clicks += counts[code]
	}
	return clicks
}
