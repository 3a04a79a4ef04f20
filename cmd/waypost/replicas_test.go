package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/httpapi/httpapitest"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
	"waypost/replication"
)

// installation is a control plane with its API and stream on a database of its
// own, in this process, so that replicas can be looked into.
type installation struct {
	db           *postgres.DB
	links        http.Handler
	certificates *controlplane.Certificates // of edges
	api          *httptest.Server
	hand         *pgx.Conn // as an operator's psql
	url          string    // of the database
}

func install(t *testing.T, source func(replication.Source) replication.Source) *installation {
	t.Helper()
	database := testDatabases.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: database})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	byHand, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	byHand.User = "postgres"
	hand, err := pgx.ConnectConfig(t.Context(), byHand)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hand.Close(context.Background())) })
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	minter := keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu-west-1", Node: "test/1", Size: 500,
	})
	service := controlplane.New(controlplane.Config{Store: db, Minter: minter})
	t.Cleanup(func() { require.NoError(t, service.Close(context.Background())) })
	services := httpapitest.Services(t, db, minter, service)
	certificates := controlplane.NewCertificates(nil)
	services.Certificates = certificates
	in := &installation{certificates: certificates, db: db, hand: hand, url: database, links: httpapi.New(httpapi.Config{
		Services: services, BaseURL: "https://go.example.com", RequestTimeout: time.Minute,
		Anonymous: &controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
	})}
	var src replication.Source = db
	if source != nil {
		src = source(db)
	}
	in.serve(t, src)
	return in
}

// serve starts a server that knows nothing of the past, as a control plane that
// was restarted does.
func (in *installation) serve(t *testing.T, source replication.Source) {
	t.Helper()
	stream, err := replication.NewServer(replication.ServerConfig{Source: source, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	running(t, stream.Run)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, stream.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, stream.Snapshot)
	mux.HandleFunc("GET "+replication.PathSums, stream.Sums)
	mux.HandleFunc("POST "+api.PathEdgeReports, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("POST "+api.PathEdgeCertificates, httpapi.EdgeCertificates(in.certificates, slog.New(slog.DiscardHandler)))
	mux.Handle("/", in.links)
	in.api = httptest.NewServer(mux)
	t.Cleanup(in.api.Close)
	t.Cleanup(func() { require.NoError(t, stream.Drain(context.Background())) })
}

// running runs a part until the test ends, and waits for it.
func running(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// replicate keeps a replica in step with the installation.
func (in *installation) replicate(t *testing.T, dir string) *replica.DB {
	t.Helper()
	r, err := replica.Open(replica.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	f, err := replication.NewFollower(replication.FollowConfig{
		URL: in.api.URL, Sink: r, Node: "test", Region: "eu-west-1", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		SnapshotBackoffMin: 20 * time.Millisecond, SnapshotBackoffMax: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	running(t, f.Run)
	return r
}

// rows is every record of PostgreSQL or of a replica, by its bytes' key.
type rows map[string]string

func rowsOf(t *testing.T, read func(visit func([]byte) error) error) rows {
	t.Helper()
	all := make(rows)
	require.NoError(t, read(func(b []byte) error {
		var r waypost.Record
		if err := replication.DecodeRecord(b, &r); err != nil {
			return err
		}
		key := fmt.Sprintf("%d/%d/%s", r.Kind, r.Domain, r.Name)
		if _, twice := all[key]; twice {
			return fmt.Errorf("%s is there twice", key)
		}
		all[key] = string(b)
		return nil
	}))
	return all
}

// settle waits until a replica is at the head, and gives both sides as they are there,
// with the replica's digest. The head may move by itself: the minter leases keys in the
// background.
func (in *installation) settle(t *testing.T, r *replica.DB) (head replication.Head, digest uint64, postgreSQL, replicated rows) {
	t.Helper()
	eventually(t, func() bool {
		postgreSQL = rowsOf(t, func(visit func([]byte) error) (err error) {
			head, err = in.db.Snapshot(t.Context(), 0, waypost.Slots-1, visit)
			return err
		})
		var at waypost.Position
		replicated = rowsOf(t, func(visit func([]byte) error) (err error) {
			at, err = r.Records(t.Context(), visit)
			return err
		})
		digest = r.Digest()
		return at == head.Position && r.Position() == at
	})
	return head, digest, postgreSQL, replicated
}

// eventually tries until it holds, for 60 seconds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(60 * time.Second); !holds(); <-poll.C {
		require.True(t, time.Now().Before(end), "not within 60 seconds")
	}
}

var testDatabases = &pgservertest.Cluster{Prepare: migrations.Up}

func (in *installation) call(t *testing.T, method, path string, body any, want int) map[string]any {
	text, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, in.api.URL+path, bytes.NewReader(text))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, want, res.StatusCode, "%s", answer)
	var got map[string]any
	if len(answer) > 0 {
		require.NoError(t, json.Unmarshal(answer, &got))
	}
	return got
}

func TestReplicas_EqualAfterConcurrentCreates(t *testing.T) {
	in := install(t, nil)
	first, second := in.replicate(t, t.TempDir()), in.replicate(t, t.TempDir())
	const connections, total = 32, 600
	codes := make(chan string, total)
	work := make(chan int, total)
	for i := range total {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for i := range work {
				link := in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": fmt.Sprintf("https://example.com/ü/%d", i)}, 201)
				code := link["short_code"].(string)
				codes <- code
				if i%10 == 0 {
					in.call(t, http.MethodDelete, "/api/v1/urls/"+code, nil, 204)
				}
			}
		})
	}
	wg.Wait()
	close(codes)
	seen := make(map[string]bool)
	for code := range codes {
		require.False(t, seen[code], "code %s was given twice", code)
		seen[code] = true
	}
	require.Len(t, seen, total)
	in.requireEverySequence(t)
	for _, r := range []*replica.DB{first, second} {
		head, digest, want, got := in.settle(t, r)
		require.Equal(t, head.Digest, digest, "by root digest")
		require.Empty(t, difference(want, got), "by full comparison")
	}
}

// requireEverySequence looks for gaps in the log.
func (in *installation) requireEverySequence(t *testing.T) {
	t.Helper()
	var head, distinct int
	require.NoError(t, in.hand.QueryRow(t.Context(), `SELECT max(h.seq), count(DISTINCT c.seq) FROM changelog_head h, changelog c`).Scan(&head, &distinct))
	require.Equal(t, head+1, distinct, "sequences 0 to %d", head)
}

// trim takes the log before the head away, as dropping partitions does.
func (in *installation) trim(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		`ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`,
		`DELETE FROM changelog WHERE seq < (SELECT seq FROM changelog_head)`,
		`ALTER TABLE changelog FORCE ROW LEVEL SECURITY`,
	} {
		_, err := in.hand.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

// difference names the keys at which two sides differ.
func difference(a, b rows) []string {
	var keys []string
	for k := range maps.Keys(a) {
		if a[k] != b[k] {
			keys = append(keys, k)
		}
	}
	for k := range maps.Keys(b) {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// skipper is a source that leaves one record out of the stream, once; with lie it
// also makes the digests fit, as a fault in the triggers would.
type skipper struct {
	replication.Source
	code string
	lie  bool

	mu      sync.Mutex
	skipped bool
	stamp   uint64 // of the record left out: what the digests are wrong by
}

func (s *skipper) Read(ctx context.Context, after waypost.Position, n int) (replication.Batch, error) {
	b, err := s.Source.Read(ctx, after, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Transactions {
		tx := &b.Transactions[i]
		tx.Records = slices.DeleteFunc(tx.Records, func(rec []byte) bool {
			var r waypost.Record
			if replication.DecodeRecord(rec, &r) != nil || string(r.Name) != s.code || s.skipped && !s.lie {
				return false
			}
			s.skipped, s.stamp = true, r.Stamp
			return true
		})
		if s.lie {
			tx.Digest ^= s.stamp
		}
	}
	return b, err
}

func (s *skipper) Head(ctx context.Context) (replication.Head, error) {
	h, err := s.Source.Head(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lie {
		h.Digest ^= s.stamp
	}
	return h, err
}

func TestASkippedChangeIsNoticedByTheDigestAndRepaired(t *testing.T) {
	in := install(t, func(src replication.Source) replication.Source { return &skipper{Source: src, code: "skipped"} })
	r := in.replicate(t, t.TempDir())
	in.settle(t, r)
	in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/", "custom_code": "skipped"}, 201)
	in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/", "custom_code": "after"}, 201)
	head, digest, want, got := in.settle(t, r)
	require.Equal(t, head.Digest, digest)
	require.Empty(t, difference(want, got))
}

func TestTheFullComparisonFindsAChangeThatTheDigestsWereMadeToHide(t *testing.T) {
	in := install(t, func(src replication.Source) replication.Source {
		return &skipper{Source: src, code: "hidden", lie: true}
	})
	r := in.replicate(t, t.TempDir())
	in.settle(t, r)
	in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/", "custom_code": "hidden"}, 201)
	_, _, want, got := in.settle(t, r)
	require.Equal(t, []string{"1/1/hidden"}, difference(want, got))
}

func TestAReturningEdgeGoesOnFromItsPositionAndOneTooFarBehindTakesASnapshot(t *testing.T) {
	in := install(t, nil)
	dir := t.TempDir()
	follow := func() (*replica.DB, *replication.Follower, func()) {
		r, err := replica.Open(replica.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		f, err := replication.NewFollower(replication.FollowConfig{URL: in.api.URL, Sink: r, Node: "test", Region: "eu", Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		return r, f, func() {
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.NoError(t, r.Close())
		}
	}
	create := func(code string) {
		in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/", "custom_code": code}, 201)
	}
	r, f, stop := follow()
	create("first")
	in.settle(t, r)
	eventually(t, func() bool { return f.Status().Snapshots == 1 })
	stop()

	create("second")
	r, f, stop = follow()
	_, _, want, got := in.settle(t, r)
	require.Empty(t, difference(want, got))
	require.Zero(t, f.Status().Snapshots, "the tail was enough")
	stop()

	create("third")
	create("fourth")
	in.trim(t)
	in.serve(t, in.db)
	r, f, stop = follow()
	defer stop()
	_, _, want, got = in.settle(t, r)
	require.Empty(t, difference(want, got))
	eventually(t, func() bool { return f.Status().Snapshots == 1 })
}

func TestAReplicaOfAnotherHistoryIsRepairedAndServesAllTheWhile(t *testing.T) {
	in := install(t, nil)
	r := in.replicate(t, t.TempDir())
	in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/", "custom_code": "steady"}, 201)
	before, _, _, _ := in.settle(t, r)

	// readers that never pause, while the history changes below them
	stop, failed := make(chan struct{}), make(chan error, 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var buf []byte
			for {
				select {
				case <-stop:
					return
				default:
				}
				grown, found, err := r.Link(waypost.DefaultDomain, []byte("steady"), buf[:0], new(waypost.Record))
				if buf = grown; err != nil || !found {
					failed <- fmt.Errorf("found %t: %w", found, err)
					return
				}
			}
		})
	}
	_, err := in.hand.Exec(t.Context(), `SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, epoch, NULL, seq + 1, 0, jsonb_build_object('at', extract(epoch FROM clock_timestamp()), 'ranges', '[]'::jsonb), 1000, 0)`)
	require.NoError(t, err)
	in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.com/", "custom_code": "later"}, 201)
	after, digest, want, got := in.settle(t, r)
	close(stop)
	wg.Wait()
	require.Empty(t, failed)
	require.NotEqual(t, before.Position.Epoch, after.Position.Epoch)
	require.Equal(t, after.Digest, digest)
	require.Empty(t, difference(want, got))
}

func TestMain(m *testing.M) { os.Exit(testDatabases.Main(m)) }
