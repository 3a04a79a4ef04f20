package replica_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// numbered is a source of many links, whose slots can be read without reading all of
// them.
type numbered struct {
	*replicationtest.Source
	mu   sync.Mutex
	rows [waypost.Slots][][]byte
}

func newNumbered(t testing.TB, n int) *numbered {
	s := &numbered{Source: replicationtest.NewSource()}
	rs := make([]waypost.Record, n)
	for i := range rs {
		rs[i] = replicationtest.Link(fmt.Sprintf("n%06d", i), fmt.Sprintf("https://example.com/articles/%d?from=a-campaign-of-the-spring", i*7919))
	}
	s.commit(t, rs...)
	s.Trim()
	s.SetWidth(128)
	return s
}

// commit adds new links.
func (s *numbered) commit(t testing.TB, rs ...waypost.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.Head(t.Context())
	require.NoError(t, err)
	s.Commit(rs...)
	b, err := s.Read(t.Context(), before.Position, len(rs))
	require.NoError(t, err)
	for _, raw := range b.Transactions[0].Records {
		var r waypost.Record
		require.NoError(t, replication.DecodeRecord(raw, &r))
		slot := waypost.Slot(r.Kind, r.Domain, r.Name)
		s.rows[slot] = append(s.rows[slot], raw)
	}
}

// Snapshot implements replication.Source.
func (s *numbered) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot := int(first); slot <= int(last); slot++ {
		for _, raw := range s.rows[slot] {
			if err := visit(raw); err != nil {
				return replication.Head{}, err
			}
		}
	}
	return s.Head(ctx)
}

const (
	bootstrapDir  = "WAYPOST_TEST_BOOTSTRAP_DIR"
	bootstrapURL  = "WAYPOST_TEST_BOOTSTRAP_URL"
	bootstrapNode = "WAYPOST_TEST_BOOTSTRAP_NODE"
)

// TestBootstrap_ChildProcess runs in a process that TestBootstrap_ResumesAfterKills
// kills.
func TestBootstrap_ChildProcess(t *testing.T) {
	dir := os.Getenv(bootstrapDir)
	if dir == "" {
		t.Skip("it is started by another test")
	}
	db, err := replica.Open(replica.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	if os.Getenv("WAYPOST_BOOTSTRAP_LINKS") == "" {
		db.Shrink() // so that it always has something to keep
	}
	stop := run(t, func(ctx context.Context) error {
		return replication.Follow(ctx, replication.FollowConfig{
			URL: os.Getenv(bootstrapURL), Node: os.Getenv(bootstrapNode), Sink: db, Logger: slog.New(slog.DiscardHandler), Silence: time.Hour,
		})
	})
	require.Eventually(t, func() bool { return !db.Position().IsZero() }, 5*time.Minute, time.Millisecond)
	stop()
	require.NoError(t, db.Close())
}

// slotKept returns the slot from which a stopped edge has to resume.
func slotKept(t *testing.T, dir string) int {
	for _, name := range files(t, dir+"/restore-*/PROGRESS") {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		_, content, _ := strings.Cut(string(raw), "\n")
		var p struct{ Next int }
		require.NoError(t, json.Unmarshal([]byte(content), &p))
		return p.Next
	}
	return 0
}

func TestBootstrap_ResumesAfterKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	links, wanted := 10_000, 3
	if text := os.Getenv("WAYPOST_BOOTSTRAP_LINKS"); text != "" {
		var err error
		links, err = strconv.Atoi(text)
		require.NoError(t, err)
		wanted = 10
	}
	s := newNumbered(t, links)
	var asked sync.Map // of each process, the slots that it asks from
	url := serve(t, s, func(r *http.Request) int {
		if r.URL.Path == replication.PathSnapshot {
			first, err := strconv.Atoi(r.URL.Query().Get("first"))
			if err != nil {
				return http.StatusBadRequest
			}
			slots, _ := asked.Load(r.Header.Get(replication.HeaderNode))
			slots.(chan int) <- first
		}
		return 0
	})
	processes := 0
	start := func(dir string) (cmd *exec.Cmd, slots chan int, ended chan error) {
		processes++
		node := "edge-" + strconv.Itoa(processes)
		slots = make(chan int, 100)
		asked.Store(node, slots)
		cmd = exec.Command(os.Args[0], "-test.run=^TestBootstrap_ChildProcess$") //nolint:gosec // itself
		cmd.Env = append(os.Environ(), bootstrapDir+"="+dir, bootstrapURL+"="+url, bootstrapNode+"="+node)
		cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
		require.NoError(t, cmd.Start())
		ended = make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return cmd, slots, ended
	}
	first := func(slots chan int, ended chan error) int {
		select {
		case slot := <-slots:
			return slot
		case err := <-ended:
			require.Fail(t, "it has ended without a snapshot", "%v", err)
		case <-time.After(time.Minute):
			require.Fail(t, "no request for a snapshot came")
		}
		return 0
	}

	dir := filepath.Join(t.TempDir(), "whole")
	_, slots, ended := start(dir)
	require.Zero(t, first(slots, ended))
	began := time.Now()
	require.NoError(t, <-ended)
	whole := time.Since(began)
	t.Logf("%d links took %v", links, whole)

	kills, resumed, runs := 0, 0, 0
	for kills < wanted {
		runs++
		dir := filepath.Join(t.TempDir(), strconv.Itoa(runs))
		for done := false; !done; {
			if len(files(t, dir+"/CURRENT")) > 0 {
				break // it was killed when all was done
			}
			kept := slotKept(t, dir)
			cmd, slots, ended := start(dir)
			require.Zero(t, first(slots, ended), "what is kept is looked for once a source is there")
			s.commit(t, replicationtest.Link(fmt.Sprintf("late%04d", rand.N(10_000)+10_000*(runs*100+kills)), "https://late.example/"))
			if kept > 0 && kept < waypost.Slots {
				require.Equal(t, kept, first(slots, ended), "the snapshot is resumed")
				resumed++
			}
			kill := time.NewTimer(rand.N(whole * 2 / 3))
			if kills >= wanted {
				kill.Stop()
			}
			select {
			case err := <-ended:
				require.NoError(t, err)
				done = true
			case <-kill.C:
				killErr := cmd.Process.Kill()
				if err := <-ended; err == nil {
					done = true // at that very moment
					break
				}
				require.NoError(t, killErr)
				kills++
			}
		}
		after := open(t, replica.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
		requireDigest(t, after)
		head, err := s.Head(t.Context())
		require.NoError(t, err)
		for after.Position() != head.Position {
			apply(t, s.Source, after)
		}
		require.Equal(t, head.Digest, after.Digest())
	}
	t.Logf("%d kills in %d bootstraps; %d times it went on between slots", kills, runs, resumed)
}
