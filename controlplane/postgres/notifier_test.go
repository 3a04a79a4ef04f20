package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"waypost/controlplane/postgres"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// heralds opens control planes on one database, which tell one another of commits.
func heralds(t *testing.T, n int) (all []*postgres.DB, hand *pgx.Conn) {
	t.Helper()
	var address string
	first, hand := open(t, func(c *postgres.Config) { address = c.URL })
	all = append(all, first)
	for len(all) < n {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: address})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		all = append(all, db)
	}
	for _, db := range all {
		herald(t, db)
	}
	return all, hand
}

func herald(t *testing.T, db *postgres.DB) {
	t.Helper()
	during(t, db.Notify)
}

// during runs f until the test ends.
func during(t *testing.T, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func TestACommitThroughOneControlPlaneWakesTheFollowersOfAnother(t *testing.T) {
	dbs, hand := heralds(t, 2)
	here, there := dbs[0], dbs[1]
	server, err := replication.NewServer(replication.ServerConfig{
		Source: there, Logger: slog.New(slog.DiscardHandler),
		ServerLimits: replication.ServerLimits{MinPoll: time.Hour, MaxPoll: time.Hour},
	})
	require.NoError(t, err)
	during(t, func(ctx context.Context) { _ = server.Run(ctx) })
	mux := http.NewServeMux()
	mux.HandleFunc(replication.PathStream, server.Stream)
	mux.HandleFunc(replication.PathSnapshot, server.Snapshot)
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	sink := replicationtest.NewSink()
	during(t, func(ctx context.Context) {
		_ = replication.Follow(ctx, replication.FollowConfig{URL: web.URL, Sink: sink})
	})

	commits := 0
	commit := func() {
		t.Helper()
		commits++
		at := insert(t, here, link(fmt.Sprintf("commit-%d", commits)))
		limit := time.After(time.Minute)
		for moved := sink.Moved(); sink.Position() != at; moved = sink.Moved() {
			select {
			case <-moved:
			case <-limit:
				t.Fatalf("commit %d did not come; the follower is at %v", commits, sink.Position())
			}
		}
	}
	for range 5 {
		commit()
	}
	for range 2 {
		var ended int
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'waypost hints'`).Scan(&ended))
		require.NotZero(t, ended)
		for range 3 {
			commit()
		}
	}
}

func TestControlPlanesDoNotWakeOneAnotherInACircle(t *testing.T) {
	dbs, hand := heralds(t, 2)
	here, there := dbs[0], dbs[1]
	exec(t, hand, `LISTEN waypost_moved`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said := map[string]int{} // by control plane
	hear := func() {
		n, err := hand.WaitForNotification(ctx)
		require.NoError(t, err)
		said[n.Payload]++
	}
	for i := range 10 {
		woken := there.Changed()
		insert(t, here, link(fmt.Sprintf("commit-%d", i)))
		select {
		case <-woken:
		case <-ctx.Done():
			t.Fatal("nobody was woken")
		}
		hear()
	}
	exec(t, hand, `NOTIFY waypost_moved, 'the end'`)
	for said["the end"] == 0 {
		hear()
	}
	require.Len(t, said, 2, "a process that hears says nothing")
}

func TestBehindAPoolerControlPlanesOnlyPoll(t *testing.T) {
	lines := make(logged, 100)
	db, hand := open(t, func(c *postgres.Config) {
		c.URL = pooler(t, c.URL, passStart)
		c.Logger = slog.New(slog.NewTextHandler(lines, nil))
	})
	herald(t, db)
	require.Eventually(t, func() bool {
		select {
		case line := <-lines:
			return strings.Contains(line, "pooler") && strings.Contains(line, "hear of commits")
		default:
			return false
		}
	}, time.Minute, 10*time.Millisecond, "it is logged")
	changed := db.Changed()
	at := insert(t, db, link("abcd123"))
	<-changed // as ever
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, at, head.Position)
	var hearing int
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&hearing))
	require.Zero(t, hearing)
}

type logged chan string

func (l logged) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// pooler passes connections on to PostgreSQL and, like all poolers, reports another
// backend than the real one to its clients.
func pooler(t *testing.T, address string, forward func(backend io.Writer, client io.Reader) error) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(address)
	require.NoError(t, err)
	network, server := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			backend, err := net.Dial(network, server)
			if err != nil {
				client.Close()
				continue
			}
			running.Go(func() { defer backend.Close(); _ = forward(backend, client) })
			running.Go(func() { _ = disguise(client, backend); client.Close() })
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	u, err := url.Parse(address)
	require.NoError(t, err)
	q := u.Query() // of which the timeouts stay
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = ln.Addr().String(), q.Encode()
	return u.String()
}

func passStart(backend io.Writer, client io.Reader) error {
	_, err := io.Copy(backend, client)
	return err
}

// dropSettings begins connections with user and database alone, as PgBouncer does.
func dropSettings(backend io.Writer, client io.Reader) error {
	var head [8]byte // length and version
	if _, err := io.ReadFull(client, head[:]); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-8)
	if _, err := io.ReadFull(client, body); err != nil {
		return err
	}
	var kept []byte
	fields := strings.Split(strings.TrimRight(string(body), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "user" || fields[i] == "database" {
			kept = append(kept, fields[i]+"\x00"+fields[i+1]+"\x00"...)
		}
	}
	binary.BigEndian.PutUint32(head[:], uint32(len(kept)+9))
	if _, err := backend.Write(append(append(head[:], kept...), 0)); err != nil {
		return err
	}
	return passStart(backend, client)
}

func TestOpen_NamesSettingsThatAPoolerDrops(t *testing.T) {
	db, _ := open(t, func(c *postgres.Config) { c.URL = pooler(t, c.URL, dropSettings) })
	for _, name := range []string{"default_transaction_isolation", "idle_in_transaction_session_timeout", "jit", "statement_timeout"} {
		require.Contains(t, db.Settings(), name)
	}
	direct, _ := open(t)
	require.NotContains(t, direct.Settings(), "pooler")
}

func TestOpen_NamesSettingsThatDoHarm(t *testing.T) {
	db, _ := open(t, func(c *postgres.Config) {
		u, err := url.Parse(c.URL)
		require.NoError(t, err)
		q := u.Query()
		q.Set("options", "-c synchronous_commit=off -c work_mem=64kB")
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
		c.URL = u.String()
	})
	require.Contains(t, db.Settings(), "fsync=off (a crash of its machine can destroy the database)", "as these tests have it")
	require.Contains(t, db.Settings(), "synchronous_commit=off (a crash takes back changes that were answered), work_mem=64kB (")
	require.NotContains(t, db.Settings(), "shared_buffers", "is PostgreSQL's default")
}

// disguise copies the backend's messages, with another process id in BackendKeyData.
func disguise(client io.Writer, backend io.Reader) error {
	for {
		var head [5]byte
		if _, err := io.ReadFull(backend, head[:]); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(backend, body); err != nil {
			return err
		}
		if head[0] == 'K' {
			binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)+1)
		}
		if _, err := client.Write(append(head[:], body...)); err != nil {
			return err
		}
	}
}
