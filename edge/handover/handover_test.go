package handover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/handover"
	"waypost/internal/leaktest"
)

const (
	timeout = 60 * time.Second
	tick    = time.Millisecond
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// keeper is an incumbent that has a listener and a file.
type keeper struct {
	ln       *net.TCPListener
	lock     *os.File
	released atomic.Int64
	mu       sync.Mutex
	refuse   error
	spawn    func() (*handover.Spawned, error)
}

// set changes what comes of the next call.
func (k *keeper) set(refuse error, spawn func() (*handover.Spawned, error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse, k.spawn = refuse, spawn
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close(); _ = lock.Close() })
	return &keeper{ln: ln.(*net.TCPListener), lock: lock}
}

func (k *keeper) Release(context.Context) ([]handover.File, error) {
	k.released.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	return []handover.File{{Name: "lock", Conn: k.lock}, {Name: "listener", Conn: k.ln}}, k.refuse
}

func (k *keeper) Resume(context.Context, error) {}

func (k *keeper) Spawn() (*handover.Spawned, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.spawn()
}

// serving is a handover.Serve under way.
type serving struct {
	cancel    context.CancelFunc
	departure chan *handover.Departure
}

func serve(t *testing.T, dir string, k *keeper) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{cancel: cancel, departure: make(chan *handover.Departure, 1)}
	go func() {
		d, err := handover.Serve(ctx, handover.Config{Dir: dir, Incumbent: k, Version: "1.0", Formats: "replica 1"})
		if err != nil {
			t.Error(err)
		}
		s.departure <- d
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(handover.SocketPath(dir))
		return err == nil
	}, timeout, tick)
	t.Cleanup(func() {
		cancel()
		if d := <-s.departure; d != nil {
			_ = d.Close()
		}
	})
	return s
}

func claim(t *testing.T, dir, formats string) (*handover.Succession, error) {
	t.Helper()
	return handover.Claim(t.Context(), handover.ClaimConfig{Dir: dir, Version: "2.0", Formats: formats})
}

func TestASuccessorGetsTheSocketsThemselvesAndConnectionsThatWait(t *testing.T) {
	for name, dir := range map[string]string{
		"in a directory":                   t.TempDir(),
		"in one with a path of any length": filepath.Join(t.TempDir(), strings.Repeat("long", 50)),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.MkdirAll(dir, 0o700))
			k := newKeeper(t)
			s := serve(t, dir, k)
			info, err := os.Stat(handover.SocketPath(dir))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			waiting, err := net.Dial("tcp", k.ln.Addr().String())
			require.NoError(t, err)

			heir, err := claim(t, dir, "replica 1")
			require.NoError(t, err)
			require.Equal(t, os.Getpid(), heir.PID)
			require.Equal(t, "1.0", heir.Version)
			lock := heir.Take("lock")
			require.NotNil(t, lock)
			require.Nil(t, heir.Take("lock"), "it is given once")
			_, err = lock.WriteString("mine")
			require.NoError(t, err)
			require.NoError(t, lock.Close())
			f := heir.Take("listener")
			ln, err := net.FileListener(f)
			require.NoError(t, errors.Join(err, f.Close()))

			require.NoError(t, heir.Ready(t.Context()))
			d := <-s.departure
			require.NotNil(t, d)
			s.departure <- d
			require.NoError(t, k.ln.Close())
			conn, err := ln.Accept()
			require.NoError(t, err)
			_, err = io.WriteString(conn, "served")
			require.NoError(t, errors.Join(err, conn.Close()))
			text, err := io.ReadAll(waiting)
			require.NoError(t, errors.Join(err, waiting.Close(), ln.Close()))
			require.Equal(t, "served", string(text))

			require.NoError(t, d.Drained())
			require.NoError(t, heir.Drained(t.Context()))
			require.NoError(t, heir.Close())
			_, err = claim(t, dir, "replica 1")
			require.ErrorIs(t, err, handover.ErrNoIncumbent)
		})
	}
}

func TestWhoeverMayNotTakeOverIsToldWhy(t *testing.T) {
	dir := t.TempDir()
	_, err := claim(t, dir, "replica 1")
	require.ErrorIs(t, err, handover.ErrNoIncumbent)
	k := newKeeper(t)
	serve(t, dir, k)
	_, err = claim(t, dir, "replica 2")
	require.ErrorContains(t, err, `it (waypost 1.0) does not give way: it keeps its data as "replica 1", and that program as "replica 2"`)
	require.Zero(t, k.released.Load())

	k.set(errors.New("the disk is full"), nil)
	_, err = claim(t, dir, "replica 1")
	require.ErrorContains(t, err, "does not give way: the disk is full")
	require.EqualValues(t, 1, k.released.Load())
}

func TestOnlyTheSameUserMayTakeOverAndRootMayAskForARestart(t *testing.T) {
	own := os.Geteuid()
	for _, c := range []struct {
		kind, formats string
		version, uid  int
		refused       string
	}{
		{"claim", "replica 1", 1, own, ""},
		{"claim", "replica 1", 1, own + 1, "runs as user"},
		{"restart", "", 1, own, ""},
		{"restart", "", 1, 0, ""},
		{"restart", "", 1, own + 1, "runs as user"},
		{"claim", "replica 1", 2, own, "it speaks version 1 of the takeover, and that program version 2: stop the one, and start the other"},
		{"claim", "replica 9", 1, own, "keeps its data"},
		{"ready", "replica 1", 1, own, "no message"},
	} {
		err := handover.Judge(c.kind, c.formats, c.version, c.uid)
		if c.refused == "" {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, c.refused, "%+v", c)
		}
	}
}

func TestWhatIsNoMessageChangesNothing(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t)
	serve(t, dir, k)
	for name, text := range map[string]string{
		"no JSON":            "hello",
		"no kind":            "{}",
		"files that are not": `{"kind":"claim","protocol":1,"formats":"replica 1","files":["lock"]}`,
		"too long":           `{"kind":"claim","protocol":1,"formats":"replica 1","reason":"` + strings.Repeat("x", 17<<10) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("unixpacket", handover.SocketPath(dir))
			require.NoError(t, err)
			_, err = io.WriteString(c, text)
			require.NoError(t, err)
			answer := make([]byte, 4096)
			n, err := c.Read(answer)
			require.NoError(t, errors.Join(err, c.Close()))
			kind, reason, _, err := handover.Decode(answer[:n], 0)
			require.NoError(t, err)
			require.Equal(t, "refused", kind)
			require.Contains(t, reason, "no message")
		})
	}
	require.Zero(t, k.released.Load())
}

func TestARestartIsToldWhatCameOfIt(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t)
	s := serve(t, dir, k)
	ask := func() (int, error) {
		return handover.Restart(t.Context(), handover.ClaimConfig{Dir: dir, Version: "2.0"})
	}
	k.set(nil, func() (*handover.Spawned, error) { return nil, errors.New("it is kept by another process") })
	for range 100 { // who was told may ask again at once
		_, err := ask()
		require.ErrorContains(t, err, "the edge (waypost 1.0) goes on as it was: it is kept by another process")
	}

	done := make(chan error, 1)
	done <- fmt.Errorf("exit status %d", 2)
	k.set(nil, func() (*handover.Spawned, error) { return &handover.Spawned{Done: done}, nil })
	_, err := ask()
	require.ErrorContains(t, err, "goes on as it was: the successor ended: exit status 2")

	heirs := make(chan *handover.Succession, 1)
	k.set(nil, func() (*handover.Spawned, error) {
		go func() {
			heir, err := claim(t, dir, "replica 1")
			if err == nil {
				err = heir.Ready(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			heirs <- heir
		}()
		return &handover.Spawned{Done: make(chan error)}, nil
	})
	pid, err := ask()
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), pid)
	d := <-s.departure
	require.NotNil(t, d)
	s.departure <- d
	require.NoError(t, (<-heirs).Close())
}

func TestOnlyOneRestartIsUnderWay(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t)
	serve(t, dir, k)
	spawned, done := make(chan struct{}, 1), make(chan error, 1)
	k.set(nil, func() (*handover.Spawned, error) {
		spawned <- struct{}{}
		return &handover.Spawned{Done: done}, nil
	})
	ask := func() error {
		_, err := handover.Restart(t.Context(), handover.ClaimConfig{Dir: dir, Version: "2.0"})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- ask() }()
	<-spawned
	for range 10 { // more than there are conversations at once
		require.ErrorContains(t, ask(), "another takeover is under way")
	}
	done <- nil
	require.ErrorContains(t, <-first, "the successor ended")
}

// A process that has gone may have left its number to another one, which must not be
// taken for the successor, and killed.
func TestWhoHasGoneIsNotHeard(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t)
	ln, err := handover.Listen(t.Context(), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	c, err := net.Dial("unixpacket", handover.SocketPath(dir))
	require.NoError(t, err)
	_, err = io.WriteString(c, `{"kind":"claim","protocol":1,"formats":"replica 1"}`)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	accepted, err := ln.AcceptUnix()
	require.NoError(t, err)
	handover.Talk(t.Context(), accepted, k)
	require.Zero(t, k.released.Load())
}

func TestASuccessorThatIsReadyTooLateIsToldWhyItIsNotWanted(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, newKeeper(t))
	heir, err := claim(t, dir, "replica 1")
	require.NoError(t, err)
	s.cancel()
	s.departure <- <-s.departure // it has said all that it will
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	require.ErrorContains(t, heir.Ready(ctx), "does not give way: this edge is stopping")
	require.NoError(t, heir.Close())
}

func TestAReasonIsCutToWhatTheOtherSideTakes(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t)
	serve(t, dir, k)
	k.set(errors.New(strings.Repeat("x", 1023)+"é"), nil)
	_, err := claim(t, dir, "replica 1")
	require.ErrorContains(t, err, "does not give way: xxx")
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"claim","protocol":1,"pid":7,"version":"1.0","formats":"replica 1","files":["a"]}`), 1)
	f.Add([]byte(`{"kind":"refused","reason":"no"}`), 0)
	f.Fuzz(func(t *testing.T, b []byte, files int) {
		kind, reason, names, err := handover.Decode(b, files)
		if err == nil && (kind == "" || len(reason) > 1024 || len(names) != files) {
			t.Errorf("%q of %d files became %q, %q, %q", b, files, kind, reason, names)
		}
	})
}
