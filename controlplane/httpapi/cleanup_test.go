package httpapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane"
)

// cleanup is a Cleanup that never changes.
type cleanup struct{}

func (cleanup) CleanupStats(context.Context) (controlplane.CleanupStats, error) {
	return controlplane.CleanupStats{
		LastRun: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), TotalCleaned: 7, LastBatch: 3, Successful: 2, Failed: 1,
		AverageMillis: 1.5, Running: true, Backlog: 4,
	}, nil
}

func TestOperatorsSeeWhatTheCleanupDid(t *testing.T) {
	a := start(t)
	res := a.do(call{path: "/api/admin/cleanup/stats", key: operatorKey})
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, `{"last_cleanup_time": "2031-05-06T07:08:09Z", "total_cleaned": 7, "last_batch_size": 3, "successful_runs": 2,
		"failed_runs": 1, "average_cleanup_ms": 1.5, "is_running": true, "backlog": 4}`, res.text)
	requireProblem(t, a.do(call{path: "/api/admin/cleanup/stats", key: strangerKey}), 403, "forbidden")
}

func TestEveryOperationThatNeedsAKeyDocumentsItsLimits(t *testing.T) {
	a := start(t)
	limited := 0
	for name, op := range operations(t, object(t, a.get("/openapi.json").text)) {
		answers := op["responses"].(map[string]any)
		if len(op["security"].([]any)) == 0 {
			continue
		}
		limited++
		require.Contains(t, answers, "429", name)
		require.Contains(t, answers["429"].(map[string]any)["headers"], "Retry-After", name)
		for status, answer := range answers {
			if status != "401" && status != "default" {
				require.Contains(t, answer.(map[string]any)["headers"], "RateLimit-Remaining", "%s %s", name, status)
			}
		}
	}
	require.Positive(t, limited)
}
