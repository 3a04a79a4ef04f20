package system_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/admin"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

// stale returns the seconds that an edge writes to visitors in Waypost-Stale; 0: it
// writes none.
func (e *soloEdge) stale(code string) int {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodHead, "http://"+e.status.Addr+"/"+code, http.NoBody)
	require.NoError(e.t, err)
	res, err := visitor.Do(req)
	require.NoError(e.t, err)
	require.NoError(e.t, res.Body.Close())
	require.Equal(e.t, http.StatusFound, res.StatusCode)
	text := res.Header.Get("Waypost-Stale")
	if text == "" {
		return 0
	}
	seconds, err := strconv.Atoi(text)
	require.NoError(e.t, err)
	return seconds
}

func (e *soloEdge) state() edgeState {
	e.t.Helper()
	return (&followerEdge{t: e.t, status: e.status}).state()
}

func (e *soloEdge) age() time.Duration {
	e.t.Helper()
	return time.Duration(e.state().AgeSeconds * float64(time.Second))
}

// begin starts the edge once more.
func (e *soloEdge) begin() {
	e.t.Helper()
	e.now = devtest.Spawn(e.t, e.env, "edge")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
}

func TestAStaleEdgeThatIsRestartedIsAsStaleAsBefore(t *testing.T) {
	t.Parallel()
	var control atomic.Pointer[string]
	control.Store(new(string))
	wire := replicationtest.NewWire(t, func() string { return *control.Load() })
	const bound = 2 * time.Second
	e := startSolo(t, "WAYPOST_EDGE_CONTROL_URLS="+wire.URL(), "WAYPOST_EDGE_MAX_STALENESS="+bound.String())
	addr := strings.TrimPrefix(e.system.State().Fleet, "http://")
	control.Store(&addr)
	code := e.create(1)[0]
	eventually(t, time.Minute, "young, and so told", func() bool { return e.age() < bound && e.stale(code) == 0 })
	file := filepath.Join(e.dir, "head.seen")
	eventually(t, time.Minute, "remembered", func() bool { _, err := os.Stat(file); return err == nil })

	var heard time.Time // nothing was heard after that
	cut := func() {
		t.Helper()
		const ended = "the stream ended"
		before := strings.Count(e.now.Output(), ended)
		wire.Cut()
		eventually(t, time.Minute, "cut off", func() bool { return strings.Count(e.now.Output(), ended) > before })
		heard = time.Now()
		eventually(t, time.Minute, "stale", func() bool { return time.Since(heard) > bound && e.stale(code) > 0 })
	}
	cut()
	// requireNoYounger restarts the edge, which may look older than it is by a little.
	requireNoYounger := func(again func(), older time.Duration) {
		t.Helper()
		// On a slow machine, what came last may count only after the edge has told its age.
		began, before := time.Now(), e.age()
		least := min(before, time.Since(heard))
		again()
		told, after, metric := e.stale(code), e.age(), e.metric("waypost_replica_age_seconds ")
		latest := before + time.Since(began) + older + time.Second/10
		t.Logf("%v old, and then %v", before, after)
		require.GreaterOrEqual(t, told, int(least.Seconds()))
		require.GreaterOrEqual(t, after, least)
		require.LessOrEqual(t, after, latest)
		require.GreaterOrEqual(t, metric, least.Seconds())
		require.LessOrEqual(t, metric, latest.Seconds())
		require.False(t, e.state().OriginTime.IsZero(), "what PostgreSQL's clock said is known, too")
	}
	requireNoYounger(func() { devtest.KillProcess(t, e.now.PID()); e.begin() }, 15*time.Second)
	stop := func() { devtest.StopProcess(t, e.now.PID()); require.Zero(t, e.now.ExitCode()); e.begin() }
	requireNoYounger(stop, 0)
	requireNoYounger(e.restart, 0)

	// It is young again with the control plane, and an edge that goes in order remembers
	// that to the moment: the origin is heard of for a while after the first time, which is
	// written down at once.
	for _, again := range []func(){stop, e.restart} {
		wire.Mend()
		eventually(t, time.Minute, "young again", func() bool { return e.age() < bound && e.stale(code) == 0 })
		first := e.state().OriginTime
		eventually(t, time.Minute, "heard of again", func() bool { return e.state().OriginTime.Sub(first) > time.Second })
		cut()
		requireNoYounger(again, 0)
	}

	require.NoError(t, os.WriteFile(file, []byte("rot"), 0o600))
	stop()
	require.Contains(t, e.now.Output(), "the file is set aside")
	require.Less(t, e.age(), time.Minute)
	wire.Mend()
	e.create(1)
}
