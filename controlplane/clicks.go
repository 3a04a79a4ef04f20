package controlplane

import (
	"context"
	"fmt"

	"waypost"
)

// ClickStore counts clicks that edges have journaled.
type ClickStore interface {
	// IngestClicks counts a batch exactly once: counts and watermark are durable,
	// in one transaction, when it returns without an error. Hash is the SHA-256 of
	// body, the batch as it was encoded; both must be the same whenever the batch
	// is sent.
	//
	// A batch at or below the watermark changes nothing. Another batch under an
	// identity that was counted, and a batch that can never be counted, go to the
	// dead letters; a watermark before it moves past it. A batch beyond
	// watermark + 1 is a [*ClickGapError].
	//
	// EInvalid means that the batch has no identity that can be kept; EUnavailable
	// that it should be sent again, whether or not it was counted.
	IngestClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte) (ClickReceipt, error)
}

// ClickReceipt is what became of a batch of clicks.
type ClickReceipt struct {
	Watermark  uint64 // batches 1 to Watermark of this node and boot are settled
	DeadLetter bool   // the batch was not counted, now or when it first came

	// What was counted now: all zero for a batch that was counted before.
	Clicks  uint64 // of links
	Unknown uint64 // of codes that name no link; they are in the watermark's row only
	Redated uint64 // of these, counted at the time of receipt because theirs cannot be
	Voided  bool   // the batch stands for one that the edge has lost
	Dropped uint64 // clicks that the edge had no room for; they are counted nowhere
}

// ClickGapError says that batches before this one are missing.
type ClickGapError struct {
	Watermark uint64 // the newest that is settled; the next to send is one more
}

func (e *ClickGapError) Error() string {
	return fmt.Sprintf("batches are missing after %d", e.Watermark)
}
