package replica_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

func keyRange(id, payload string) waypost.Record {
	return waypost.Record{Kind: waypost.KindRange, Name: []byte(id), Payload: []byte(payload)}
}

func TestCodesCanHaveBeenIssuedOnlyOfPrefixesThatARangeHas(t *testing.T) {
	cfg := onDisk(filepath.Join(t.TempDir(), "replica"))
	s := replicationtest.NewSource()
	s.Commit(
		keyRange("1", `{"id": 1, "prefix": 17, "lo": 0, "hi": 100, "next": 50, "region": "us-east-1", "state": "live", "added_later": [1]}`),
		keyRange("2", `{"prefix": 3843, "lo": 0, "hi": 100, "next": 0, "state": "live"}`),
		keyRange("3", `{"prefix": 200, "lo": 10, "hi": 100, "next": 10, "state": "retired"}`),
		keyRange("4", `{"prefix": 201, "lo": 10, "hi": 100, "next": 11, "state": "retired"}`),
	)
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	require.True(t, db.Issuable(5), "nothing is known yet")
	replicationtest.Take(t, s, db)
	check := func(db *replica.DB, issuable, never []int) {
		t.Helper()
		for _, prefix := range issuable {
			require.True(t, db.Issuable(prefix), "%d", prefix)
		}
		for _, prefix := range never {
			require.False(t, db.Issuable(prefix), "%d", prefix)
		}
	}
	check(db, []int{17, 3843, 201}, []int{0, 16, 18, 200, 238_327})

	s.Commit(keyRange("5", `{"prefix": 18, "lo": 0, "hi": 100, "next": 0, "state": "live"}`))
	apply(t, s, db)
	check(db, []int{17, 18, 3843, 201}, []int{0, 16, 200})
	require.NoError(t, db.Close())

	again := open(t, cfg) // from its disk alone
	check(again, []int{17, 18, 3843, 201}, []int{0, 16, 200})
	check(again, []int{-1, 238_328}, nil)

	for _, odd := range []string{`{"prefix": "a"}`, `{}`, `[]`, ``, `{"prefix": 999999999}`, `{"prefix": -1}`} {
		s.Commit(keyRange("6", odd))
		apply(t, s, again)
		check(again, []int{0, 16, 17, 200}, nil) // nobody can say
		s.Commit(keyRange("6", `{"prefix": 19, "lo": 0, "next": 0, "state": "live"}`))
		apply(t, s, again)
		check(again, []int{19}, []int{0, 16, 200})
	}
}

func TestCodesCanHaveBeenIssuedOnlyOfCountersThatAreLeasedOrOfTheNextLease(t *testing.T) {
	cfg := onDisk(filepath.Join(t.TempDir(), "replica"))
	s := replicationtest.NewSource()
	s.Commit(
		keyRange("1", `{"prefix": 17, "lo": 1000, "hi": 900000, "next": 51000, "state": "live"}`),
		keyRange("2", `{"prefix": 17, "lo": 900000, "hi": 916000000, "next": 900000, "state": "live"}`),
		keyRange("3", `{"prefix": 18, "lo": 10, "hi": 100, "next": 60, "state": "live"}`),
		keyRange("4", `{"prefix": 19, "lo": 10, "hi": 1000000, "next": 60, "state": "retired"}`),
		keyRange("5", `{"prefix": 20, "lo": 10, "state": "live"}`), // of a later version
	)
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	require.True(t, db.Issued(5, 7), "nothing is known yet")
	replicationtest.Take(t, s, db)
	check := func(db *replica.DB, prefix int, issued, never []int64) {
		t.Helper()
		for _, n := range issued {
			require.True(t, db.Issued(prefix, n), "%d", n)
		}
		for _, n := range never {
			require.False(t, db.Issued(prefix, n), "%d", n)
		}
	}
	check(db, 17, []int64{1000, 50_999, 51_000, 70_999, 900_000, 919_999}, []int64{0, 999, 71_000, 899_999, 920_000})
	check(db, 18, []int64{10, 59, 60, 99}, []int64{9, 100, 1000})
	check(db, 19, []int64{10, 59}, []int64{9, 60, 999_999})
	check(db, 20, []int64{0, 1 << 40}, nil)
	check(db, 5, nil, []int64{0, 7})

	// Leases grow.
	s.Commit(keyRange("2", `{"prefix": 17, "lo": 900000, "hi": 916000000, "next": 1000000, "state": "live"}`))
	apply(t, s, db)
	check(db, 17, []int64{51_000, 999_999, 1_000_000, 1_199_999}, []int64{71_000, 1_200_000})
	s.Commit(keyRange("2", `{"prefix": 17, "lo": 900000, "hi": 916000000, "next": 500000000, "state": "live"}`)) // a gap after a restore
	apply(t, s, db)
	check(db, 17, []int64{501_999_999}, []int64{502_000_000})
	require.NoError(t, db.Close())

	again := open(t, cfg) // from its disk alone
	check(again, 17, []int64{500_019_999}, []int64{500_020_000})
	check(again, 18, []int64{99}, []int64{100})
	s.Commit(keyRange("6", `[]`))
	apply(t, s, again)
	check(again, 5, []int64{7}, nil) // nobody can say
}
