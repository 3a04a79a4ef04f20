package httpapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// cleanup is a Cleanup that never changes.
type cleanup struct{}

func (cleanup) CleanupStats(context.Context) (api.CleanupStats, error) {
	return api.CleanupStats{
		LastCleanupTime: new(time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)), TotalCleaned: 7, LastBatchSize: 3, SuccessfulRuns: 2, FailedRuns: 1,
		AverageCleanupMS: 1.5, IsRunning: true, Backlog: 4,
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

// digests knows that the rows differ from the digest, until it is recomputed.
type digests struct{}

func (digests) State(_ context.Context, actor controlplane.Actor) (controlplane.DigestState, error) {
	return controlplane.DigestState{Digest: controlplane.Digest{
		Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: 7}, Seq: 9}, Head: 1, Rows: 255, Records: 3, At: time.Unix(1_800_000_000, 0),
	}}, actor.CheckOperator()
}

func (d digests) Check(ctx context.Context, actor controlplane.Actor, recompute bool) (controlplane.DigestState, error) {
	s, err := d.State(ctx, actor)
	if recompute {
		s.Digest.Head = s.Digest.Rows
	}
	return s, err
}

func TestDigest_IsShownToOperators(t *testing.T) {
	a := start(t)
	const differs = `{"control_plane": "c1", "running": false, "checked_at": "2027-01-15T08:00:00Z", "equal": false,
		"position": {"epoch": 7, "seq": 9}, "digest": "0000000000000001", "rows_digest": "00000000000000ff", "records": 3, "error": null}`
	require.JSONEq(t, differs, a.do(call{path: "/api/admin/digest", key: operatorKey}).text)
	post := func(body, key string) answer {
		return a.do(call{method: "POST", path: "/api/admin/digest", body: body, key: key})
	}
	require.JSONEq(t, differs, post(`{}`, operatorKey).text)
	require.Equal(t, true, object(t, post(`{"recompute": true}`, operatorKey).text)["equal"])
	requireProblem(t, post(`{"recompute": true}`, strangerKey), 403, "forbidden")
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
