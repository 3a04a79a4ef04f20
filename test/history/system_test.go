// Package history_test takes PostgreSQL to other histories below a control plane and
// its edges: failovers with a lost tail, restores to a point in time, copies of files and
// dumps.
package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/internal/pgserver"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/replication"
	"waypost/test/devtest"
)

// limit bounds each wait.
const limit = 90 * time.Second

// memory holds the files of a control plane.
type memory struct {
	mu       sync.Mutex
	document []byte
}

func (m *memory) Load() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.document, nil
}

func (m *memory) Save(document []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.document = document
	return nil
}

func (m *memory) SetAside() error { return errors.New("the memory cannot be read") }

// system is PostgreSQL with a control plane and two edges, all but PostgreSQL in this
// process, so that replicas can be looked into.
type system struct {
	base   string
	server *pgserver.Server
	memory *memory
	api    *httptest.Server
	routes atomic.Pointer[http.ServeMux] // of the control plane that runs
	db     *postgres.DB
	stop   func()
	edges  []*edge
	leased map[int]int64 // the highest counter that was leased of a prefix
}

// edge is a replica that follows, and is read all the while.
type edge struct {
	*replica.DB
	follower *replication.Follower
	failed   atomic.Pointer[error] // the first read that did not find the link
}

// steady is the link that is never changed.
const steady = "steady"

func newSystem(t *testing.T) *system {
	in := &system{base: t.TempDir(), memory: &memory{}, leased: map[int]int64{}}
	t.Cleanup(func() { in.stopPostgres(t) })
	in.startPostgres(t, nil)
	require.NoError(t, migrations.Up(t.Context(), in.server.URL()))
	in.api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mux := in.routes.Load(); mux != nil {
			mux.ServeHTTP(w, r)
			return
		}
		http.Error(w, "no control plane runs", http.StatusServiceUnavailable)
	}))
	t.Cleanup(in.api.Close)
	in.startControl(t)
	t.Cleanup(in.stopControl)
	in.write(t, insert(steady), `INSERT INTO link (workspace_id, domain_id, code, original_url) SELECT 1, 1, 'bulk-' || i, 'https://example.com/' FROM generate_series(1, 300) i`)
	for range 2 {
		in.edges = append(in.edges, in.startEdge(t))
	}
	return in
}

func (in *system) data() string { return filepath.Join(in.base, "postgres", "data") }

func (in *system) startPostgres(t *testing.T, settings map[string]string) {
	t.Helper()
	in.server = startServer(t, filepath.Dir(in.data()), settings)
}

func startServer(t *testing.T, dir string, settings map[string]string) *pgserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	all := map[string]string{"fsync": "off", "autovacuum": "off", "max_wal_size": "1GB"}
	for name, value := range settings {
		all[name] = value
	}
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: dir, Settings: all})
	require.NoError(t, err)
	return server
}

func (in *system) stopPostgres(t *testing.T) {
	t.Helper()
	stopServer(t, in.server)
}

func stopServer(t *testing.T, s *pgserver.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	require.NoError(t, s.Stop(ctx))
}

// byHand is an operator's connection.
func byHand(t *testing.T, s *pgserver.Server, f func(conn *pgx.Conn)) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), devtest.Superuser(s))
	require.NoError(t, err)
	f(conn)
	require.NoError(t, conn.Close(t.Context()))
}

// write changes links by hand.
func (in *system) write(t *testing.T, statements ...string) {
	t.Helper()
	byHand(t, in.server, func(conn *pgx.Conn) {
		for _, sql := range statements {
			_, err := conn.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
	})
}

func insert(code string) string {
	return fmt.Sprintf(`INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, '%s', 'https://example.com/%[1]s')`, code)
}

// startControl starts a control plane with the memory that is there, once PostgreSQL can
// be used.
func (in *system) startControl(t *testing.T) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	var db *postgres.DB
	eventually(t, "PostgreSQL can be used", func() (err error) {
		db, err = postgres.Open(t.Context(), postgres.Config{URL: pgservertest.Patient(in.server.URL()), Memory: in.memory, Logger: log})
		return err
	})
	secret := [32]byte{7}
	cluster, err := db.EnsureCluster(t.Context(), postgres.ClusterConfig{
		CodeLength: 7, PrefixLength: 2, Secret: secret,
		DefaultHost: "go.example.com",
	})
	require.NoError(t, err)
	require.NoError(t, db.EnsureRanges(t.Context(), []waypost.Region{"eu-west-1"}))
	signer, err := replication.NewSigner(secret, cluster, 1)
	require.NoError(t, err)
	stream, err := replication.NewServer(replication.ServerConfig{
		Source: db, Signer: signer, Logger: slog.New(slog.DiscardHandler),
		Hear: func(ctx context.Context, _ string, said *replication.Testimony) error {
			if said == nil {
				return nil
			}
			err := db.Hear(ctx, *said)
			if superseded, ok := errors.AsType[*postgres.SupersededError](err); ok {
				return superseded
			}
			return nil // Watch does it later
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = stream.Run(ctx) })
	running.Go(func() { db.Watch(ctx) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, stream.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, stream.Snapshot)
	mux.HandleFunc("GET "+replication.PathSums, stream.Sums)
	in.routes.Store(mux)
	in.db = db
	in.stop = sync.OnceFunc(func() {
		in.routes.Store(nil)
		ctx, end := context.WithTimeout(context.Background(), limit)
		defer end()
		cancel()
		_ = stream.Drain(ctx) // what hangs shows in the edges
		running.Wait()
		db.Close()
	})
}

func (in *system) stopControl() { in.stop() }

func (in *system) startEdge(t *testing.T) *edge {
	t.Helper()
	r, err := replica.Open(replica.Config{Dir: t.TempDir(), LookupBytes: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	trust, err := replication.NewTrust(nil, func([]byte) error { return nil })
	require.NoError(t, err)
	e := &edge{DB: r}
	e.follower, err = replication.NewFollower(replication.FollowConfig{
		URL: in.api.URL, Sink: r, Trust: trust, Node: "edge", Region: "eu-west-1", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		BackoffMax: 100 * time.Millisecond, SnapshotBackoffMin: 20 * time.Millisecond, SnapshotBackoffMax: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.follower.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); require.NoError(t, r.Close()) })
	in.settle(t, e)
	running.Go(func() { e.read(ctx) })
	return e
}

// read looks a link up that is never changed, and notes when it is not there.
func (e *edge) read(ctx context.Context) {
	var buf []byte
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		var rec waypost.Record
		grown, found, err := e.Link(waypost.DefaultDomain, []byte(steady), buf[:0], &rec)
		if buf = grown; err != nil || !found || rec.State != waypost.Live {
			err = fmt.Errorf("found %t: %w", found, err)
			e.failed.CompareAndSwap(nil, &err)
		}
		<-pause.C
	}
}

// target returns the Location of an edge's answer, "" for a link that is not live.
func (e *edge) target(t *testing.T, code string) string {
	t.Helper()
	var rec waypost.Record
	_, found, err := e.Link(waypost.DefaultDomain, []byte(code), nil, &rec)
	require.NoError(t, err)
	if !found || rec.State != waypost.Live {
		return ""
	}
	return string(rec.Payload)
}

// settle waits until an edge is where PostgreSQL is, and holds the two against each
// other.
func (in *system) settle(t *testing.T, e *edge) {
	t.Helper()
	var head replication.Head
	var want, got map[string]string
	var digest uint64
	eventually(t, "the edge is where PostgreSQL is", func() error {
		if err := e.follower.Status().Err; errors.Is(err, replication.ErrSignature) {
			return err
		}
		var err error
		want = rows(t, func(visit func([]byte) error) error {
			head, err = in.db.Snapshot(t.Context(), 0, waypost.Slots-1, visit)
			return nil
		})
		if err != nil {
			return err
		}
		var at waypost.Position
		got = rows(t, func(visit func([]byte) error) error {
			at, err = e.Records(t.Context(), visit)
			return nil
		})
		if digest = e.Digest(); err == nil && (at != head.Position || e.Position() != at) {
			err = fmt.Errorf("the edge is at %v, PostgreSQL at %v; %w", at, head.Position, e.follower.Status().Err)
		}
		return err
	})
	require.Equal(t, want, got, "every record of every kind")
	require.Equal(t, head.Digest, digest)
}

func rows(t *testing.T, read func(visit func([]byte) error) error) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, read(func(b []byte) error {
		var r waypost.Record
		if err := replication.DecodeRecord(b, &r); err != nil {
			return err
		}
		all[fmt.Sprintf("%d/%d/%s", r.Kind, r.Domain, r.Name)] = string(b)
		return nil
	}))
	return all
}

// lease takes a block of keys, of which none was ever leased.
func (in *system) lease(t *testing.T) {
	t.Helper()
	eventually(t, "keys are leased", func() error {
		l, err := in.db.TakeLease(t.Context(), "eu-west-1", "test/1", 1000, nil)
		if err != nil {
			return err
		}
		require.GreaterOrEqual(t, l.Lo, in.leased[l.Prefix], "prefix %d", l.Prefix)
		in.leased[l.Prefix] = l.Hi
		return nil
	})
}

// resume is the operator's word, without which no key is issued in an epoch that began on
// an edge's.
func (in *system) resume(t *testing.T) {
	t.Helper()
	_, err := in.db.TakeLease(t.Context(), "eu-west-1", "test/1", 1000, nil)
	require.ErrorContains(t, err, "waypost ranges resume")
	gap := int64(1_000_000)
	operator := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Name: "operator"}
	operator.Scopes = []controlplane.Scope{controlplane.ScopeAdmin}
	_, err = in.db.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: []api.RangeStep{{Action: keys.ResumeKeys, Gap: &gap}}})
	require.NoError(t, err)
}

func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(limit); ; <-poll.C {
		err := f()
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(end), "%s: %v", what, err)
	}
}
