//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/controlplane/postgres"
)

const senders = 2 // edges that send batches at the same time

// clicks measures how fast batches of clicks are taken, and then folded into counters.
func (l *lab) clicks(ctx context.Context) (_ bench.Section, err error) {
	links, clicks, batches := sized(l, 500_000, 2000), sized(l, 50_000, 500), sized(l, 2, 1)
	d, err := l.startDatabase(ctx, "clicks")
	if err != nil {
		return bench.Section{}, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := l.fill(ctx, d, links); err != nil {
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
	boot, rounds, total := byte(0), min(l.o.Rounds, 3), senders*batches*clicks
	for range rounds {
		for i := range cases {
			c := &cases[i]
			var bodies [senders][][]byte
			for n := range bodies {
				boot++
				bodies[n] = makeBatches(n, waypost.BootID{boot, byte(n)}, batches, clicks, c.spread)
			}
			err := d.timed(&c.taken, total, func() error {
				var errs [senders]error
				var wg sync.WaitGroup
				for n := range bodies {
					wg.Go(func() { errs[n] = d.ingest(ctx, bodies[n]) })
				}
				wg.Wait()
				return errors.Join(errs[:]...)
			})
			if err == nil {
				err = d.timed(&c.after, total, func() error { return d.NewRoller(postgres.RollerConfig{}).Fold(ctx) })
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
func (d *database) ingest(ctx context.Context, bodies [][]byte) error {
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

// makeBatches encodes batches of one edge: clicks of the last second, each of another
// visitor, on that number of links.
func makeBatches(sender int, boot waypost.BootID, batches, clicks, spread int) (bodies [][]byte) {
	random := rand.New(rand.NewPCG(uint64(boot[0]), uint64(sender)))
	all := profiles()
	for seq := range batches {
		b := &waypost.ClickBatch{Node: fmt.Sprintf("edge-%d", sender), Boot: boot, Seq: uint64(seq) + 1, Exact: true, Profiles: all}
		now := time.Now().UnixMilli()
		numbers := random.Perm(spread)
		numbers = numbers[:min(spread, clicks)]
		for _, number := range numbers {
			one := waypost.LinkClicks{Domain: waypost.DefaultDomain, Code: waypost.Code(corpus.AppendCode(nil, uint64(number))), Last: now}
			each := clicks / len(numbers)
			for i := range each {
				p, at := random.IntN(len(all)), now-int64(i)*1000/int64(each)
				one.Rows = append(one.Rows, waypost.ClickRow{At: at, Profile: uint32(p), Count: 1})
				one.Visitors = append(one.Visitors, waypost.Visitor{
					Day: int32(at / 86_400_000), Bot: all[p].Bot, Hash: random.Uint64() & waypost.VisitorBits,
				})
			}
			slices.SortFunc(one.Visitors, waypost.Visitor.Compare)
			one.Visitors = slices.Compact(one.Visitors)
			b.Links = append(b.Links, one)
		}
		bodies = append(bodies, clickbatch.Append(nil, b))
	}
	return bodies
}
