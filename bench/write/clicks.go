//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/bench"
	"waypost/bench/corpus"
)

const senders = 2 // edges that send batches at the same time

// clicks measures the rates at which batches of clicks are taken, and folded into
// counters.
func (l *lab) clicks(ctx context.Context) (_ bench.Section, err error) {
	links, clicks, batches := sized(l, 500_000, 2000), sized(l, 50_000, 500), sized(l, 2, 1)
	d, err := l.startDatabase(ctx, "clicks")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.fill(ctx, l, links); err != nil {
		return bench.Section{}, err
	}
	cases := []struct {
		name, what   string
		spread       int // links that are clicked
		taken, after figures
	}{
		{name: "one link", what: "all clicks of a batch on one link.", spread: 1},
		{name: "different links", what: "each click of a batch on another link.", spread: links},
	}
	rounds, total := min(l.o.Rounds, 3), senders*batches*clicks
	random := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		for i := range cases {
			c := &cases[i]
			var bodies [senders][][]byte
			for n := range bodies {
				b, drawn := newSender(random, n), random.Perm(c.spread)
				next := func() uint64 { // each link once before one comes again
					first := drawn[0]
					drawn = append(drawn[1:], first)
					return uint64(first)
				}
				for range batches {
					bodies[n] = append(bodies[n], nextBatch(b, random, clicks, next))
				}
			}
			err := d.timed(&c.taken, total, func() error {
				var group errgroup.Group
				for n := range bodies {
					group.Go(func() error { return d.ingest(ctx, bodies[n]...) })
				}
				return group.Wait()
			})
			if err == nil {
				err = d.timed(&c.after, total, func() error { return d.NewRoller(nil).Fold(ctx) })
			}
			if err != nil {
				return bench.Section{}, fmt.Errorf("%s: %w", c.name, err)
			}
			l.o.Logf("%s: %.2f µs for a click taken, %.2f folded", c.name, c.taken.wall[len(c.taken.wall)-1], c.after.wall[len(c.after.wall)-1])
		}
	}
	s := bench.Section{
		Title: "Counting clicks",
		Notes: []string{fmt.Sprintf("%d rounds of %d batches of %d clicks from each of %d edges; %d links; batches are decoded, checked and committed, then folded with nothing else at work", rounds, batches, clicks, senders, links)},
	}
	for _, c := range cases {
		s.Cases = append(s.Cases,
			bench.Case{Name: "taken, " + c.name, What: c.what, Measures: c.taken.measures("click")},
			bench.Case{Name: "folded, " + c.name, Measures: c.after.measures("click")})
		s.AddGoal("taken, "+c.name, "µs per click", 5)
	}
	return s, d.checkClicks(ctx, int64(rounds*len(cases)*total))
}

// ingest has batches counted, one after the other.
func (d *database) ingest(ctx context.Context, bodies ...[]byte) error {
	for _, body := range bodies {
		b, err := clickbatch.Decode(body)
		if err != nil {
			return err
		}
		if _, err := d.IngestClicks(ctx, &b, sha256.Sum256(body), body); err != nil {
			return err
		}
	}
	return nil
}

// checkClicks compares the counters with the number of clicks that were sent.
func (d *database) checkClicks(ctx context.Context, sent int64) error {
	var counted, days, all int64
	err := d.pool.QueryRow(ctx, `
		SELECT (SELECT sum(clicks) FROM link_click)::bigint, (SELECT sum(clicks) FROM click_day)::bigint,
		       (SELECT sum(clicks) FROM click_workspace_day)::bigint`).Scan(&counted, &days, &all)
	if err == nil && (sent != counted || sent != days || sent != all) {
		err = fmt.Errorf("%d clicks were sent, but %d are counted, %d in days of links and %d in days of the workspace", sent, counted, days, all)
	}
	return err
}

// profiles returns as many profiles as half a second brings to a busy edge.
func profiles() (all []waypost.ClickProfile) {
	for i := range 200 {
		all = append(all, waypost.ClickProfile{
			Country: []string{"DE", "FR", "US", "IN"}[i%4], City: []string{"", "Springfield", "Neustadt"}[i%3],
			Device:   []string{"mobile", "desktop"}[i%2],
			Browser:  []string{"Chrome", "Firefox", "Safari", "Edge", "Samsung Browser"}[i%5],
			OS:       []string{"Android", "Windows", "iOS"}[i%3],
			Referrer: fmt.Sprintf("www.host-%d.example", i), Bot: i%20 == 0,
		})
	}
	return all
}

// newSender returns the batches of one edge, without links.
func newSender(random *rand.Rand, node int) *waypost.ClickBatch {
	b := &waypost.ClickBatch{Node: fmt.Sprintf("edge-%d", node), Exact: true, Profiles: profiles()}
	for i := range b.Boot {
		b.Boot[i] = byte(random.Uint32())
	}
	return b
}

// nextBatch encodes the next batch of an edge: that many clicks of the last second, each
// of another visitor, on links that next draws.
func nextBatch(b *waypost.ClickBatch, random *rand.Rand, clicks int, next func() uint64) []byte {
	b.Seq++
	b.Links = b.Links[:0]
	drawn := make([]uint64, clicks)
	for i := range drawn {
		drawn[i] = next()
	}
	slices.Sort(drawn)
	now := time.Now().UnixMilli()
	for i, number := range drawn {
		if i == 0 || number != drawn[i-1] {
			b.Links = append(b.Links, waypost.LinkClicks{
				Domain: waypost.DefaultDomain, Code: waypost.Code(corpus.AppendCode(nil, number)), Last: now,
			})
		}
		one := &b.Links[len(b.Links)-1]
		profile := random.IntN(len(b.Profiles))
		at := now - random.Int64N(1000)
		one.Rows = append(one.Rows, waypost.ClickRow{At: at, Profile: uint32(profile), Count: 1})
		one.Visitors = append(one.Visitors, waypost.Visitor{
			Day: int32(at / 86_400_000), Bot: b.Profiles[profile].Bot, Hash: random.Uint64() & waypost.VisitorBits,
		})
	}
	for i := range b.Links {
		one := &b.Links[i]
		slices.SortFunc(one.Visitors, waypost.Visitor.Compare)
		one.Visitors = slices.Compact(one.Visitors)
	}
	return clickbatch.Append(nil, b)
}
