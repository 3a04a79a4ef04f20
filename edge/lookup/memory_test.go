package lookup_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
)

func TestTable_KeepsMemoryThatAReaderUses(t *testing.T) {
	table := table(t, 4<<20)
	const n = 5000
	for i := range n {
		table.Put(link(code(i), location(i, 0)), nil)
	}
	var seen, was [][]byte
	var leave []func()
	for i := 0; i < n; i += 100 {
		raw, left := table.Look(waypost.DefaultDomain, []byte(code(i)))
		seen, was, leave = append(seen, raw), append(was, bytes.Clone(raw)), append(leave, left)
	}
	for version := range 20 { // several times the budget
		for i := range n {
			table.Put(link(code(i), location(i, 1+version)), nil)
			if version < 5 {
				table.Put(link(code(n+i*5+version), location(i, version)), nil) // the shards grow
			}
		}
	}
	for i := range seen {
		require.True(t, bytes.Equal(was[i], seen[i]), "the memory of a reader was overwritten")
	}
	require.False(t, table.Finish(), "the rest of the memory did not suffice")
	for _, left := range leave {
		left()
	}
	for i := range n {
		table.Promote(link(code(i), location(i, 20)), nil)
		got, a := find(t, table, code(i))
		require.Equal(t, lookup.Found, a, "memory is free again")
		require.Equal(t, location(i, 20), got)
	}
}

func TestTable_LeavesDamagedRecordsToTheStore(t *testing.T) {
	for name, damage := range map[string]func(*lookup.Table, []byte){
		"in the payload":  func(table *lookup.Table, code []byte) { table.Damage(1, code) },
		"in the name":     func(table *lookup.Table, code []byte) { table.DamageName(1, code) },
		"in their length": func(table *lookup.Table, code []byte) { table.DamageLength(1, code) },
	} {
		t.Run(name, func(t *testing.T) {
			table := table(t, 8<<20)
			const n = 10_000
			for i := range n {
				table.Put(link(code(i), location(i, 0)), nil)
			}
			require.True(t, table.Finish())
			damage(table, []byte(code(5)))
			_, a := find(t, table, code(5))
			require.Equal(t, lookup.Unknown, a)
			require.NotZero(t, table.Stats().Damaged)
			for version := range 6 { // moves all records, and makes the shards grow
				for i := range n {
					if i != 5 {
						table.Put(link(code(i), location(i, version)), nil)
						table.Load(link(code(n+i+n*version%3), location(i, version)), nil)
					}
				}
				_, a = find(t, table, code(5))
				require.Equal(t, lookup.Unknown, a)
			}
			for i := range n {
				if i != 5 {
					if got, a := find(t, table, code(i)); a == lookup.Found {
						same(t, location(i, 5), got)
					} else if a != lookup.Unknown {
						t.Fatalf("%s: answer %d", code(i), a)
					}
				}
			}
		})
	}
}

func TestTable_LeavesNothingToTheGarbageCollector(t *testing.T) {
	const links = 200_000
	held := func() (objects, bytes int64) {
		runtime.GC()
		runtime.GC() // frees the memory of finalizers and pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapObjects), int64(m.HeapAlloc)
	}
	table := table(t, 256<<20)
	objects, bytes := held()
	for i := range links {
		table.Put(link(code(i), location(i, 0)), nil)
	}
	moreObjects, moreBytes := held()
	require.EqualValues(t, links, table.Stats().Entries)
	require.Less(t, moreObjects-objects, int64(links/100))
	require.Less(t, moreBytes-bytes, int64(links), "in bytes: records lie outside of the heap")
}
