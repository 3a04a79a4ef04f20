//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/bench/corpus"
)

const realLinks = "../../testdata/links.csv"

func TestFeed_ReplicaFollows(t *testing.T) {
	const links = 500
	f, err := newFeed(realLinks, links)
	require.NoError(t, err)
	db, err := openReplica(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, f.snapshot(t.Context(), db, f.ranges(f.bySlot())))

	leadsTo := func(n, version uint64) {
		t.Helper()
		rec, _, found, err := db.Link(waypost.DefaultDomain, corpus.AppendCode(nil, n), nil)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, string(f.location(nil, n, version)), string(rec.Payload))
	}
	for n := range uint64(links) {
		leadsTo(n, 0)
	}
	for range links / 20 {
		require.NoError(t, f.change(t.Context(), db, 20, time.Now()))
	}
	for n := range uint64(links) {
		leadsTo(n, 1)
	}
	require.NotEqual(t, f.location(nil, 3, 0), f.location(nil, 3, 1))

	again, err := newFeed(realLinks, links)
	require.NoError(t, err)
	again.resume(db)
	require.NoError(t, again.snapshot(t.Context(), db, again.ranges(again.bySlot())), "while it is open")
	require.NoError(t, again.change(t.Context(), db, 20, time.Now()), "and goes on from there")
}

func TestFeed_LinksComeSlotBySlotAndOnce(t *testing.T) {
	f, err := newFeed(realLinks, 20_000)
	require.NoError(t, err)
	order, seen, last := f.bySlot(), map[uint32]bool{}, uint16(0)
	require.Len(t, order, 20_000)
	for _, n := range order {
		slot := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, corpus.AppendCode(nil, uint64(n)))
		require.GreaterOrEqual(t, slot, last)
		require.False(t, seen[n])
		last, seen[n] = slot, true
	}
}
