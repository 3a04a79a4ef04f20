package replica_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

func saltRecord(day int32, payload string) waypost.Record {
	return waypost.Record{Kind: waypost.KindSalt, Name: []byte(waypost.DayText(day)), Payload: []byte(payload)}
}

func TestDB_SaltSurvivesARestart(t *testing.T) {
	fs := vfs.NewMem()
	db, err := replica.Open(config(fs))
	require.NoError(t, err)
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code0000", "https://example.com/"))
	replicationtest.Take(t, s, db)
	require.Nil(t, db.Salt(20_000))
	var rs []waypost.Record
	for day := range int32(40) { // some slots hold leases before them
		rs = append(rs, saltRecord(20_000+day, fmt.Sprintf("%064x", day+1)),
			waypost.Record{Kind: waypost.KindLease, Name: []byte(waypost.DayText(20_000 + day)), Payload: []byte("{}")})
	}
	for i := range 3000 {
		rs = append(rs, waypost.Record{Kind: waypost.KindLease, Name: fmt.Append(nil, i), Payload: []byte("{}")})
	}
	s.Commit(rs...)
	apply(t, s, db)
	check := func(db *replica.DB, except ...int32) {
		t.Helper()
		for day := range int32(40) {
			salt := db.Salt(20_000 + day)
			if len(except) > 0 && except[0] == day {
				require.Nil(t, salt)
				continue
			}
			require.NotNil(t, salt, day)
			require.Equal(t, byte(day+1), salt[31])
		}
		require.Nil(t, db.Salt(20_040))
	}
	check(db)
	require.NoError(t, db.Close())
	db = open(t, config(fs))
	check(db)

	s.Commit(saltRecord(20_007, ""))
	apply(t, s, db)
	check(db, 7)
	gone := saltRecord(20_007, "")
	gone.State = waypost.Purged
	s.Commit(gone)
	apply(t, s, db)
	check(db, 7)
	replicationtest.Take(t, s, db) // a snapshot
	check(db, 7)
}

func TestDB_SaltIgnoresAndDoesNotLogBadRecords(t *testing.T) {
	var log bytes.Buffer
	cfg := config(vfs.NewMem())
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	db, s := filled(t, cfg, 1)
	good := strings.Repeat("ab", 32)
	s.Commit(saltRecord(1, good), saltRecord(2, good))
	apply(t, s, db)
	require.NotNil(t, db.Salt(1))
	s.Commit(saltRecord(1, good+"ab"), saltRecord(2, strings.Repeat("abcdefgh", 8)),
		waypost.Record{Kind: waypost.KindSalt, Name: []byte("tomorrow"), Payload: []byte(good)})
	apply(t, s, db)
	require.Nil(t, db.Salt(1))
	require.Nil(t, db.Salt(2))
	require.Equal(t, 3, strings.Count(log.String(), "cannot read the record of a visitor salt"), log.String())
	require.NotContains(t, log.String(), "abab")
	require.NotContains(t, log.String(), "abcd")
}

func TestDB_SaltAllocatesNothing(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 1)
	s.Commit(saltRecord(1, strings.Repeat("ab", 32)))
	apply(t, s, db)
	require.Zero(t, testing.AllocsPerRun(2000, func() { _ = db.Salt(1) }))
}
