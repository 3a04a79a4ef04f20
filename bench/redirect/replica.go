package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
)

// openReplica opens a replica with the settings that an edge has.
func openReplica(dir string) (*replica.DB, error) {
	db, err := replica.Open(replica.Config{
		Dir:    dir,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, fmt.Errorf("opening the replica: %w", err)
	}
	return db, nil
}

// fillReplica makes a replica of so many links, the way that an edge is
// bootstrapped from a snapshot.
func fillReplica(ctx context.Context, dir string, links int) (err error) {
	db, err := openReplica(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r, err := db.Restore(ctx, replication.Cluster{1})
	if err != nil {
		return fmt.Errorf("beginning the replica: %w", err)
	}
	defer func() { err = errors.Join(err, r.Abort()) }() // nothing after Commit

	at := waypost.Position{Epoch: waypost.Epoch{Ordinal: 1, ID: waypost.EpochID{1}}, Seq: 1, Stamp: 1}
	stamps := rand.New(rand.NewPCG(1, 2))
	var digest uint64
	for first := 0; first < links; first += waypost.MaxBulk {
		var records [][]byte
		for n := first; n < min(first+waypost.MaxBulk, links); n++ {
			code := appendCode(nil, uint64(n))
			stamp := stamps.Uint64()
			digest ^= stamp
			records = append(records, replication.AppendRecord(nil, &waypost.Record{
				Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: code,
				Revision: waypost.Revision{Epoch: at.Epoch.Ordinal, Seq: at.Seq}, Stamp: stamp,
				Payload: appendLocation(nil, code),
			}))
		}
		if err := r.Slots(ctx, records); err != nil {
			return fmt.Errorf("filling the replica: %w", err)
		}
	}
	if err := r.Begin(at, at); err != nil {
		return fmt.Errorf("filling the replica: %w", err)
	}
	if err := r.Commit(ctx, digest); err != nil {
		return fmt.Errorf("completing the replica: %w", err)
	}
	return nil
}
