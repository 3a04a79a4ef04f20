package blocks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/blocks"
	"waypost/internal/leaktest"
	"waypost/replication"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var cluster = replication.Cluster{1}

func signer(t testing.TB) *replication.Signer {
	t.Helper()
	s, err := replication.NewSigner([32]byte{2}, cluster, 1)
	require.NoError(t, err)
	return s
}

// signed returns an encoded statement.
func signed(t testing.TB, code string, version uint64, blocked bool) []byte {
	b := signer(t).SignBlock(waypost.Block{
		Code: waypost.Code(code), Version: version, Blocked: blocked, Policy: waypost.BlockLegal, Reason: "order", At: 1,
	})
	return replication.AppendBlock(nil, &b)
}

// node is an edge's blocks with their directory.
type node struct {
	*blocks.Blocks
	dir  string
	stop func()

	mu     sync.Mutex
	passed []string
}

// begin starts an edge on a directory.
func begin(t *testing.T, dir string) *node {
	t.Helper()
	sign, n := signer(t), &node{dir: dir}
	n.Blocks = blocks.New(blocks.Config{
		Check: sign.CheckBlock, Look: time.Millisecond,
		Pass: func(encoded []byte) {
			b, err := replication.DecodeBlock(encoded)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.passed = append(n.passed, fmt.Sprint(b.Code, " ", err))
		},
	})
	n.Open(filepath.Join(dir, "blocks"), filepath.Join(dir, "blocked"), func(host string) bool { return host == "go.example.com" })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.stop)
	return n
}

func (n *node) policy(host, code string) waypost.BlockPolicy {
	return n.Policy([]byte(host), []byte(code), false)
}

// kept waits until the file has a state.
func (n *node) kept(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		there := blocks.New(blocks.Config{})
		there.Open(filepath.Join(n.dir, "blocks"), filepath.Join(n.dir, "none"), nil)
		return there.Digest() == n.Digest()
	}, 10*time.Second, time.Millisecond)
}

func TestBlocks_SurviveARestart(t *testing.T) {
	n := begin(t, t.TempDir())
	n.Hear(signed(t, "phish", 1, true), signed(t, "ended", 2, true))
	require.Equal(t, waypost.BlockLegal, n.policy("", "phish"), "at once")
	n.Hear(signed(t, "ended", 3, false))
	n.kept(t)
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.Contains(n.passed, "phish <nil>") && slices.Contains(n.passed, "ended <nil>")
	}, 10*time.Second, time.Millisecond)
	n.stop()

	again := begin(t, n.dir)
	require.Equal(t, waypost.BlockLegal, again.policy("", "phish"))
	require.Zero(t, again.policy("", "ended"))
	again.Hear(signed(t, "ended", 2, true), signed(t, "phish", 1, false))
	require.Zero(t, again.policy("", "ended"), "a replayed statement does nothing")
	require.Equal(t, waypost.BlockLegal, again.policy("", "phish"))
}

func TestBlocks_RefuseWhatIsForged(t *testing.T) {
	n := begin(t, t.TempDir())
	forged := signed(t, "phish", 1, true)
	forged[1]++ // the version
	n.Hear(nil, []byte("nonsense"), forged, signed(t, "other", 1, true))
	require.Zero(t, n.policy("", "phish"))
	require.Equal(t, waypost.BlockLegal, n.policy("", "other"))
}

func TestBlocks_AFloodOfForgedOnesFillsNoLog(t *testing.T) {
	log, meters := &bytes.Buffer{}, prometheus.NewPedanticRegistry()
	b := blocks.New(blocks.Config{
		Check: signer(t).CheckBlock, Logger: slog.New(slog.NewTextHandler(log, nil)), Metrics: meters,
	})
	forged := signed(t, "phish", 1, true)
	forged[1]++
	began := time.Now()
	for range 500 {
		b.Hear(forged)
	}
	require.Contains(t, log.String(), "refused a block")
	require.LessOrEqual(t, strings.Count(log.String(), "\n"), 2+int(time.Since(began)/time.Second))
	families, err := meters.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "waypost_blocks_refused_total" {
			require.InDelta(t, 500, f.GetMetric()[0].GetCounter().GetValue(), 0)
			return
		}
	}
	t.Fatal("the metric is missing")
}

func TestBlocks_OfADamagedFileAreSetAside(t *testing.T) {
	n := begin(t, t.TempDir())
	n.Hear(signed(t, "first", 1, true), signed(t, "second", 2, true))
	n.kept(t)
	n.stop()
	file := filepath.Join(n.dir, "blocks")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text[len(text)-1]++
	require.NoError(t, os.WriteFile(file, text, 0o600))

	again := begin(t, n.dir)
	require.Equal(t, 1, again.Active(), "what can be read has effect")
	again.kept(t)
	found, err := filepath.Glob(file + ".unreadable-*")
	require.NoError(t, err)
	require.Len(t, found, 1)
	kept, err := os.ReadFile(found[0])
	require.NoError(t, err)
	require.Equal(t, text, kept)

	for _, text := range []string{"", "waypost blocks 9\n", strings.Repeat("x", 1000)} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "blocks"), []byte(text), 0o600))
		require.Zero(t, begin(t, dir).Active())
	}
}

func TestBlocks_ThatCameJustBeforeAStopAreKept(t *testing.T) {
	first := begin(t, t.TempDir())
	first.Hear(signed(t, "at-last", 2, true))
	first.stop()
	require.Equal(t, waypost.BlockLegal, begin(t, first.dir).policy("", "at-last"))
}

func TestBlocks_ListedByHandHoldOnThisEdge(t *testing.T) {
	n := begin(t, t.TempDir())
	list := filepath.Join(n.dir, "blocked")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(list, []byte(text), 0o600))
	}
	write("# by hand\nphish\nGO.example.com/court legal\r\nown.example.com:80/sale gone # until Monday\nx\na b c\n../../etc\n")
	require.Eventually(t, func() bool { return n.policy("own.example.com", "sale") == waypost.BlockGone }, 10*time.Second, time.Millisecond)
	require.Equal(t, waypost.BlockGone, n.policy("", "phish"))
	require.Equal(t, waypost.BlockLegal, n.policy("", "court"))
	require.Zero(t, n.policy("own.example.com", "phish"))
	require.Zero(t, n.Digest(), "they are no statements, and go nowhere")
	n.stop()
	n = begin(t, n.dir)
	require.Equal(t, waypost.BlockLegal, n.policy("", "court"), "from the start on")

	replace := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(list+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(list+".new", list))
	}
	replace(strings.Repeat("x", 300<<10))
	require.NoError(t, os.Chmod(list, 0o600))
	n.Hear(signed(t, "other", 1, true))
	n.kept(t)
	require.Equal(t, waypost.BlockLegal, n.policy("", "court"), "a list that is too long changes nothing")
	require.NoError(t, os.Remove(list))
	require.Eventually(t, func() bool { return n.policy("", "court") == 0 }, 10*time.Second, time.Millisecond)
}

func TestBlocks_ListedByHandAreAddressesAsPeopleHaveThem(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "blocked")
	require.NoError(t, syscall.Mkfifo(list, 0o600))
	log := &bytes.Buffer{}
	b := blocks.New(blocks.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	b.Open(filepath.Join(dir, "blocks"), list, func(host string) bool { return host == "go.example.com" })
	require.Contains(t, log.String(), "is no regular file", "a pipe does not hold the edge up")

	require.NoError(t, os.Remove(list))
	require.NoError(t, os.WriteFile(list, []byte("https://GO.example.com/phish\nHTTPS://own.example.com:443/sale legal\n"+
		"bücher.example/sale\nown.example.com//phish\nftp://own.example.com/phish\n"), 0o600))
	b = blocks.New(blocks.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	b.Open(filepath.Join(dir, "blocks"), list, func(host string) bool { return host == "go.example.com" })
	require.Equal(t, waypost.BlockGone, b.Policy(nil, []byte("phish"), false))
	require.Equal(t, waypost.BlockLegal, b.Policy([]byte("own.example.com"), []byte("sale"), false))
	for _, line := range []string{"line 3", "line 4", "line 5"} {
		require.Contains(t, log.String(), line, "it would have no effect, so the log says so")
	}
}

func TestBlocks_KnowWhatAnotherLacks(t *testing.T) {
	own, theirs := begin(t, t.TempDir()), begin(t, t.TempDir())
	own.Hear(signed(t, "both", 1, true), signed(t, "newer", 5, false), signed(t, "mine", 3, true))
	theirs.Hear(signed(t, "both", 1, true), signed(t, "newer", 4, true), signed(t, "theirs", 9, true))
	var known [][]byte
	for _, b := range theirs.All() {
		known = append(known, replication.AppendBlock(nil, &b))
	}
	lacking := own.Lacking(theirs.Shards(), known)
	require.Len(t, lacking, 2)
	theirs.Hear(lacking...)
	own.Hear(known...)
	require.Equal(t, own.Digest(), theirs.Digest())
	require.Empty(t, own.Lacking(nil, nil))
}

func TestBlocks_ThatCannotBeKeptHaveEffect(t *testing.T) {
	n := begin(t, t.TempDir())
	require.NoError(t, os.RemoveAll(n.dir))
	n.Hear(signed(t, "phish", 1, true))
	require.Equal(t, waypost.BlockLegal, n.policy("", "phish"))
	require.NoError(t, os.MkdirAll(n.dir, 0o700))
	n.kept(t)
	_, err := os.Stat(filepath.Join(n.dir, "blocks"))
	require.False(t, errors.Is(err, os.ErrNotExist))
}
