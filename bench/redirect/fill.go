//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/edge/replica"
	"waypost/replication"
)

// openReplica opens a replica with the settings of an edge.
func openReplica(dir string, meters prometheus.Registerer) (*replica.DB, error) {
	db, err := replica.Open(replica.Config{
		Dir:     dir,
		Metrics: meters,
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, fmt.Errorf("open the replica: %w", err)
	}
	return db, nil
}

// fill is a process that makes a replica, so that its memory ends with it.
func fill(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(partFill, flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the replica")
	file := flags.String("targets", "", "file of real links")
	links := flags.Int("links", 0, "number of links")
	byAddress := flags.Bool("addresses", false, "as many links of each kind of address")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	targets, err := corpus.ReadTargets(*file)
	if err != nil {
		return err
	}
	db, err := openReplica(*dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	count := *links
	record := func(n int) waypost.Record {
		return waypost.Record{
			Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: corpus.AppendCode(nil, uint64(n)),
			Payload: targets.Append(nil, uint64(n)),
		}
	}
	if *byAddress {
		all := addressRecords(targets, *links)
		count, record = len(all), func(n int) waypost.Record { return all[n] }
	}
	if err := restore(ctx, db, count, record); err != nil {
		return fmt.Errorf("fill the replica: %w", err)
	}
	return awaitCompaction(ctx, *dir)
}

// restore installs a snapshot of that number of records the way that an edge does.
func restore(ctx context.Context, db *replica.DB, count int, record func(n int) waypost.Record) (err error) {
	at := waypost.Position{Epoch: waypost.Epoch{Ordinal: 1, ID: waypost.EpochID{1}}, Seq: 1, Stamp: 1}
	r, err := db.Restore(ctx, replication.Cluster{1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Abort()) }() // nothing after Commit
	var digest uint64
	var records [][]byte
	bySlot := make([][]int, waypost.Slots)
	for n := range count {
		r := record(n)
		slot := waypost.Slot(r.Kind, r.Domain, r.Name)
		bySlot[slot] = append(bySlot[slot], n)
	}
	for slot, numbers := range bySlot {
		for _, n := range numbers {
			r := record(n)
			r.Revision, r.Stamp = waypost.Revision{Epoch: 1, Seq: 1}, (uint64(n)+1)*0x9e3779b97f4a7c15
			digest ^= r.Stamp
			records = append(records, replication.AppendRecord(nil, &r))
		}
		if slot+1 < len(bySlot) && len(records)+len(bySlot[slot+1]) <= waypost.MaxBulk {
			continue
		}
		progress := replication.Progress{Next: slot + 1, Lowest: at, Highest: at}
		if err := errors.Join(r.Slots(ctx, records), r.Keep(ctx, progress)); err != nil {
			return err
		}
		records = records[:0]
	}
	if err := r.BeginTail(ctx, at, at); err != nil {
		return err
	}
	return r.Commit(ctx, digest)
}

// awaitCompaction waits until compaction has ended, so that the files stay as they are.
func awaitCompaction(ctx context.Context, dir string) error {
	for before := int64(-1); ; time.Sleep(time.Second) {
		now, err := bench.DiskBytes(dir)
		if err = errors.Join(err, ctx.Err()); err != nil || now == before {
			return err
		}
		before = now
	}
}
