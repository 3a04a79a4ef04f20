package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost/api"
)

// ReaperStore deletes the rows of a Reaper. Each call is a step that handles at most
// limit links or keys, and returns their number. Several instances may run steps at once.
type ReaperStore interface {
	// ClaimCleanup begins a run, which ends after limit at the latest, unless another
	// instance's run is under way.
	ClaimCleanup(ctx context.Context, limit time.Duration) (claimed bool, err error)
	// EndCleanup ends a claimed run.
	EndCleanup(ctx context.Context, failed bool, took time.Duration) error
	// CleanupStats returns the totals of the reapers of all instances.
	CleanupStats(ctx context.Context) (api.CleanupStats, error)

	// ExpireLinks turns links that expired longer ago than buffer into tombstones, and
	// counts them in the statistics. Links with a target for visitors after the expiry
	// stay.
	ExpireLinks(ctx context.Context, buffer time.Duration, limit int) (int, error)
	// PurgeLinks removes tombstones that are older than after, through the changelog,
	// with their clicks. The codes are never used again.
	PurgeLinks(ctx context.Context, after time.Duration, limit int) (int, error)
	// SweepClicks removes clicks of links that are gone, which were counted after the
	// purge. Each call looks at some links, and the next call at others.
	SweepClicks(ctx context.Context) (int, error)
	// DeleteKeys deletes API keys that have expired, or were revoked, longer ago than after.
	DeleteKeys(ctx context.Context, after time.Duration, limit int) (int, error)
}

// MaxBacklog is the greatest backlog that is counted.
const MaxBacklog = 1_000_000

// ReaperConfig configures a Reaper. Zero fields mean the default, except PurgeAfter and
// KeysAfter, where zero means at once, and Buffer, where it means none.
type ReaperConfig struct {
	Store       ReaperStore   // required
	Interval    time.Duration // from run to run; default 15 min
	BatchSize   int           // links of a transaction; default 1,000
	MaxDuration time.Duration // of a run; default 5 min
	Buffer      time.Duration // for clocks that differ
	PurgeAfter  time.Duration
	KeysAfter   time.Duration
	Patience    time.Duration // with the database, when a run ends; default 2 s

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: none
}

// Reaper cleans up in small steps: expired links become tombstones, old tombstones are
// purged, and old API keys are deleted.
type Reaper struct {
	cfg     ReaperConfig
	cleaned *prometheus.CounterVec
	runs    *prometheus.CounterVec
	backlog prometheus.Gauge
}

// NewReaper returns a Reaper; Run does the work.
func NewReaper(cfg ReaperConfig) *Reaper {
	if cfg.Interval == 0 {
		cfg.Interval = 15 * time.Minute
	}
	if cfg.BatchSize == 0 {
		cfg.BatchSize = 1_000
	}
	if cfg.MaxDuration == 0 {
		cfg.MaxDuration = 5 * time.Minute
	}
	if cfg.Patience == 0 {
		cfg.Patience = noteTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := promauto.With(cfg.Metrics)
	return &Reaper{
		cfg: cfg,
		cleaned: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_cleanup_rows_total", Help: "What this control plane's cleanup removed: links expired, links purged, links of which clicks came after that, API keys deleted.",
		}, []string{"kind"}),
		runs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_cleanup_runs_total", Help: "Runs of the cleanup on this control plane.",
		}, []string{"outcome"}),
		backlog: f.NewGauge(prometheus.GaugeOpts{
			Name: "waypost_cleanup_backlog", Help: "Expired links that are to become tombstones, as far as a million; of the whole cluster.",
		}),
	}
}

// Run cleans up at every interval until ctx ends. It then stops after the batch that
// is under way.
func (r *Reaper) Run(ctx context.Context) {
	Poll(ctx, r.cfg.Interval, r.Once, func(err error) {
		r.cfg.Logger.Warn("cannot clean up, will try again", "error", err)
	})
}

// noteTimeout bounds the write at the end of a run, also when ctx has ended.
const noteTimeout = 2 * time.Second

// Once does one run, unless another instance's run is under way.
func (r *Reaper) Once(ctx context.Context) (err error) {
	if stats, err := r.cfg.Store.CleanupStats(ctx); err == nil {
		r.backlog.Set(float64(stats.Backlog))
	}
	claimed, err := r.cfg.Store.ClaimCleanup(ctx, r.cfg.MaxDuration+time.Minute)
	if err != nil || !claimed {
		return err
	}
	started := time.Now()
	err = r.clean(ctx, started.Add(r.cfg.MaxDuration))
	failed := err != nil && ctx.Err() == nil // to be stopped is no failure
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Patience)
	defer cancel()
	outcome := "success"
	if failed {
		outcome = "failure"
	}
	r.runs.WithLabelValues(outcome).Inc()
	return errors.Join(err, r.cfg.Store.EndCleanup(ctx, failed, time.Since(started)))
}

// clean does batch after batch until nothing is left or the deadline passes. The next
// run does the rest. When one kind fails, the others go on.
func (r *Reaper) clean(ctx context.Context, deadline time.Time) error {
	s := r.cfg.Store
	var failed error
	for _, step := range []struct {
		kind string
		do   func() (int, error)
	}{
		{"expired", func() (int, error) { return s.ExpireLinks(ctx, r.cfg.Buffer, r.cfg.BatchSize) }},
		{"purged", func() (int, error) { return s.PurgeLinks(ctx, r.cfg.PurgeAfter, r.cfg.BatchSize) }},
		{"swept", func() (int, error) { return s.SweepClicks(ctx) }},
		{"keys", func() (int, error) { return s.DeleteKeys(ctx, r.cfg.KeysAfter, r.cfg.BatchSize) }},
	} {
		for time.Now().Before(deadline) {
			if err := ctx.Err(); err != nil {
				return errors.Join(failed, err)
			}
			n, err := step.do()
			r.cleaned.WithLabelValues(step.kind).Add(float64(n))
			failed = errors.Join(failed, err)
			if n <= r.cfg.BatchSize/2 {
				break // the rest is not to be had now, or just came
			}
		}
	}
	return failed
}
