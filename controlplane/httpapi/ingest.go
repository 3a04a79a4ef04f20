package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
)

// PathClickBatches is where edges send their batches of clicks.
const PathClickBatches = "/clicks/v1/batches"

const (
	clicksType = "application/vnd.waypost.clicks"

	// maxPackedBatch bounds a body, in bytes: zstd makes what cannot be compressed a
	// little longer, and a batch that an edge may make must not be refused for good.
	maxPackedBatch = clickbatch.MaxBytes + clickbatch.MaxBytes/256 + 1<<10

	// maxIngests bounds the batches that are unpacked and counted at once, and with
	// them memory and connections to the database. Others wait.
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

// ingestAnswer is how far a boot of an edge has been counted.
type ingestAnswer struct {
	Watermark  uint64 `json:"watermark"`
	DeadLetter bool   `json:"dead_letter,omitempty"`
}

// Ingest takes batches of clicks, one encoded [waypost.ClickBatch] a POST, compressed
// with zstd. Behind an [EdgeGate] it takes only those that the sender may bring; without one
// it does not ask who sends them.
//
// It answers 200 and the watermark when the batch is settled, now or earlier, 409 and the
// watermark when batches before it are missing, and a problem otherwise: 422 for
// what is no batch and never will be, 503 for what is worth another try.
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
	return &ingest{store: store, log: logger, metrics: newIngestMetrics(metrics), zstd: z, bodies: make(chan struct{}, 4*maxIngests), slots: make(chan struct{}, maxIngests)}
}

func (in *ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	receipt, err := in.take(w, r)
	outcome := "taken"
	gap, isGap := errors.AsType[*controlplane.ClickGapError](err)
	switch {
	case isGap:
		outcome = "gap"
		writeAnswer(w, http.StatusConflict, ingestAnswer{Watermark: gap.Watermark})
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
		writeAnswer(w, http.StatusOK, ingestAnswer{Watermark: receipt.Watermark, DeadLetter: receipt.DeadLetter})
	}
	in.metrics.observe(outcome, receipt, time.Since(started))
}

// take brings a request's batch to the store.
func (in *ingest) take(w http.ResponseWriter, r *http.Request) (none controlplane.ClickReceipt, err error) {
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
		return none, waypost.WrapError(waypost.EInvalid, "the body cannot be decompressed, or not to "+strconv.Itoa(clickbatch.MaxBytes)+" bytes or fewer", err)
	}
	b, err := clickbatch.Decode(body)
	if err != nil {
		return none, err
	}
	if err := speakerOf(r.Context()).mayShip(ctx, b.Node); err != nil {
		return none, err
	}
	return in.store.IngestClicks(ctx, &b, sha256.Sum256(body), body)
}

// readBatch reads the body of a request that says of itself what it should. One
// that is too long can never be taken, and is refused like one that is broken.
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
	// Not every ResponseWriter has a deadline. One that is left on the connection
	// would end the counting.
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

// problem is what an edge may know of an error; the log has the rest.
func (in *ingest) problem(ctx context.Context, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := newProblem(waypost.CodeOf(err), waypost.MessageOf(err))
	if p.Status == http.StatusInternalServerError {
		in.log.ErrorContext(ctx, "a batch of clicks could not be taken", slog.Any("error", err))
		return newProblem(waypost.EInternal, "internal error")
	}
	in.log.WarnContext(ctx, "a batch of clicks was not taken", slog.Int("status", p.Status), slog.Any("error", err))
	return p
}

func writeAnswer(w http.ResponseWriter, status int, a ingestAnswer) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(a); err != nil {
		panic("httpapi: " + err.Error()) // a number and a truth can be encoded
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error means that the edge has left; it will send the batch again.
	_, _ = w.Write(body.Bytes())
}
