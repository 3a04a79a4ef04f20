package analytics

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

// rollerLimits bound the work of a Roller.
type rollerLimits struct {
	interval time.Duration // of rest once no part is left
	parts    int           // most in one transaction
	bytes    int           // most of their details, except a single one
	workers  int           // areas that are folded at a time
}

// Roller folds parts of clicks into counters and rollups. Several, in as many processes,
// may run at once: one works in an area of a workspace's links at a time. Each round is
// one transaction, so a Roller may end at any moment.
type Roller struct {
	db      *Store
	limits  rollerLimits
	metrics rollerMetrics
}

// NewRoller makes a roller, which registers its metrics; nil: it registers none. It
// panics when they are already registered.
func (db *Store) NewRoller(metrics prometheus.Registerer) *Roller {
	limits := rollerLimits{interval: 2 * time.Second, parts: 50_000, bytes: 32 << 20, workers: workers()}
	return &Roller{db: db, limits: limits, metrics: newRollerMetrics(metrics)}
}

// Run folds until ctx is over. It retries a failed job after a rest; clicks are counted
// and reported also while it fails.
func (r *Roller) Run(ctx context.Context) {
	every := func(what string, do func(context.Context) error) {
		r.db.pool.RunEvery(ctx, r.limits.interval, what, do)
	}
	var wg sync.WaitGroup
	wg.Go(func() { every("folding clicks of workspaces", r.foldWorkspaces) })
	// Workers do not wait for each other: a pass may take minutes while clicks come fast.
	for range r.limits.workers {
		wg.Go(func() { every("folding clicks", r.pass) })
	}
	wg.Go(func() { every("ending click budgets", r.endBudgets) })
	wg.Go(func() { every("counting the clicks of many links", r.KeepAnswers) })
	every("counting parts of clicks", r.measure)
	wg.Wait()
}

// A roller folds one of the largest areas at a time, with all those in it, under a lock.
const (
	foldLocks = 7308 // the first key of the locks
	foldLimit = time.Minute
)

// Place is a position in the order in which parts are folded: the position of a link, or
// of an area, which stands at its first link.
type Place struct{ Workspace, Link int64 }

// next is the first place behind the area of p.
func (p Place) next() Place {
	if p.Link>>largestArea == math.MaxInt64>>largestArea {
		return Place{p.Workspace + 1, math.MinInt64}
	}
	return Place{p.Workspace, (p.Link>>largestArea + 1) << largestArea}
}

// area is the first place of the area of p.
func (p Place) area() Place { return Place{p.Workspace, p.Link >> largestArea << largestArea} }

// lock is the second key of the lock of p's area. Two areas may share a lock without
// harm.
func (p Place) lock() int32 {
	h := fnv.New32a()
	for _, v := range [...]int64{p.Workspace, p.Link >> largestArea} {
		for i := range 8 {
			_, _ = h.Write([]byte{byte(v >> (8 * i))}) // never fails
		}
	}
	return int32(h.Sum32())
}

// FoldLock returns the keys of the advisory lock under which the parts of a link are
// folded.
func FoldLock(workspace, link int64) (class int, key int32) {
	return foldLocks, Place{workspace, link}.lock()
}

// workers returns how many areas are folded at a time: one more than there are
// processors, because each waits for the disk now and then, and at most four, because
// each takes a connection.
func workers() int { return min(4, runtime.GOMAXPROCS(0)+1) }

// Fold folds all parts once, except those in areas that another roller holds. An error in
// one area does not stop the others. Only one goroutine may call it at a time. Tests and
// benchmarks use it, because it returns when no part is left; Run does not.
func (r *Roller) Fold(ctx context.Context) error {
	return errors.Join(r.foldWorkspaces(ctx), r.foldLinks(ctx))
}

// foldWorkspaces folds all parts of workspaces, some in each transaction.
func (r *Roller) foldWorkspaces(ctx context.Context) error {
	for from := int64(math.MinInt64); ; {
		n, last, err := r.workspaceRound(ctx, from)
		if err != nil || n < workspacePartsAtOnce {
			return scoped.Classify("fold clicks of workspaces", err)
		}
		from = last
	}
}

func (r *Roller) workspaceRound(ctx context.Context, from int64) (n int, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	in := &folding{}
	err = pgx.BeginFunc(ctx, r.db.pool, func(tx pgx.Tx) (err error) {
		var q pgx.Batch
		scoped.Ingest.LookingUp().EnterBatch(&q)
		q.Queue(planFold, ingestTimeLimit)
		if err := tx.SendBatch(ctx, &q).Close(); err != nil {
			return err
		}
		n, last, err = in.foldWorkspaces(ctx, tx, from, math.MaxInt64)
		return err
	})
	failpoint.Hit("fold clicks: workspaces")
	if err == nil {
		r.db.logBroken(in.broken)
		r.metrics.damaged.Add(float64(len(in.broken)))
	}
	return n, last, err
}

// foldLinks folds the parts of links.
func (r *Roller) foldLinks(ctx context.Context) error {
	errs := make([]error, r.limits.workers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = r.pass(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// roundsInPlace bounds the rounds in a row that begin in the same area. The parts of busy
// links fill several. If these had one in each pass, more parts would come between two
// passes than a round takes; if they had any number, all other links would wait.
const roundsInPlace = 10

// pass folds areas that no other worker holds, and starts over if a round was full.
func (r *Roller) pass(ctx context.Context) error {
	var errs []error
	first := Place{math.MinInt64, math.MinInt64}
	full, stayed := false, 0
	for at := first; ; {
		began := time.Now()
		f, err := r.round(ctx, at)
		switch {
		case err != nil:
			r.metrics.rounds.WithLabelValues("failed").Inc()
			if errs = append(errs, err); ctx.Err() != nil || !f.found || len(errs) == maxFoldErrors {
				return errors.Join(errs...)
			}
			at = f.at.next()
		case !f.found && (!full || len(errs) > 0):
			return errors.Join(errs...)
		case !f.found:
			at, full = first, false
		default:
			r.metrics.observe(f, time.Since(began))
			at, full = f.next, full || f.full
			if stayed++; at != f.at {
				stayed = 0
			} else if stayed == roundsInPlace {
				at.Link, stayed = at.Link+1, 0
			}
		}
	}
}

// maxFoldErrors bounds the areas that may fail before a run ends.
const maxFoldErrors = 10

// round is the outcome of one round.
type round struct {
	found  bool  // there was a part
	at     Place // of the first part
	next   Place // where to go on
	busy   bool  // another roller works in the area
	parts  int
	full   bool // the limits may have cut some off
	clicks uint64
	broken []brokenPiece // pieces that could not be read
	links  []int64
}

// planFold sets up the transactions of a roller. They do not wait until they are on the
// disk: if a crash undoes one, its parts are still there and are folded again. Their
// joins look rows up one by one, because other joins read a whole table, and the planner
// takes a table for small if it was small when it was last analyzed.
const planFold = `SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
	set_config('synchronous_commit', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// findPart selects the first part from a place on.
const findPart = `
SELECT workspace_id, area FROM click_pack WHERE (workspace_id, area) >= ($1, $2)
ORDER BY workspace_id, area LIMIT 1`

// round folds the next parts of one area.
func (r *Roller) round(ctx context.Context, from Place) (f round, err error) {
	ctx, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	err = pgx.BeginFunc(ctx, r.db.pool, func(tx pgx.Tx) error {
		var q pgx.Batch
		scoped.Ingest.LookingUp().EnterBatch(&q)
		q.Queue(planFold, ingestTimeLimit)
		q.Queue(findPart, from.Workspace, from.Link).Query(scoped.Each(func(rows pgx.Rows) error {
			f.found = true
			return rows.Scan(&f.at.Workspace, &f.at.Link)
		}))
		if err := tx.SendBatch(ctx, &q).Close(); err != nil || !f.found {
			return err
		}
		f.next = f.at.next()
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1, $2)`, foldLocks, f.at.lock()).Scan(&mine); err != nil || !mine {
			f.busy = !mine
			return err
		}
		failpoint.Hit("fold clicks: begun")
		return r.db.foldArea(ctx, tx, &r.limits, &f)
	})
	failpoint.Hit("fold clicks: committed")
	if err == nil {
		r.db.logBroken(f.broken)
	}
	if err == nil && len(f.links) > 0 {
		err = r.db.cfg.Budgets.MarkExhausted(ctx, f.links)
	}
	return f, scoped.Classify("fold clicks", err)
}

// endBudgets looks through all budgets. It then rests for nine times as long as the look
// took, so that it takes at most a tenth of the time, however many budgets there are.
func (r *Roller) endBudgets(ctx context.Context) error {
	began := time.Now()
	err := r.db.cfg.Budgets.MarkAllExhausted(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(9 * time.Since(began)):
	}
	return err
}

// measure reports the backlog as metrics.
func (r *Roller) measure(ctx context.Context) error {
	var waiting int64
	var oldest *time.Time
	var now time.Time
	err := r.db.pool.QueryIn(ctx, scoped.Ingest, `
		SELECT (SELECT count(*) FROM (SELECT FROM click_pack LIMIT 10000) p), (SELECT min(received_at) FROM click_pack), now()`, nil,
		scoped.RowInto(&waiting, &oldest, &now))
	if err != nil {
		return scoped.Classify("count parts of clicks", err)
	}
	r.metrics.waiting.Set(float64(waiting))
	r.metrics.age.Set(0)
	if oldest != nil {
		r.metrics.age.Set(max(0, now.Sub(*oldest).Seconds()))
	}
	return nil
}

type rollerMetrics struct {
	waiting, age           prometheus.Gauge
	parts, clicks, damaged prometheus.Counter
	rounds                 *prometheus.CounterVec
	duration               prometheus.Histogram
}

func newRollerMetrics(reg prometheus.Registerer) rollerMetrics {
	f := promauto.With(reg)
	m := rollerMetrics{
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "waypost_click_packs",
			Help: "Rows that wait to be folded into counters and rollups, up to 10,000. A row has up to some hundred parts. Of all control planes together.",
		}),
		age: f.NewGauge(prometheus.GaugeOpts{
			Name: "waypost_click_parts_age_seconds",
			Help: "Age of the oldest part that waits to be folded; 0 when none does.",
		}),
		parts: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_click_parts_folded_total", Help: "Parts that were folded.",
		}),
		clicks: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_clicks_folded_total", Help: "Clicks of the parts that were folded.",
		}),
		damaged: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_click_set_aside_total", Help: "Parts, quarters, breakdowns and visitors that could not be read and were set aside; their clicks stay counted.",
		}),
		rounds: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_click_folds_total", Help: "Rounds of folding, by what became of them.",
		}, []string{"outcome"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "waypost_click_fold_duration_seconds", Help: "Length of a round of folding.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}),
	}
	for _, outcome := range []string{"folded", "busy", "failed"} {
		m.rounds.WithLabelValues(outcome)
	}
	return m
}

func (m *rollerMetrics) observe(f round, took time.Duration) {
	if f.busy {
		m.rounds.WithLabelValues("busy").Inc()
		return
	}
	m.rounds.WithLabelValues("folded").Inc()
	m.parts.Add(float64(f.parts))
	m.clicks.Add(float64(f.clicks))
	m.damaged.Add(float64(len(f.broken)))
	m.duration.Observe(took.Seconds())
}
