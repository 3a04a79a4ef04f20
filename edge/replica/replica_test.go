package replica_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/internal/leaktest"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func config(fs vfs.FS) replica.Config {
	return replica.Config{
		Dir: "/replica", FS: fs, CacheBytes: 1 << 20,
		DeletionGuard: replica.DeletionGuard{Share: -1}, Logger: slog.New(slog.DiscardHandler),
	}
}

// open opens a replica that is closed when the test ends.
func open(t *testing.T, cfg replica.Config) *replica.DB {
	t.Helper()
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// requireDigest compares the stored digest with that of the rows.
func requireDigest(t *testing.T, db *replica.DB) {
	t.Helper()
	digest, _, err := db.Recompute(context.WithoutCancel(t.Context())) // also in a cleanup
	require.NoError(t, err)
	require.Equal(t, digest, db.Digest())
}

// filled returns a replica that holds n links, from code0000 on.
func filled(t *testing.T, cfg replica.Config, n int) (*replica.DB, *replicationtest.Source) {
	t.Helper()
	s := replicationtest.NewSource()
	var rs []waypost.Record
	for i := range n {
		rs = append(rs, replicationtest.Link(fmt.Sprintf("code%04d", i), fmt.Sprintf("https://example.com/%d", i)))
	}
	s.Commit(rs...)
	db := open(t, cfg)
	replicationtest.Take(t, s, db)
	return db, s
}

func apply(t testing.TB, s *replicationtest.Source, db *replica.DB) {
	t.Helper()
	b := replicationtest.Next(t, s, db)
	require.NoError(t, db.Apply(t.Context(), &b))
}

func find(t *testing.T, db *replica.DB, code string) (string, bool) {
	t.Helper()
	var rec waypost.Record
	_, found, err := db.Link(waypost.DefaultDomain, []byte(code), nil, &rec)
	require.NoError(t, err)
	return string(rec.Payload), found
}

func TestDB_LinkFindsByDomainAndCode(t *testing.T) {
	db, _ := filled(t, replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, 1000)
	require.NoError(t, db.Flush())
	location, found := find(t, db, "code0123")
	require.True(t, found)
	require.Equal(t, "https://example.com/123", location)
	for _, absent := range []string{"code", "code9999", "", "code0123\x00", string(make([]byte, 100))} {
		_, found = find(t, db, absent)
		require.False(t, found)
	}
	_, found, err := db.Link(2, []byte("code0123"), nil, new(waypost.Record))
	require.NoError(t, err)
	require.False(t, found, "another domain's")
}

func TestDB_LinkCopiesToTheCallersBuffer(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 10)
	var rec waypost.Record
	buf, found, err := db.Link(waypost.DefaultDomain, []byte("code0001"), []byte("kept"), &rec)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "kept", string(buf[:4]))
	s.Commit(replicationtest.Link("code0001", "https://changed.example/"))
	apply(t, s, db)
	replicationtest.Take(t, s, db) // the store it was read from is gone
	require.Equal(t, "https://example.com/1", string(rec.Payload))
	location, _ := find(t, db, "code0001")
	require.Equal(t, "https://changed.example/", location)
}

func TestDB_NeverServesADamagedRecord(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.LookupBytes = -1 // which would answer from memory
	db, s := filled(t, cfg, 10)
	good := replicationtest.Link("code0002", "https://elsewhere.example/")
	for name, raw := range map[string][]byte{
		"rotten":         append(replication.AppendRecord(nil, &good)[:60], "xxxxxxxxxxxxxxxxxxxxxxxxxx"...),
		"another link's": replication.AppendRecord(nil, &good),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, db.Overwrite("code0001", raw))
			_, found, err := db.Link(waypost.DefaultDomain, []byte("code0001"), nil, new(waypost.Record))
			require.Error(t, err)
			require.False(t, found)
			require.Error(t, db.Degraded())
			location, found := find(t, db, "code0003")
			require.True(t, found, "the others are served")
			require.Equal(t, "https://example.com/3", location)

			head, err := s.Head(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, db.Heartbeat(head), replication.ErrDiverged)
			s.Commit()
			b := replicationtest.Next(t, s, db)
			require.ErrorIs(t, db.Apply(t.Context(), &b), replication.ErrDiverged)
			replicationtest.Take(t, s, db)
			require.NoError(t, db.Degraded())
			location, _ = find(t, db, "code0001")
			require.Equal(t, "https://example.com/1", location)
		})
	}
}

func TestDB_ApplyNoticesADamagedRecord(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 10)
	require.NoError(t, db.Overwrite("code0001", []byte("rubbish")))
	s.Commit(replicationtest.Link("code0001", "https://changed.example/"))
	b := replicationtest.Next(t, s, db)
	require.ErrorIs(t, db.Apply(t.Context(), &b), replication.ErrDiverged)
}

func TestDB_HoldsPoisonAndDoesNotServeIt(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 10)
	s.Commit(replicationtest.Link("evil", "https://a.example/\r\nX: y"))
	apply(t, s, db)
	_, found, err := db.Link(waypost.DefaultDomain, []byte("evil"), nil, new(waypost.Record))
	require.ErrorIs(t, err, replication.ErrContent)
	require.False(t, found)
	require.NoError(t, db.Degraded(), "the disk is not to blame")
	s.Commit(replicationtest.Link("evil", "https://good.example/"))
	apply(t, s, db)
	_, found = find(t, db, "evil")
	require.True(t, found)
}

func domain(id, host string) waypost.Record {
	return waypost.Record{Kind: waypost.KindDomain, Name: []byte(id), Payload: []byte(`{"host":"` + host + `"}`)}
}

func TestDB_DomainFindsByHost(t *testing.T) {
	fs := vfs.NewMem()
	cfg := config(fs)
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	_, _, found := db.Domain([]byte("go.example.com"))
	require.False(t, found)
	s := replicationtest.NewSource()
	var links []waypost.Record
	for i := range 500 { // in all slots, next to the domains
		links = append(links, replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/"))
		other := replicationtest.Link(fmt.Sprintf("%d", i), "{}")
		other.Kind = waypost.KindRange
		links = append(links, other)
	}
	s.Commit(append(links, domain("1", "Go.Example.com:8080"), domain("7", "seven.example"), domain("x", "no.example"),
		domain("8", ""), waypost.Record{Kind: waypost.KindDomain, Name: []byte("9"), Payload: []byte("{")},
		domain("12", "seven.example"), domain("4294967296", "too.example"))...)
	replicationtest.Take(t, s, db)
	check := func(want map[string]waypost.DomainID) {
		t.Helper()
		for _, host := range []string{"go.example.com", "seven.example", "no.example", "too.example", "new.example", ""} {
			id, _, found := db.Domain([]byte(host))
			require.Equal(t, cmp.Or(want[host], waypost.DefaultDomain), id, host)
			require.Equal(t, want[host] != 0, found, host)
		}
	}
	check(map[string]waypost.DomainID{"go.example.com": 1, "seven.example": 7})
	gone := domain("7", "seven.example")
	gone.State = waypost.Deleted
	s.Commit(domain("1", "new.example"), gone)
	apply(t, s, db)
	check(map[string]waypost.DomainID{"new.example": 1, "seven.example": 12})
	host := []byte("new.example")
	require.Zero(t, testing.AllocsPerRun(2000, func() { db.Domain(host) }))
	s.Commit(replicationtest.Purge("code1"), func() waypost.Record { d := domain("12", ""); d.State = waypost.Purged; return d }())
	apply(t, s, db)
	check(map[string]waypost.DomainID{"new.example": 1})

	require.NoError(t, db.Close())
	db = open(t, cfg)
	check(map[string]waypost.DomainID{"new.example": 1})
}

func TestDB_TargetsFollowTheNewestRecord(t *testing.T) {
	cfg := config(vfs.NewMem())
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	require.Empty(t, db.Targets(1), "nothing is held")
	s := replicationtest.NewSource()
	record := func(payload string) waypost.Record {
		return waypost.Record{Kind: waypost.KindDomain, Name: []byte("7"), Payload: []byte(payload)}
	}
	s.Commit(domain("1", "go.example.com"), record(`{"host":"seven.example","root_url":"https://example.com/","not_found_url":"https://example.com/lost"}`))
	replicationtest.Take(t, s, db)
	require.Empty(t, db.Targets(1))
	require.Empty(t, db.Targets(99))
	targets := waypost.DomainTargets{Root: []byte("https://example.com/"), NotFound: []byte("https://example.com/lost")}
	require.Equal(t, targets, db.Targets(7))
	require.Zero(t, testing.AllocsPerRun(2000, func() { db.Targets(7) }))
	require.NoError(t, db.Close())
	db = open(t, cfg)
	require.Equal(t, targets, db.Targets(7), "read again from the disk")

	s.Commit(record(`{"host":"seven.example","root_url":"javascript:alert(1)"}`))
	apply(t, s, db)
	require.Empty(t, db.Targets(7), "a bad target is none")
	traits := func(host string) waypost.DomainTraits {
		_, traits, _ := db.Domain([]byte(host))
		return traits
	}
	id, _, found := db.Domain([]byte("seven.example"))
	require.True(t, found, "and the host keeps its links")
	require.EqualValues(t, 7, id)
	s.Commit(record(`{"host":"seven.example","root_url":"https://example.com/"}`))
	apply(t, s, db)
	require.Equal(t, waypost.DomainTargets{Root: []byte("https://example.com/")}, db.Targets(7))
	require.Zero(t, traits("seven.example"))
	s.Commit(record(`{"host":"seven.example","maintenance_url":"https://example.com/soon"}`))
	apply(t, s, db)
	require.Equal(t, waypost.DomainTargets{Maintenance: []byte("https://example.com/soon")}, db.Targets(7))
	require.Equal(t, waypost.Maintained, traits("seven.example"))
	require.Zero(t, traits("stranger.example"))
	s.Commit(record(`{"host":"seven.example","maintenance_url":"https://example.com/soon","exact_paths":true}`),
		waypost.Record{Kind: waypost.KindDomain, Name: []byte("1"), Payload: []byte(`{"host":"go.example","exact_paths":true}`)})
	apply(t, s, db)
	require.Equal(t, waypost.Maintained|waypost.ExactPaths, traits("seven.example"))
	require.Equal(t, waypost.ExactPaths, traits("stranger.example"), "as the default domain")
	s.Commit(record(`{"host":"seven.example","count_utm":true}`))
	apply(t, s, db)
	require.Equal(t, waypost.DomainTargets{CountUTM: true}, db.Targets(7))
}

func TestDB_SyncsWithinTheInterval(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.SyncInterval = 5 * time.Millisecond
	db, s := filled(t, cfg, 10)
	require.Equal(t, db.Position(), db.Synced())
	for i := range 20 {
		s.Commit(replicationtest.Link("code0001", fmt.Sprintf("https://%d.example/", i)))
		apply(t, s, db)
		require.Eventually(t, func() bool { return db.Synced() == db.Position() }, 60*time.Second, time.Millisecond)
	}
}

func TestDB_ClosedReturnsErrors(t *testing.T) {
	cfg := config(vfs.NewMem())
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	s := replicationtest.NewSource()
	replicationtest.Take(t, s, db)
	s.Commit()
	b := replicationtest.Next(t, s, db)
	require.NoError(t, db.Close())
	_, _, err = db.Link(1, []byte("code"), nil, new(waypost.Record))
	require.ErrorContains(t, err, "closed")
	require.ErrorContains(t, db.Apply(t.Context(), &b), "closed")
	_, err = db.Restore(t.Context(), replication.Cluster{})
	require.ErrorContains(t, err, "closed")
}

func TestDB_CloseEndsARestore(t *testing.T) {
	fs := vfs.NewMem()
	db, err := replica.Open(config(fs))
	require.NoError(t, err)
	r, err := db.Restore(t.Context(), replication.Cluster{1})
	require.NoError(t, err)
	_, err = db.Restore(t.Context(), replication.Cluster{1})
	require.ErrorContains(t, err, "under way")
	require.NoError(t, db.Close())
	require.Error(t, r.Slots(t.Context(), nil))
	names, err := fs.List("/replica")
	require.NoError(t, err)
	require.NotContains(t, names, "store-000001")
}

func TestMetrics_CountRecords(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := config(vfs.NewMem())
	cfg.Metrics = reg
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	_, err = replica.Open(replica.Config{Dir: "/other", FS: cfg.FS, Metrics: reg, Logger: cfg.Logger})
	require.ErrorContains(t, err, "metrics", "two with one registry")
	s := replicationtest.NewSource()
	replicationtest.Take(t, s, db)
	s.Commit(replicationtest.Link("aaaa", "https://a.example/"), replicationtest.Link("bbbb", "https://b.example/"))
	apply(t, s, db)
	require.InDelta(t, 2, value(t, reg, "records"), 0)
	require.InDelta(t, 2, value(t, reg, "applied_records_total"), 0)
	require.InDelta(t, 0, value(t, reg, "degraded"), 0)
	require.NoError(t, db.Close())
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Empty(t, families)
}

func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "waypost_replica_"+name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	require.NoError(t, errors.New("no such metric: "+name))
	return 0
}
