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
	"strconv"
	"time"
)

// fill is a process that makes a replica, and is gone with all its memory then.
func fill(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(partFill, flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the replica")
	targets := flags.String("targets", "", "file of real links")
	links := flags.Int("links", 0, "number of links")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	f, err := newFeed(*targets, *links)
	if err != nil {
		return err
	}
	db, err := openReplica(*dir, 0, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := f.snapshot(ctx, db, f.ranges(f.bySlot())); err != nil {
		return err
	}
	return settle(ctx, *dir)
}

// settle waits until compaction has ended: the files stay what they are.
func settle(ctx context.Context, dir string) error {
	const still = 4
	tick := time.NewTicker(500 * time.Millisecond)
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
		return 0, fmt.Errorf("adding up file sizes: %w", err)
	}
	return total, nil
}

// replica gives a directory with a replica of so many links, for one server. The
// first of a size is made, the others share its tables, which never change.
func (l *lab) replica(ctx context.Context, links int) (string, error) {
	master := filepath.Join(l.dir, "replica-"+strconv.Itoa(links))
	if !l.filled[links] {
		l.o.Log("making a replica of %d links", links)
		start := time.Now()
		err := l.runSelf(ctx, partFill, "-dir", master, "-targets", l.o.Targets, "-links", strconv.Itoa(links))
		if err != nil {
			return "", errors.Join(fmt.Errorf("making a replica: %w", err), os.RemoveAll(master))
		}
		l.filled[links] = true
		l.o.Log("made in %s", time.Since(start).Round(time.Second))
	}
	dir, err := os.MkdirTemp(l.dir, "clone-")
	if err != nil {
		return "", fmt.Errorf("making a directory for a replica: %w", err)
	}
	return dir, clone(master, dir)
}

// clone copies a replica that nobody has open. Its tables are linked.
func clone(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir():
			return os.Mkdir(target, 0o755)
		case filepath.Ext(name) == ".sst":
			return os.Link(path, target)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
	if err != nil {
		return fmt.Errorf("copying a replica: %w", err)
	}
	return nil
}
