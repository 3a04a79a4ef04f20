package report

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"waypost/api"
)

// Blocks holds the blocks of codes of an edge, each encoded with its signature.
type Blocks interface {
	Digest() uint64
	Shards() []uint64 // their digests

	// Hear takes blocks, and leaves out unsigned ones.
	Hear(encoded ...[]byte)

	// Lacking returns the blocks that another node lacks, by the digests of its shards
	// and by its blocks of the differing shards.
	Lacking(digests []uint64, known [][]byte) [][]byte
}

// maxExchanges bounds the requests of one exchange. The remaining blocks come with the
// next report.
const maxExchanges = 100

// blocks exchanges blocks with the control plane if the last report has shown that they
// differ: the edge gets the blocks that have not come otherwise, and brings the blocks
// that the control plane's database has forgotten.
func (r *Reporter) blocks(ctx context.Context) {
	if r.cfg.Blocks == nil || !r.differ {
		return
	}
	r.differ = false
	if err := r.exchangeBlocks(ctx); err != nil && ctx.Err() == nil {
		r.cfg.Logger.Warn("cannot exchange blocks of codes with the control plane", "error", err)
	}
}

func (r *Reporter) exchangeBlocks(ctx context.Context) error {
	ask := api.EdgeBlocks{Node: r.cfg.Node, Digests: r.cfg.Blocks.Shards()}
	var known [][]byte
	var answer api.EdgeBlocksAnswer
	for range maxExchanges {
		if err := r.postBlocks(ctx, &ask, &answer); err != nil {
			return err
		}
		known = append(known, answer.Blocks...)
		if ask.After = answer.Last; len(answer.Blocks) < api.MaxEdgeBlocks {
			break
		}
	}
	r.cfg.Blocks.Hear(known...)
	for part := range slices.Chunk(r.cfg.Blocks.Lacking(answer.Digests, known), api.MaxEdgeBlocks) {
		if err := r.postBlocks(ctx, &api.EdgeBlocks{Node: r.cfg.Node, Blocks: part}, &answer); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reporter) postBlocks(ctx context.Context, b *api.EdgeBlocks, answer *api.EdgeBlocksAnswer) error {
	limited, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	text, err := r.exchange(limited, api.PathEdgeBlocks, b)
	if err != nil {
		return err
	}
	*answer = api.EdgeBlocksAnswer{}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the control plane's blocks: %w", err)
	}
	return nil
}
