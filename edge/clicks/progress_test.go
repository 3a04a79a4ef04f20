package clicks_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

func TestProgress_ReportsWhatIsNotCountedYet(t *testing.T) {
	cp := newControlPlane(t)
	began := time.Now()
	j := open(t, config(t.TempDir()))
	require.Equal(t, clicks.Progress{}, j.Progress())
	record(t, j, "spring", 3)
	record(t, j, "autumn", 2)
	require.Equal(t, clicks.Progress{Pending: 5}, j.Progress())
	require.NoError(t, j.Seal())
	require.Equal(t, clicks.Progress{Pending: 5}, j.Progress(), "a batch that waits is not counted")
	require.NoError(t, j.Ship(t.Context(), cp.shipping()))
	p := j.Progress()
	require.Zero(t, p.Pending)
	require.WithinRange(t, p.Until, began.Add(-time.Second), time.Now())
}

func TestProgress_IsUnknownWhileClicksOfAnEarlierStartWait(t *testing.T) {
	cp := newControlPlane(t)
	cfg := config(t.TempDir())
	j := open(t, cfg)
	record(t, j, "spring", 3)
	require.NoError(t, j.Close())

	j = open(t, cfg)
	record(t, j, "spring", 4)
	require.Equal(t, clicks.Progress{Pending: 7}, j.Progress())
	cp.setFault(func(b *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
		if b.Boot == [16]byte{} {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	require.NoError(t, j.Seal())
	require.Equal(t, clicks.Progress{Pending: 7}, j.Progress())
	cp.setFault(nil)
	require.NoError(t, j.Ship(t.Context(), cp.shipping()))
	require.Zero(t, j.Progress().Pending)
	require.False(t, j.Progress().Until.IsZero())
}

func TestProgress_FollowsTheAcknowledgements(t *testing.T) {
	cp := newControlPlane(t)
	cfg := config(t.TempDir())
	cfg.FlushInterval = time.Millisecond
	j := open(t, cfg)
	shipInBackground(t, j, cp.shipping())
	record(t, j, "spring", 1)
	settled := func() bool { return j.Progress().Pending == 0 && !j.Progress().Until.IsZero() }
	require.Eventually(t, settled, 60*time.Second, time.Millisecond)

	cp.setFault(func(_ *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	record(t, j, "autumn", 2)
	recorded := time.Now()
	before := cp.asked()
	cp.await(t, "two tries", func() bool { return cp.asked() >= before+2 })
	held := j.Progress()
	require.EqualValues(t, 2, held.Pending)
	require.False(t, held.Until.IsZero())
	require.True(t, held.Until.Before(recorded))

	cp.setFault(nil)
	require.Eventually(t, func() bool { return settled() && j.Progress().Until.After(held.Until) }, 60*time.Second, time.Millisecond)
	require.Equal(t, map[string]uint64{"1/spring": 1, "1/autumn": 2}, cp.clicks)
}

// Reports go on while an edge stops.
func TestProgress_IsUnknownOnceTheJournalIsClosed(t *testing.T) {
	cp := newControlPlane(t)
	cfg := config(t.TempDir())
	cfg.FlushInterval = time.Millisecond
	j := open(t, cfg)
	shipInBackground(t, j, cp.shipping())
	record(t, j, "spring", 1)
	require.Eventually(t, func() bool { return !j.Progress().Until.IsZero() }, 60*time.Second, time.Millisecond)
	closed := inBackground(t, j.Close)
	for done := false; !done; {
		select {
		case <-closed:
			done = true
		default:
			j.Progress()
		}
	}
	require.True(t, j.Progress().Until.IsZero())
}
