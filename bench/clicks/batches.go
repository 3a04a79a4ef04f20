//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/bench/corpus"
)

// profiles are as many as half a second brings to a busy edge.
func profiles() (all []waypost.ClickProfile) {
	for i := range 200 {
		all = append(all, waypost.ClickProfile{
			Country: []string{"DE", "FR", "US", "IN"}[i%4], City: []string{"", "Springfield", "Neustadt"}[i%3], Device: []string{"mobile", "desktop"}[i%2],
			Browser: []string{"Chrome", "Firefox", "Safari", "Edge", "Samsung Browser"}[i%5], OS: []string{"Android", "Windows", "iOS"}[i%3],
			Referrer: fmt.Sprintf("www.host-%d.example", i), Bot: i%20 == 0,
		})
	}
	return all
}

// batches are the encoded batches of one edge for a round: clicks of the last second,
// each of a visitor of its own.
func (l *lab) batches(s section, sender int, boot waypost.BootID) (bodies [][]byte) {
	random := rand.New(rand.NewPCG(uint64(boot[0]), uint64(sender)))
	all := profiles()
	for seq := range l.o.Batches {
		b := &waypost.ClickBatch{Node: fmt.Sprintf("edge-%d", sender), Boot: boot, Seq: uint64(seq) + 1, Exact: true, Profiles: all}
		now := time.Now().UnixMilli()
		click := func(at int64) (waypost.ClickRow, waypost.Visitor) {
			p := random.IntN(len(all))
			return waypost.ClickRow{At: at, Profile: uint32(p), Count: 1},
				waypost.Visitor{Day: int32(at / 86_400_000), Bot: all[p].Bot, Hash: random.Uint64() & waypost.VisitorBits}
		}
		if s.hot {
			one := waypost.LinkClicks{Domain: waypost.DefaultDomain, Code: waypost.Code(corpus.AppendCode(nil, 0)), Last: now}
			for i := range l.o.Clicks {
				row, visitor := click(now - int64(i)*1_000/int64(l.o.Clicks))
				one.Rows, one.Visitors = append(one.Rows, row), append(one.Visitors, visitor)
			}
			slices.SortFunc(one.Visitors, waypost.Visitor.Compare)
			one.Visitors = slices.Compact(one.Visitors)
			b.Links = []waypost.LinkClicks{one}
		} else {
			for _, i := range random.Perm(l.o.Links)[:l.o.Clicks] {
				row, visitor := click(now - random.Int64N(1_000))
				b.Links = append(b.Links, waypost.LinkClicks{
					Domain: waypost.DefaultDomain, Code: waypost.Code(corpus.AppendCode(nil, uint64(i))), Last: row.At,
					Rows: []waypost.ClickRow{row}, Visitors: []waypost.Visitor{visitor},
				})
			}
		}
		bodies = append(bodies, clickbatch.Append(nil, b))
	}
	return bodies
}

// update is the plain way: counters of links whose ids are known.
func (l *lab) update(ctx context.Context, s section) (rate float64, err error) {
	const atOnce = 1_000
	groups := make([][][]int64, l.o.Senders)
	for n := range groups {
		for left := l.o.Batches * l.o.Clicks; left > 0; left -= atOnce {
			ids := []int64{1}
			if !s.hot {
				ids = ids[:0]
				seen := make(map[int64]bool)
				for len(ids) < min(atOnce, left) {
					if id := 1 + rand.Int64N(int64(l.o.Links)); !seen[id] {
						seen[id] = true
						ids = append(ids, id)
					}
				}
				slices.Sort(ids)
			}
			groups[n] = append(groups[n], ids)
		}
	}
	start := time.Now()
	err = together(l.o.Senders, func(n int) error {
		for _, ids := range groups[n] {
			counts := slices.Repeat([]int64{int64(atOnce / len(ids))}, len(ids))
			if _, err := l.pool.Exec(ctx, `
				UPDATE bench_counter c SET clicks = c.clicks + s.n, last_accessed_at = greatest(c.last_accessed_at, now())
				FROM unnest($1::bigint[], $2::bigint[]) AS s (id, n) WHERE c.link_id = s.id`, ids, counts); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(l.clicks()) / time.Since(start).Seconds(), err
}
