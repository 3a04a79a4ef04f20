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
