//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"waypost/bench/corpus"
)

// startRedis starts Redis with the links, and a server that asks it.
func (l *lab) startRedis(ctx context.Context, r *rivalry) (_ *target, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "redis-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for Redis: %w", err)
	}
	socket := filepath.Join(dir, "s")
	var conn *redisConn
	store, err := external{
		name: path, args: []string{"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"}, grace: 20 * time.Second,
		ready: func(ctx context.Context) (err error) {
			conn, err = dialRedis(ctx, socket)
			return err
		},
	}.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.stop())
		}
	}()
	without, err := store.memory()
	if err != nil {
		return nil, err
	}
	if err := l.fillRedis(ctx, conn, r.links); err != nil {
		return nil, err
	}
	with, err := store.memory()
	if err != nil {
		return nil, err
	}
	r.notes = append(r.notes, fmt.Sprintf("Redis takes %d bytes of memory for a link.", (with-without)/int64(r.links)))
	t, err := l.startSelf(ctx, "-kind", kindRedis, "-redis", socket)
	if err != nil {
		return nil, err
	}
	t.pids = append(t.pids, store.pids...)
	ended := t.closed
	t.closed = func() error { return errors.Join(ended(), store.stop()) }
	return t, nil
}

func (l *lab) fillRedis(ctx context.Context, conn *redisConn, links int) (err error) {
	defer func() { err = errors.Join(err, conn.conn.Close()) }()
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return err
	}
	return conn.set(ctx, uint64(links), func(n uint64, key, value []byte) (k, v []byte) {
		return corpus.AppendCode(key, n), f.location(value, n, 0)
	})
}
