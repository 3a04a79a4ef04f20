package lookup_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
)

// FuzzOperations compares a table with a map after any operations of its writer. Two
// bytes are one operation on one of 1,024 keys.
func FuzzOperations(f *testing.F) {
	f.Add(uint8(1), []byte("\x00\x01\x10\x01\x20\x01\x30\x01"))
	f.Add(uint8(4), []byte("put, remove and find in some order or other, all of it on a few keys, and again"))
	f.Add(uint8(2), []byte{0x40, 0, 0, 0, 0x50, 0, 0, 1, 0x60, 0, 0, 2, 0x70, 0})
	f.Fuzz(func(t *testing.T, megabytes uint8, ops []byte) {
		table, err := lookup.New(lookup.Config{Budget: lookup.NewBudget(int64(max(megabytes%4, 1)) << 20)})
		require.NoError(t, err)
		defer table.Close()
		store := map[string]waypost.Record{} // the replica
		for n := 0; n+1 < len(ops); n += 2 {
			key := fmt.Sprintf("key%d", int(ops[n]&3)<<8|int(ops[n+1]))
			r := waypost.Record{
				Kind: waypost.KindLink, Status: 301, Domain: waypost.DomainID(ops[n+1] & 1), Name: []byte(key),
				ExpiresAt: int64(n % 3), Payload: make([]byte, int(ops[n+1])*n%24_000),
			}
			held, holds := store[key]
			switch ops[n] >> 4 {
			case 0, 1, 2, 3, 4, 5:
				store[key] = r
				table.Put(&r, nil)
			case 6, 7:
				delete(store, key)
				table.Remove(r.Domain, []byte(key))
			case 8, 9, 10:
				if holds {
					table.Promote(&held, nil)
				}
			case 11:
				table.Reserve(int(ops[n+1]) * 100)
			case 12: // as a replica does when its table may hold more
				table.Resume(int64(ops[n+1]) << 10)
				all := true
				for _, r := range store {
					all = table.Load(&r, nil) && all
				}
				require.Equal(t, all, table.Finish())
			case 13:
				if table.NeedsFilter() && table.StartFilter(len(store)) {
					for _, r := range store {
						table.Note(r.Domain, r.Name)
					}
					table.FilterReady()
				}
			}
			check(t, table, store, r.Domain, key)
		}
		for key, r := range store {
			check(t, table, store, r.Domain, key)
		}
		st := table.Stats()
		require.LessOrEqual(t, st.Entries, int64(len(store)))
		require.Zero(t, st.Damaged)
		if st.Complete {
			require.EqualValues(t, len(store), st.Entries)
		}
	})
}

func check(t *testing.T, table *lookup.Table, store map[string]waypost.Record, domain waypost.DomainID, key string) {
	t.Helper()
	want, holds := store[key]
	var got waypost.Record
	_, _, a := table.Find(domain, []byte(key), nil, &got)
	lacks := table.Lacks(domain, []byte(key))
	require.False(t, lacks && holds, key)
	switch a {
	case lookup.Found:
		require.True(t, holds, key)
		require.Equal(t, want, got, key)
	case lookup.Absent:
		require.False(t, holds, key)
	case lookup.Unknown:
		require.False(t, table.IsComplete(), key)
		require.False(t, lacks, key)
	}
}
