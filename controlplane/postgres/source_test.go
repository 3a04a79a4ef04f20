package postgres_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// changelog lets the suite for every replication source write to PostgreSQL.
type changelog struct {
	*postgres.DB
	hand *pgx.Conn
}

func TestPostgreSQLIsASource(t *testing.T) {
	replicationtest.TestSource(t, func(t *testing.T) replicationtest.Changelog {
		db, hand := open(t)
		return &changelog{db, hand}
	})
}

func (c *changelog) Put(t testing.TB, codes ...string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), c.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT changelog_begin()`); err != nil {
			return err
		}
		for i, code := range codes {
			_, err := tx.Exec(t.Context(), `
				INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://example.com/' || $2)
				ON CONFLICT (domain_id, code) DO UPDATE SET original_url = excluded.original_url || '?again'`, code, strconv.Itoa(i))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func (c *changelog) Delete(t testing.TB, code string) {
	t.Helper()
	_, err := c.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() WHERE code = $1`, code)
	require.NoError(t, err)
}

func (c *changelog) Forget(t testing.TB) {
	t.Helper()
	trim(t, c.hand, `seq < (SELECT seq FROM changelog_head)`)
}

func (c *changelog) Fork(t testing.TB) {
	t.Helper()
	_, err := c.hand.Exec(context.WithoutCancel(t.Context()), openEpoch)
	require.NoError(t, err)
}

func TestARecordIsReadWithTheHeadAtWhichItWasSo(t *testing.T) {
	db, hand := open(t)
	c := &changelog{db, hand}
	c.Put(t, "abcd123")
	head, err := db.Head(t.Context())
	require.NoError(t, err)

	raw, at, err := db.RecordAt(t.Context(), waypost.DefaultDomain, []byte("abcd123"))
	require.NoError(t, err)
	require.Equal(t, head.Position, at.Position)
	require.Equal(t, head.Cluster, at.Cluster)
	want := map[string][]byte{}
	_, err = db.Snapshot(t.Context(), 0, waypost.Slots-1, func(record []byte) error {
		var r waypost.Record
		err := replication.DecodeRecord(record, &r)
		want[string(r.Name)] = bytes.Clone(record)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, want["abcd123"], raw, "the bytes are those of the snapshot")

	for name, ask := range map[string]struct {
		domain waypost.DomainID
		code   string
	}{"another code": {waypost.DefaultDomain, "abcd124"}, "another domain": {waypost.DefaultDomain + 1, "abcd123"}} {
		raw, at, err = db.RecordAt(t.Context(), ask.domain, []byte(ask.code))
		require.NoError(t, err)
		require.Nil(t, raw, name)
		require.Equal(t, head.Position, at.Position)
	}

	c.Delete(t, "abcd123")
	raw, at, err = db.RecordAt(t.Context(), waypost.DefaultDomain, []byte("abcd123"))
	require.NoError(t, err)
	var r waypost.Record
	require.NoError(t, replication.DecodeRecord(raw, &r))
	require.Equal(t, waypost.Deleted, r.State)
	require.Equal(t, head.Position.Seq+1, at.Position.Seq)
}
