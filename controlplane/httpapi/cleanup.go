package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

// Cleanup tells what the reapers of all instances did.
type Cleanup interface {
	CleanupStats(ctx context.Context) (controlplane.CleanupStats, error)
}

type cleanupOutput struct{ Body cleanupStats }

type cleanupStats struct {
	LastCleanupTime  *time.Time `json:"last_cleanup_time" doc:"When the last run ended; null before the first."`
	TotalCleaned     int64      `json:"total_cleaned" doc:"Expired links that were removed, by all control planes since the installation."`
	LastBatchSize    int64      `json:"last_batch_size" doc:"Of them, by the last transaction that removed any."`
	SuccessfulRuns   int64      `json:"successful_runs"`
	FailedRuns       int64      `json:"failed_runs"`
	AverageCleanupMS float64    `json:"average_cleanup_ms" doc:"Of a run."`
	IsRunning        bool       `json:"is_running" doc:"Whether a run is under way, on any control plane."`
	Backlog          int64      `json:"backlog" doc:"Links that have expired and are not removed yet, counted to a million. Visitors get 410 for them."`
}

func (s *server) registerCleanup() {
	if s.cleanup == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "cleanup-stats",
		Method:      http.MethodGet,
		Path:        "/api/admin/cleanup/stats",
		Summary:     "What became of links that have expired, on all control planes together",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403),
	}, s.cleanupStats)
}

func (s *server) cleanupStats(ctx context.Context, _ *struct{}) (*cleanupOutput, error) {
	if err := actorFrom(ctx).CheckOperator(); err != nil {
		return nil, err
	}
	c, err := s.cleanup.CleanupStats(ctx)
	if err != nil {
		return nil, err
	}
	return &cleanupOutput{Body: cleanupStats{
		LastCleanupTime: momentOf(c.LastRun), TotalCleaned: c.TotalCleaned, LastBatchSize: c.LastBatch,
		SuccessfulRuns: c.Successful, FailedRuns: c.Failed, AverageCleanupMS: c.AverageMillis, IsRunning: c.Running, Backlog: c.Backlog,
	}}, nil
}
