package controlplane_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/replication"
)

// asked is the database, which may be away, and counts what visitors make it do.
type asked struct {
	*postgres.DB
	away    atomic.Bool
	records atomic.Int64
	domains atomic.Int64
}

var errAway = waypost.Errorf(waypost.EUnavailable, "the database is out of reach")

func (d *asked) Record(ctx context.Context, host string, strict bool, code waypost.Code) (waypost.Record, bool, error) {
	d.records.Add(1)
	if d.away.Load() {
		return waypost.Record{}, false, errAway
	}
	return d.DB.Record(ctx, host, strict, code)
}

func (d *asked) DomainOf(ctx context.Context, host string) (waypost.Domain, bool, error) {
	d.domains.Add(1)
	if d.away.Load() {
		return waypost.Domain{}, false, errAway
	}
	return d.DB.DomainOf(ctx, host)
}

// held is a replica whose freshness the test decides.
type held struct {
	*replica.DB
	stale atomic.Bool
}

func (h *held) Fresh() bool { return !h.stale.Load() }

// visitedSystem answers visits from a replica.
type visitedSystem struct {
	*system
	service *controlplane.Service
	asked   *asked
	held    *held
	url     string
	t       *testing.T
}

func startVisited(t *testing.T, strict bool) *visitedSystem {
	s := start(t, nil)
	v := &visitedSystem{system: s, asked: &asked{DB: s.db}, t: t}
	db, err := replica.Open(replica.Config{Dir: t.TempDir(), LookupBytes: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	v.held = &held{DB: db}
	v.service = controlplane.New(controlplane.Config{
		Links: v.asked, Domains: v.asked, Edits: s.db, DomainEdits: s.db, Minter: s.minter, Leases: s.db, Ranges: s.db, Answers: s.db, Twins: s.db,
		Replica: v.held, StrictHosts: strict, Patience: time.Minute,
	})
	t.Cleanup(func() { require.NoError(t, v.service.Close(context.Background())) })
	stream, err := replication.NewServer(replication.ServerConfig{Source: s.db, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- stream.Run(ctx) }()
	routes := http.NewServeMux()
	routes.HandleFunc(replication.PathStream, stream.Stream)
	routes.HandleFunc(replication.PathSnapshot, stream.Snapshot)
	routes.HandleFunc(replication.PathSums, stream.Sums)
	web := httptest.NewServer(routes)
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
		require.NoError(t, stream.Drain(context.Background()))
		web.Close()
	})
	v.url = web.URL
	return v
}

// follow brings the replica up to what is committed now, and lets it stand there.
func (v *visitedSystem) follow() {
	v.t.Helper()
	head, err := v.db.Head(v.t.Context())
	require.NoError(v.t, err)
	ctx, cancel := context.WithCancel(v.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- replication.Follow(ctx, replication.FollowConfig{URL: v.url, Sink: v.held.DB, Logger: slog.New(slog.DiscardHandler)})
	}()
	require.Eventually(v.t, func() bool { return v.held.Position().Seq >= head.Position.Seq }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(v.t, <-ended, context.Canceled)
}

// visit gives what a visitor gets: the status, and where a redirect leads.
func (v *visitedSystem) visit(host, path string) string {
	v.t.Helper()
	res, err := v.service.Resolve(v.t.Context(), host, visit(path))
	if err != nil {
		return string(waypost.CodeOf(err))
	}
	return fmt.Sprintf("%d %s", res.Status, res.Location)
}

func (v *visitedSystem) root(host string) string {
	v.t.Helper()
	res, leads, err := v.service.Root(v.t.Context(), host)
	if err != nil || !leads {
		return fmt.Sprint(leads, err)
	}
	return string(res.Location)
}

// requireAsked holds what visitors made the database do, since the last time.
func (v *visitedSystem) requireAsked(records int, why string) {
	v.t.Helper()
	require.EqualValues(v.t, records, v.asked.records.Swap(0), why)
}

func (v *visitedSystem) create(n controlplane.NewLink) {
	v.t.Helper()
	_, _, err := v.service.Create(v.t.Context(), actor, n)
	require.NoError(v.t, err)
}

func (v *visitedSystem) change(code string, c controlplane.LinkChange) {
	v.t.Helper()
	_, _, err := v.service.Change(v.t.Context(), actor, "", code, c)
	require.NoError(v.t, err)
}

func TestVisitsAreAnsweredFromTheReplicaAsFromTheDatabase(t *testing.T) {
	v := startVisited(t, false)
	root, lost := "https://example.com/root", "https://example.com/lost"
	_, _, err := v.service.AddDomain(t.Context(), actor, controlplane.NewDomain{Host: "own.example.com", Root: root, NotFound: lost})
	require.NoError(t, err)
	v.create(wish(custom("plain")))
	v.create(wish(custom("both"), func(n *controlplane.NewLink) { n.ForwardQuery, n.ForwardPath = true, true }))
	v.create(wish(custom("permanent"), func(n *controlplane.NewLink) { n.RedirectStatus = 301 }))
	v.create(wish(custom("short")))
	v.create(wish(custom("paused")))
	v.create(wish(custom("gone")))
	v.create(wish(custom("theirs"), func(n *controlplane.NewLink) { n.Domain = "own.example.com" }))
	no := false
	v.change("paused", controlplane.LinkChange{Active: &no})
	_, err = v.hand.Exec(t.Context(), `UPDATE link SET expires_at = now() - interval '1 hour' WHERE code = 'short'`)
	require.NoError(t, err)
	_, err = v.service.Delete(t.Context(), actor, "gone")
	require.NoError(t, err)
	v.follow()

	const target = "https://example.com/a?b=c#d"
	for _, c := range []struct{ host, path, want string }{
		{"go.example.com", "plain", "302 " + target},
		{"GO.example.com:443", "plain", "302 " + target},
		{"198.51.100.7:8080", "plain?x=1", "302 " + target},
		{"", "both/rest?x=1", "302 https://example.com/a/rest?b=c&x=1#d"},
		{"", "plain/rest", "404 "},
		{"", "permanent", "301 " + target},
		{"", "short", "410 "},
		{"", "paused", "410 "},
		{"", "gone", "410 "},
		{"", "x", "404 "},
		{"own.example.com", "theirs", "302 " + target},
		{"own.example.com", "theirs/rest", "302 " + lost},
	} {
		want, err := v.Resolve(t.Context(), c.host, visit(c.path))
		require.NoError(t, err)
		require.Equal(t, c.want, fmt.Sprintf("%d %s", want.Status, want.Location), "the database, %s %s", c.host, c.path)
		got, err := v.service.Resolve(t.Context(), c.host, visit(c.path))
		require.NoError(t, err)
		require.Equal(t, want, got, "%s %s", c.host, c.path)
	}
	v.requireAsked(0, "all of that is in the replica")
	require.Equal(t, "404 ", v.visit("", "theirs"))
	require.Equal(t, "302 "+lost, v.visit("own.example.com", "plain"))
	v.requireAsked(2, "who does not know it asks")

	v.asked.domains.Store(0)
	require.Equal(t, root, v.root("own.example.com:80"))
	require.Equal(t, "false <nil>", v.root("go.example.com"))
	require.Equal(t, "false <nil>", v.root("127.0.0.1:8080"))
	require.Zero(t, v.asked.domains.Load())
}

func TestWhatWasWrittenHereIsSeenAtOnceThoughTheReplicaIsBehind(t *testing.T) {
	v := startVisited(t, false)
	v.create(wish(custom("kept")))
	v.create(wish(custom("edited")))
	v.create(wish(custom("deleted")))
	v.follow()

	other := "https://example.com/other"
	v.create(wish(custom("created")))
	v.change("edited", controlplane.LinkChange{OriginalURL: &other})
	_, err := v.service.Delete(t.Context(), actor, "deleted")
	require.NoError(t, err)
	for range 2 {
		require.Equal(t, "302 https://example.com/a?b=c#d", v.visit("", "created"))
		require.Equal(t, "302 "+other, v.visit("", "edited"))
		require.Equal(t, "410 ", v.visit("", "deleted"))
	}
	v.requireAsked(6, "the replica does not have it yet")
	require.Equal(t, "302 https://example.com/a?b=c#d", v.visit("", "kept"))
	v.requireAsked(0, "others need not wait for that")

	v.asked.away.Store(true)
	require.Equal(t, "unavailable", v.visit("", "deleted"), "what was seen deleted does not return")
	require.Equal(t, "unavailable", v.visit("", "created"), "nobody can tell whether there is one")
	v.asked.away.Store(false)
	v.follow()
	v.requireAsked(2, "")
	require.Equal(t, "302 "+other, v.visit("", "edited"))
	require.Equal(t, "410 ", v.visit("", "deleted"))
	require.Equal(t, "302 https://example.com/a?b=c#d", v.visit("", "created"))
	v.requireAsked(0, "now it has all")

	d, _, err := v.service.AddDomain(t.Context(), actor, controlplane.NewDomain{Host: "own.example.com", NotFound: other, Root: other})
	require.NoError(t, err)
	require.Equal(t, "302 "+other, v.visit("own.example.com", "kept"), "it is no link of the new domain")
	require.Equal(t, other, v.root("own.example.com"))
	v.follow()
	third := "https://example.com/third"
	_, _, err = v.service.ChangeDomain(t.Context(), actor, d.ID, controlplane.DomainChange{Root: &third})
	require.NoError(t, err)
	require.Equal(t, third, v.root("own.example.com"))
	_, err = v.service.RemoveDomain(t.Context(), actor, d.ID, false)
	require.NoError(t, err)
	require.Equal(t, "302 https://example.com/a?b=c#d", v.visit("own.example.com", "kept"))
	require.Equal(t, "false <nil>", v.root("own.example.com"))
}

func TestWhileTheDatabaseIsAwayTheReplicaAnswers(t *testing.T) {
	v := startVisited(t, true)
	v.asked.away.Store(true)
	require.Equal(t, "unavailable", v.visit("go.example.com", "kept"), "an empty replica knows nothing")
	v.asked.away.Store(false)
	v.create(wish(custom("kept")))
	v.follow()
	_, err := v.Delete(t.Context(), actor, "kept") // by another control plane
	require.NoError(t, err)
	v.requireAsked(1, "")

	v.held.stale.Store(true)
	v.asked.away.Store(true)
	for range 100 {
		require.Equal(t, "302 https://example.com/a?b=c#d", v.visit("go.example.com", "kept"))
	}
	require.Less(t, v.asked.records.Swap(0), int64(20), "a database that is away is not asked all the time")
	require.Equal(t, "false <nil>", v.root("go.example.com"))
	require.Equal(t, "unavailable", v.visit("go.example.com", "unknown"))
	require.Equal(t, "unavailable", v.visit("other.example.com", "kept"), "it may be a domain by now")

	v.asked.away.Store(false)
	require.Equal(t, "404 ", v.visit("other.example.com", "kept")) // which shows that it is back
	require.Eventually(t, func() bool { return v.visit("go.example.com", "kept") == "410 " }, time.Minute, time.Millisecond,
		"a replica that is not fresh is not believed, unless the database takes its time")
	v.asked.away.Store(true)
	require.Equal(t, "unavailable", v.visit("go.example.com", "kept"), "and nobody sees again what was seen deleted")
}
