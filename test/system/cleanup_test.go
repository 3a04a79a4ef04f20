package system_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// An expired link is answered with 410 from its expiry on, then has a tombstone, and is
// answered with 404 after the purge. Its code is never issued again.
func TestCleanup_TombstonesAndPurgesAnExpiredLink(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	r := devtest.Run(t, env, "links", "create", "https://example.com/spring", "--code", "spring", "--expires-in", "1h")
	require.Zero(t, r.Code, r.Stderr)
	// The clock is moved by hand, from the link's point of view.
	cfg, err := pgx.ParseConfig(s.State().DatabaseURL)
	require.NoError(t, err)
	cfg.User = "postgres"
	hand, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { _ = hand.Close(context.Background()) }()
	hourLater := func(column string) {
		t.Helper()
		_, err := hand.Exec(t.Context(), `UPDATE link SET `+column+` = `+column+` - interval '61 minutes' WHERE code = 'spring'`)
		require.NoError(t, err)
	}
	edges := s.State().Edges
	on := func(want int) func() bool {
		return func() bool {
			for _, e := range edges {
				if status, _, err := location(t.Context(), e.URL+"/spring"); err != nil || status != want {
					return false
				}
			}
			return true
		}
	}
	eventually(t, time.Minute, "the link leads on", on(http.StatusFound))
	hourLater("expires_at")
	eventually(t, time.Minute, "it is gone", on(http.StatusGone))
	require.Zero(t, cleanupOf(t, s).TotalCleaned, "the buffer is not over, the answer came from the record itself")
	hourLater("expires_at")
	eventually(t, time.Minute, "a tombstone", func() bool { return cleanupOf(t, s).TotalCleaned == 1 })
	require.True(t, on(http.StatusGone)(), "as long as the tombstone is kept")
	hourLater("deleted_at")
	eventually(t, time.Minute, "nobody knows of it", on(http.StatusNotFound))
	stats := cleanupOf(t, s)
	require.EqualValues(t, 1, stats.LastBatchSize)
	require.Zero(t, stats.FailedRuns)
	require.Positive(t, stats.SuccessfulRuns)
	require.NotNil(t, stats.LastCleanupTime)

	r = devtest.Run(t, env, "links", "create", "https://example.com/autumn", "--code", "spring")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "never given out again")
}

type cleanupStats struct {
	LastCleanupTime *time.Time `json:"last_cleanup_time"`
	TotalCleaned    int64      `json:"total_cleaned"`
	LastBatchSize   int64      `json:"last_batch_size"`
	SuccessfulRuns  int64      `json:"successful_runs"`
	FailedRuns      int64      `json:"failed_runs"`
	Backlog         int64      `json:"backlog"`
}

func cleanupOf(t *testing.T, s *devtest.System) (now cleanupStats) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().API+"/api/admin/cleanup/stats", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.State().APIKey)
	res, err := visitor.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, json.NewDecoder(res.Body).Decode(&now))
	return now
}
