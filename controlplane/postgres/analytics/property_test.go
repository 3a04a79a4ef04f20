package analytics_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/postgres/analytics"
)

// sender is one boot of an edge with all its batches. Taken is a lower bound, because the
// outcome of an interrupted delivery is unknown.
type sender struct {
	batches []*waypost.ClickBatch
	taken   uint64
}

// size is the clicks in batches 1 to seq.
func (s *sender) size(seq uint64) (n int64) {
	for _, b := range s.batches[:seq] {
		for i := range b.Links {
			clicks, _ := b.Clicks(&b.Links[i])
			n += int64(clicks)
		}
	}
	return n
}

func TestWhateverIsRepeatedReorderedOrCutOffEveryBatchIsCountedOnce(t *testing.T) {
	db, hand := open(t)
	codes := []string{"link-0", "link-1", "link-2", "unknown"}
	insert(t, db, links(3)...)
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}'`)
	now := time.Now().UnixMilli()
	expected, whole := make(map[string]*tally), newTally()
	for _, code := range codes {
		expected[code] = newTally()
	}
	boot := waypost.BootID{}

	rapid.Check(t, func(t *rapid.T) {
		send := func(ctx context.Context, b *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
			body := clickbatch.Append(nil, b)
			return db.IngestClicks(ctx, b, sha256.Sum256(body), body)
		}
		senders := make([]*sender, 3)
		for i := range senders {
			boot[0]++ // never the same twice in this database
			if boot[0] == 0 {
				boot[1]++
			}
			senders[i] = &sender{}
			for seq := range rapid.Uint64Range(1, 4).Draw(t, "batches") {
				b := &waypost.ClickBatch{
					Node: fmt.Sprintf("edge-%d", i%2), Boot: boot, Seq: seq + 1, Exact: rapid.Bool().Draw(t, "exact"), Profiles: somebody,
				}
				for _, code := range codes {
					l, ok := drawLink(t, code, now, b.Exact)
					if !ok {
						continue
					}
					b.Links = append(b.Links, l)
					if expected[code].add(b, &l); code != "unknown" {
						whole.add(b, &l)
					}
				}
				senders[i].batches = append(senders[i].batches, b)
			}
		}

		for range rapid.IntRange(0, 12).Draw(t, "deliveries") {
			s := rapid.SampledFrom(senders).Draw(t, "sender")
			b := rapid.SampledFrom(s.batches).Draw(t, "batch")
			fate := rapid.SampledFrom([]string{"arrives", "is cut off", "comes with other content", "waits while parts are folded"}).Draw(t, "fate")
			patience := time.Minute
			switch {
			case fate == "waits while parts are folded":
				// A roller may be killed at any moment, and be given little at a time.
				r := db.NewRoller(nil).With(analytics.Limits{Parts: rapid.IntRange(1, 4).Draw(t, "parts")})
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rapid.IntRange(0, 120).Draw(t, "ms"))*time.Millisecond)
				_ = r.Fold(ctx) // whether it came to an end does not matter
				cancel()
				continue
			case fate == "is cut off":
				patience = time.Duration(rapid.IntRange(0, 3000).Draw(t, "µs")) * time.Microsecond
			case fate == "comes with other content" && b.Seq <= s.taken:
				b = &waypost.ClickBatch{
					Node: b.Node, Boot: b.Boot, Seq: b.Seq, Exact: true, Profiles: anybody,
					Links: []waypost.LinkClicks{total(codes[0], 1000)},
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			r, err := send(ctx, b)
			cancel()
			gap, isGap := errors.AsType[*controlplane.ClickGapError](err)
			switch {
			case isGap:
				require.Greater(t, b.Seq, gap.Watermark+1)
				require.GreaterOrEqual(t, gap.Watermark, s.taken)
				s.taken = gap.Watermark
			case err != nil:
				require.Equal(t, "is cut off", fate, "%v", err)
			default:
				require.GreaterOrEqual(t, r.Watermark, max(b.Seq, s.taken))
				require.Equal(t, b != s.batches[b.Seq-1], r.DeadLetter)
				s.taken = r.Watermark
			}
		}

		for _, s := range senders {
			// Copies that were cut off may still be under way, and must do no harm.
			for s.taken < uint64(len(s.batches)) {
				r, err := send(context.Background(), s.batches[s.taken])
				require.NoError(t, err)
				require.False(t, r.DeadLetter)
				s.taken = r.Watermark
				b := s.batches[0]
				var seq uint64
				var counted int64
				require.NoError(t, hand.QueryRow(context.Background(), `
					SELECT seq, clicks + unknown FROM click_watermark WHERE node = $1 AND boot = $2`, b.Node, [16]byte(b.Boot)).Scan(&seq, &counted))
				require.GreaterOrEqual(t, seq, s.taken)
				require.Equal(t, s.size(seq), counted)
			}
		}
		// One at a time, and all of them at the end: what is counted twice, or not at all,
		// stays so.
		code := rapid.SampledFrom(codes[:3]).Draw(t, "code")
		id := expected[code].requireLink(t, db, hand, waypost.Code(code))
		expected[code].requireDays(t, db, []int64{id})
		whole.requireDays(t, db, nil)
	})
	// A roller that was cut off may hold its area for a moment more.
	require.Eventually(t, func() bool {
		fold(t, db)
		return number(t, hand, `SELECT count(*) FROM click_part`) == 0
	}, time.Minute, 10*time.Millisecond)
	for _, code := range codes[:3] {
		expected[code].requireDays(t, db, []int64{expected[code].requireLink(t, db, hand, waypost.Code(code))})
	}
	whole.requireDays(t, db, nil)
	require.Equal(t, expected["unknown"].clicks, number(t, hand, `SELECT sum(unknown)::bigint FROM click_watermark`))
}
