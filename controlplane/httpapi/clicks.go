package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
)

const (
	clicksType = "application/vnd.waypost.clicks"

	// maxPackedBatch bounds a body, in bytes. Zstd makes incompressible data a little
	// longer, and a batch of the allowed size must not be refused.
	maxPackedBatch = clickbatch.MaxBytes + clickbatch.MaxBytes/256 + 1<<10

	// maxIngests bounds the batches that are unpacked and counted at once, and so memory
	// and connections to the database. Others wait.
	maxIngests = 4

	batchReadTimeout = 30 * time.Second
	ingestTimeout    = 25 * time.Second
)

// ingest takes batches of clicks from edges.
type ingest struct {
	store   controlplane.ClickStore
	log     *slog.Logger
	metrics ingestMetrics
	zstd    *zstd.Decoder
	bodies  chan struct{} // one token for each body in memory
	slots   chan struct{}
}

// ingestAnswer reports up to which batch of its boot the clicks are counted.
type ingestAnswer struct {
	Watermark  uint64 `json:"watermark"`
	DeadLetter bool   `json:"dead_letter,omitzero"`
}

// Ingest takes batches of clicks, one encoded [waypost.ClickBatch] a POST, compressed
// with zstd. Behind an [EdgeGate] it takes only batches that the sender may bring, and
// any batch without a gate.
//
// It answers 200 and the watermark when the batch is settled, now or earlier, 409 and the
// watermark when batches before it are missing, and a problem otherwise: 422 for an
// invalid batch, 503 when another try is of use.
//
// A nil logger logs nothing, a nil registerer registers no metrics. Ingest panics
// when the metrics are already registered.
func Ingest(store controlplane.ClickStore, logger *slog.Logger, metrics prometheus.Registerer) http.Handler {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(maxIngests), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(clickbatch.MaxBytes), zstd.WithDecoderMaxWindow(clickbatch.MaxBytes))
	if err != nil {
		panic("httpapi: zstd: " + err.Error()) // the options above are wrong
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &ingest{store: store, log: logger, metrics: newIngestMetrics(metrics), zstd: z, bodies: make(chan struct{},
		4*maxIngests), slots: make(chan struct{}, maxIngests)}
}

func (in *ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	receipt, err := in.storeBatch(w, r)
	outcome := "taken"
	gap, isGap := errors.AsType[*controlplane.ClickGapError](err)
	switch {
	case isGap:
		outcome = "gap"
		writeJSON(w, http.StatusConflict, &ingestAnswer{Watermark: gap.Watermark})
	case err != nil:
		p := in.problem(r.Context(), err)
		if outcome = "refused"; p.Status >= http.StatusInternalServerError {
			outcome = "failed"
		}
		writeProblem(w, p)
	default:
		switch {
		case receipt.DeadLetter:
			outcome = "dead-letter"
		case receipt.Voided:
			outcome = "void"
		}
		writeJSON(w, http.StatusOK, &ingestAnswer{Watermark: receipt.Watermark, DeadLetter: receipt.DeadLetter})
	}
	in.metrics.observe(outcome, receipt, time.Since(started))
}

// storeBatch passes a request's batch to the store.
func (in *ingest) storeBatch(w http.ResponseWriter, r *http.Request) (none controlplane.ClickReceipt, err error) {
	select {
	case in.bodies <- struct{}{}:
		defer func() { <-in.bodies }()
	case <-r.Context().Done():
		return none, waypost.WrapError(waypost.EUnavailable, "too many batches are waiting", r.Context().Err())
	}
	packed, err := readBatch(w, r)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), ingestTimeout)
	defer cancel()
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return none, waypost.WrapError(waypost.EUnavailable, "too many batches are waiting", ctx.Err())
	}
	body, err := in.zstd.DecodeAll(packed, nil)
	if err != nil {
		return none, waypost.WrapError(waypost.EInvalid, "the body cannot be decompressed to at most "+strconv.Itoa(clickbatch.MaxBytes)+" bytes", err)
	}
	b, err := clickbatch.Decode(body)
	if err != nil {
		return none, err
	}
	if err := edgeFrom(r.Context()).mayShip(ctx, b.Node); err != nil {
		return none, err
	}
	return in.store.IngestClicks(ctx, &b, sha256.Sum256(body), body)
}

// readBatch reads the body of a request that declares it as a batch. A body that is too
// long can never be taken, and is refused like a broken one.
func readBatch(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost {
		p := newProblem(codeMethodNotAllowed, "send batches with POST")
		p.header.Set("Allow", http.MethodPost)
		return nil, p
	}
	if r.Header.Get("Content-Type") != clicksType || r.Header.Get("Content-Encoding") != "zstd" {
		p := newProblem(codeUnsupportedMedia, "send Content-Type: "+clicksType+" and Content-Encoding: zstd")
		p.Title = "The body must be a batch of clicks"
		return nil, p
	}
	// Not every ResponseWriter has a deadline. It must not stay on the connection, because
	// it would end the counting.
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(batchReadTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
	}
	packed, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPackedBatch))
	if err == nil {
		if err := conn.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
		}
		return packed, nil
	}
	err = unreadable(err, maxPackedBatch)
	if waypost.CodeOf(err) == waypost.ETooLarge {
		return nil, waypost.WrapError(waypost.EInvalid, waypost.MessageOf(err), err)
	}
	return nil, err
}

// problem turns an error into the part that an edge may see, and logs the rest.
func (in *ingest) problem(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := newProblem(waypost.CodeOf(err), waypost.MessageOf(err))
	if p.Status == http.StatusInternalServerError {
		in.log.WarnContext(ctx, "cannot take a batch of clicks; the edge sends it again", "error", err)
		return newProblem(waypost.EInternal, "internal error")
	}
	in.log.WarnContext(ctx, "refused a batch of clicks", "status", p.Status, "error", err)
	return p
}

// ingestMetrics counts batches of clicks by outcome. A repeated batch is counted again,
// its clicks are not.
type ingestMetrics struct {
	batches  *prometheus.CounterVec
	clicks   *prometheus.CounterVec
	redated  prometheus.Counter
	dropped  prometheus.Counter
	duration prometheus.Histogram
}

func newIngestMetrics(r prometheus.Registerer) ingestMetrics {
	f := promauto.With(r)
	m := ingestMetrics{
		batches: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_click_batches_total",
			Help: "Batches of clicks that edges have sent, by outcome.",
		}, []string{"outcome"}),
		clicks: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_clicks_ingested_total",
			Help: "Clicks that were counted, for links or for codes without a link.",
		}, []string{"of"}),
		redated: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_clicks_redated_total",
			Help: "Clicks with an impossible time, which are counted at the time of receipt.",
		}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_clicks_reported_dropped_total",
			Help: "Clicks that edges report as dropped for lack of room; they are counted nowhere else.",
		}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "waypost_click_batch_duration_seconds",
			Help:    "Time from a batch's headers to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}),
	}
	// Outcomes begin at zero, so that an alert sees the first of them.
	for _, outcome := range []string{"taken", "void", "gap", "dead-letter", "refused", "failed"} {
		m.batches.WithLabelValues(outcome)
	}
	for _, of := range []string{"links", "unknown"} {
		m.clicks.WithLabelValues(of)
	}
	return m
}

func (m *ingestMetrics) observe(outcome string, r controlplane.ClickReceipt, took time.Duration) {
	m.batches.WithLabelValues(outcome).Inc()
	m.clicks.WithLabelValues("links").Add(float64(r.Clicks))
	m.clicks.WithLabelValues("unknown").Add(float64(r.Unknown))
	m.redated.Add(float64(r.Redated))
	m.dropped.Add(float64(r.Dropped))
	m.duration.Observe(took.Seconds())
}
