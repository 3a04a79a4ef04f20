//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// fill is a process that makes a replica; its memory ends with it.
func fill(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(partFill, flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the replica")
	targets := flags.String("targets", "", "file of real links")
	links := flags.Int("links", 0, "number of links")
	kind := flags.String("rules", "", "two or sixteen: the rules that each link has")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	f, err := newFeed(*targets, *links)
	if err != nil {
		return err
	}
	if f.programme, err = programmeOf(*kind); err != nil {
		return err
	}
	db, err := openReplica(*dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := f.snapshot(ctx, db, f.ranges(f.bySlot())); err != nil {
		return err
	}
	return settle(ctx, *dir)
}

// settle waits until compaction has ended, so that the files do not change any more.
func settle(ctx context.Context, dir string) error {
	const still = 5
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	before, same := int64(-1), 0
	for end := time.Now().Add(3 * time.Minute); same < still && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, err := diskBytes(dir)
		if err != nil {
			return err
		}
		if now == before {
			same++
		} else {
			before, same = now, 0
		}
	}
	return nil
}

// diskBytes adds up the sizes of the files below a directory.
func diskBytes(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // a compaction has taken it away
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("add up file sizes: %w", err)
	}
	return total, nil
}
