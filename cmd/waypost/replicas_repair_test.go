package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/replication"
)

// movable is the PostgreSQL that the control plane is pointed at.
type movable struct{ at atomic.Pointer[postgres.DB] }

func (m *movable) Head(ctx context.Context) (replication.Head, error) { return m.at.Load().Head(ctx) }

func (m *movable) Read(ctx context.Context, after waypost.Position, n int) (replication.Batch, error) {
	return m.at.Load().Read(ctx, after, n)
}

func (m *movable) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	return m.at.Load().Snapshot(ctx, first, last, visit)
}

func (m *movable) Sums(ctx context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	return m.at.Load().Sums(ctx, first, last)
}

func (m *movable) SnapshotWidth(ctx context.Context) (int, error) {
	return m.at.Load().SnapshotWidth(ctx)
}
func (m *movable) Changed() <-chan struct{} { return m.at.Load().Changed() }

const objectInUse = "55006" // of PostgreSQL's error codes

// backup copies the database as it is, and gives what opens the copy.
func (in *installation) backup(t *testing.T) (restore func() (*postgres.DB, *pgx.Conn)) {
	t.Helper()
	of := func(database string) string {
		u, err := url.Parse(in.url)
		require.NoError(t, err)
		u.Path = "/" + database
		return u.String()
	}
	operator := func(database string) *pgx.Conn {
		cfg, err := pgx.ParseConfig(of(database))
		require.NoError(t, err)
		cfg.User = "postgres"
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
		return conn
	}
	u, err := url.Parse(in.url)
	require.NoError(t, err)
	name := u.Path[1:]
	quoted, copied := pgx.Identifier{name}.Sanitize(), pgx.Identifier{name + "_copy"}.Sanitize()
	admin := operator("postgres")
	exec := func(sql string) {
		t.Helper()
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	exec(`ALTER DATABASE ` + quoted + ` ALLOW_CONNECTIONS false`)
	eventually(t, func() bool { // one that was just beginning may come after the others have ended
		exec(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '` + name + `'`)
		_, err := admin.Exec(t.Context(), `CREATE DATABASE `+copied+` TEMPLATE `+quoted)
		if used, ok := errors.AsType[*pgconn.PgError](err); ok && used.Code == objectInUse {
			return false
		}
		require.NoError(t, err)
		return true
	})
	exec(`ALTER DATABASE ` + quoted + ` ALLOW_CONNECTIONS true`)
	exec(`ALTER DATABASE ` + copied + ` ALLOW_CONNECTIONS true`)
	in.hand = operator(name) // all connections from before are ended
	for old := in.db; ; {    // of the pool, too, which finds out one by one
		var asking sync.WaitGroup
		var failed atomic.Bool
		for range 32 {
			asking.Go(func() {
				if _, err := old.Head(t.Context()); err != nil {
					failed.Store(true)
				}
			})
		}
		if asking.Wait(); !failed.Load() {
			break
		}
	}
	in.db, err = postgres.Open(t.Context(), postgres.Config{URL: in.url})
	require.NoError(t, err)
	t.Cleanup(in.db.Close)
	return func() (*postgres.DB, *pgx.Conn) {
		hand := operator(name + "_copy")
		_, err := hand.Exec(t.Context(), `SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, epoch, NULL, seq + 1, 0,
			jsonb_build_object('at', extract(epoch FROM clock_timestamp()), 'ranges', '[]'::jsonb), 1000, 0)`)
		require.NoError(t, err)
		db, err := postgres.Open(t.Context(), postgres.Config{URL: of(name + "_copy")})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		return db, hand
	}
}

func TestAfterAPointInTimeRestoreAnEdgeReplacesOnlyTheSlotsThatDiffer(t *testing.T) {
	var source movable
	in := install(t, func(db replication.Source) replication.Source {
		source.at.Store(db.(*postgres.DB))
		return &source
	})
	r, err := replica.Open(replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	f, err := replication.NewFollower(replication.FollowConfig{
		URL: in.api.URL, Sink: r, Node: "test", Region: "eu", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		SnapshotBackoffMin: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	running(t, f.Run)
	target := func(code string) string {
		var rec waypost.Record
		_, found, err := r.Link(waypost.DefaultDomain, []byte(code), nil, &rec)
		require.NoError(t, err)
		if !found || rec.State != waypost.Live {
			return ""
		}
		return string(rec.Payload)
	}
	for _, code := range []string{"steady", "changed", "brought-back"} {
		in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/" + code, "custom_code": code}, 201)
	}
	in.settle(t, r)
	restore := in.backup(t)
	source.at.Store(in.db)
	for _, sql := range []string{
		`INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'only-lost', 'https://lost.example/')`,
		`UPDATE link SET original_url = 'https://lost.example/1' WHERE code = 'changed'`,
		`UPDATE link SET original_url = 'https://lost.example/2' WHERE code = 'changed'`,
		`UPDATE link SET deleted_at = now() WHERE code = 'brought-back'`,
	} {
		_, err := in.hand.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	in.settle(t, r)
	require.Equal(t, "https://lost.example/2", target("changed"))
	require.Empty(t, target("brought-back"))
	require.NotEmpty(t, target("only-lost"))

	restored, hand := restore()
	_, err = hand.Exec(t.Context(), `UPDATE link SET original_url = 'https://example.com/now' WHERE code = 'steady'`)
	require.NoError(t, err)
	in.db = restored
	source.at.Store(restored)
	head, digest, want, got := in.settle(t, r)
	require.Equal(t, head.Digest, digest)
	require.Empty(t, difference(want, got))
	require.Equal(t, "https://example.com/changed", target("changed"), "newer in the history that is lost")
	require.Equal(t, "https://example.com/brought-back", target("brought-back"))
	require.Equal(t, "https://example.com/now", target("steady"))
	require.Empty(t, target("only-lost"))
	eventually(t, func() bool { return f.Status().Repairs == 1 })
	require.Equal(t, 1, f.Status().Snapshots, "the first")
	require.LessOrEqual(t, f.Status().Repaired, uint64(10), "four links, and what the minter did")
}
