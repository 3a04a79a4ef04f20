package replica_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/internal/codes"
	"waypost/internal/patterns"
	"waypost/replication/replicationtest"
)

func patternRecord(code string, state waypost.State) waypost.Record {
	r := replicationtest.Link(code, "https://example.com/{x}")
	r.Kind, r.Domain, r.State = waypost.KindPattern, 7, state
	return r
}

// fitting returns the pattern of a path, once its record was found.
func fitting(t *testing.T, db *replica.DB, path string) string {
	t.Helper()
	var m patterns.Match
	v := waypost.ParseVisit([]byte(path))
	if !m.Find(db.Patterns(7), &v, codes.AppendSegment) {
		return ""
	}
	m.Lead(&v)
	var r waypost.Record
	_, found, err := db.Link(7, v.Code, nil, &r)
	require.NoError(t, err)
	require.True(t, found && r.Kind == waypost.KindPattern && r.Domain == 7)
	require.Equal(t, "https://example.com/{x}", string(r.Payload))
	return string(r.Name)
}

func TestDB_PatternsSurviveARestartAndASnapshot(t *testing.T) {
	for name, lookupBytes := range map[string]int64{"with a lookup table": 0, "from the disk": -1} {
		t.Run(name, func(t *testing.T) {
			cfg := config(vfs.NewMem())
			cfg.LookupBytes = lookupBytes
			db, err := replica.Open(cfg)
			require.NoError(t, err)
			s := replicationtest.NewSource()
			s.Commit(replicationtest.Link("code0000", "https://example.com/"))
			replicationtest.Take(t, s, db)
			require.Nil(t, db.Patterns(7))
			rs := []waypost.Record{patternRecord("docs/*", waypost.Live), patternRecord("{x}/y", waypost.Disabled), patternRecord("old/*", waypost.Deleted)}
			for i := range 200 { // some slots hold other records before them
				rs = append(rs, patternRecord(fmt.Sprintf("p%d/{x}", i), waypost.Live), replicationtest.Link(fmt.Sprint(i), "https://example.com/"),
					waypost.Record{Kind: waypost.KindLease, Name: fmt.Append(nil, i), Payload: []byte("{}")}, saltRecord(int32(i), ""))
			}
			s.Commit(rs...)
			apply(t, s, db)
			check := func(docs string) {
				t.Helper()
				require.Equal(t, docs, fitting(t, db, "/docs/a"))
				require.Equal(t, "{x}/y", fitting(t, db, "/z/y"))
				require.Equal(t, "p77/{x}", fitting(t, db, "/p77/a"))
				require.Empty(t, fitting(t, db, "/old/a"))
				require.Nil(t, db.Patterns(waypost.DefaultDomain))
			}
			check("docs/*")
			require.Equal(t, 202, db.Patterns(7).Len())
			require.NoError(t, db.Close())
			db = open(t, cfg)
			check("docs/*")
			s.Commit(patternRecord("docs/*", waypost.Deleted))
			apply(t, s, db)
			check("")
			s.Commit(patternRecord("docs/*", waypost.Live))
			apply(t, s, db)
			check("docs/*")
			s.Commit(patternRecord("docs/*", waypost.Purged))
			apply(t, s, db)
			check("")
			replicationtest.Take(t, s, db) // a snapshot
			check("")
			require.Equal(t, 201, db.Patterns(7).Len())
		})
	}
}

func TestRepair_ReplacesTheSlotsOfPatterns(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 3000)
	f.Commit(patternRecord("docs/*", waypost.Live), patternRecord("{x}/y", waypost.Live))
	f.follow(t)
	f.settle(t)
	store := f.db.LiveStore()
	restore := f.Backup()
	other := patternRecord("{x}/y", waypost.Live)
	other.Payload = []byte("https://lost.example/")
	f.Commit(patternRecord("docs/*", waypost.Purged), patternRecord("onlylost/*", waypost.Live), other)
	f.settle(t)
	require.Empty(t, fitting(t, f.db, "/docs/a"))
	restore()
	f.Commit(replicationtest.Link("newone", "https://new.example/"))
	f.settle(t)
	require.Equal(t, store, f.db.LiveStore(), "no snapshot was taken")
	require.LessOrEqual(t, f.follower.Status().Repaired, uint64(4), "slots")
	require.Equal(t, "docs/*", fitting(t, f.db, "/docs/a"))
	require.Equal(t, "{x}/y", fitting(t, f.db, "/z/y"))
	require.Empty(t, fitting(t, f.db, "/onlylost/a"))
	require.Equal(t, 2, f.db.Patterns(7).Len())
}
