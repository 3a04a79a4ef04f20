//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"waypost/bench"
)

const (
	theTail  = "tail, 1,000 links in a transaction"
	tailOnes = "tail, 10 links in a transaction"
)

// measureTail lets a replica catch up with many transactions.
func (l *lab) measureTail(ctx context.Context) (bench.Section, error) {
	thousands := &timed{name: theTail, what: "new links as an import makes them, from the first frame until all are applied and every digest was checked.", base: plainBatches}
	tens := &timed{name: tailOnes, what: "the same, as creates that were committed together.", base: plainBatches}
	batches := &timed{name: plainBatches, what: "the same records, 1,000 in a batch, into an empty Pebble store with its defaults, flushed at the end.", base: plainBatches}
	for range l.o.Rounds {
		for _, c := range []struct {
			t    *timed
			each int
		}{{thousands, 1000}, {tens, 10}} {
			log := l.changes(l.o.Changes/1000*1000, c.each)
			if err := l.tailRound(ctx, c.t, log); err != nil {
				return bench.Section{}, err
			}
			if c.t != tens {
				continue
			}
			var records [][]byte
			for i := range log.log {
				records = append(records, log.log[i].Records...)
			}
			if err := batches.round(os.Getpid(), len(records), func() error { return l.plainBatches(records) }); err != nil {
				return bench.Section{}, err
			}
		}
		n := len(batches.wall) - 1
		l.o.Log("round %d of %d: %.2f µs, %.2f µs, batches %.2f µs", n+1, l.o.Rounds, thousands.wall[n], tens.wall[n], batches.wall[n])
	}
	return bench.Section{
		Title:    fmt.Sprintf("A tail of %d changes", l.o.Changes/1000*1000),
		Settings: []bench.Setting{{Name: "links", Value: "targets of 90 bytes on average"}, {Name: "rounds", Value: fmt.Sprint(l.o.Rounds)}},
		Cases:    []bench.Case{batches.report(), thousands.report(), tens.report()},
	}, nil
}

func (l *lab) tailRound(ctx context.Context, t *timed, log *logged) (err error) {
	// First an empty replica at the log's beginning.
	begin := *log
	begin.head.Position, begin.head.Digest, begin.log = log.first, 0, nil
	url, stop, err := serve(ctx, begin.still)
	if err != nil {
		return err
	}
	f, err := l.follow(ctx, url)
	if err != nil {
		return errors.Join(err, stop())
	}
	defer func() { err = errors.Join(err, f.remove()) }()
	err = f.await(ctx, log.first)
	f.leave()
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if url, stop, err = serve(ctx, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return t.round(os.Getpid(), l.o.Changes/1000*1000, func() error {
		f.refollow(ctx, url)
		defer f.leave()
		return f.await(ctx, log.head.Position)
	})
}
