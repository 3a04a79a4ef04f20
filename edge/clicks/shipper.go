package clicks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"waypost/api/requestid"
	"waypost/internal/failpoint"
)

// ShipConfig says where batches go. Zero fields mean the default.
type ShipConfig struct {
	URL   string // required: of the control plane, without a path
	Token string // the edge token

	// Client makes the requests; its Timeout bounds each of them. Default: one of its
	// own, 30 s.
	Client *http.Client

	// MinBackoff and MaxBackoff bound the pause after a failure, which doubles from
	// one to the next and has jitter. Defaults: 200 ms, 10 s. The control plane may
	// ask for a longer one, of up to a minute.
	MinBackoff, MaxBackoff time.Duration
}

func (c ShipConfig) withDefaults() (ShipConfig, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return c, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return c, errors.New("its URL must be http or https, with a host")
	}
	c.Client = cmp.Or(c.Client, &http.Client{Timeout: 30 * time.Second})
	c.MinBackoff = cmp.Or(c.MinBackoff, 200*time.Millisecond)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, failpoint.Limit("clicks are sent again within", 10*time.Second))
	return c, nil
}

// shipper sends batches, one at a time.
type shipper struct {
	*base
	catalog   *catalog
	retention *retention
	batcher   *batcher
	sealed    <-chan struct{} // closed when no further clicks will come
	closing   chan struct{}
	turn      chan struct{} // has a token while Ship runs, and from close on

	// The state of a running Ship:
	cfg      ShipConfig
	client   *client
	failures int       // in a row
	suspect  time.Time // streams that were confirmed before may have been forgotten
}

func newShipper(b *base, c *catalog, r *retention, bat *batcher, sealed <-chan struct{}) *shipper {
	return &shipper{
		base: b, catalog: c, retention: r, batcher: bat, sealed: sealed,
		closing: make(chan struct{}), turn: make(chan struct{}, 1),
	}
}

// close ends Ship and waits for it.
func (s *shipper) close() {
	close(s.closing)
	s.turn <- struct{}{}
}

// Ship sends the journal's batches until ctx ends, the journal is closed, or it is sealed
// and all its batches have been shipped. It ships boots one after the other, the oldest
// first, and the batches of a boot in order, each until it is acknowledged. While the
// control plane refuses a node's clicks, the boots of that node wait and others go first.
// An error means that the configuration is wrong; no answer of the control plane ends
// Ship. Of several callers all but one wait.
func (j *Journal) Ship(ctx context.Context, cfg ShipConfig) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("ship clicks to the control plane: %w", err)
	}
	s := j.shipper
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil
	case <-s.closing:
		return nil
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch.Go(func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	s.cfg, s.client, s.failures, s.suspect = cfg, newClient(cfg), 0, time.Now()
	s.run(ctx)
	return nil
}

func (s *shipper) run(ctx context.Context) {
	again := time.NewTicker(confirmEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		// Looked at first, so that batches made before the end are found below.
		sealed := false
		select {
		case <-s.sealed:
			sealed = true
		default:
		}
		st, b, ok := s.catalog.oldest(time.Now())
		if !ok && sealed && s.drain() {
			continue
		}
		s.catalog.removeDrained()
		var err error
		asked, question := ok, requestid.New(ctx)
		if ok {
			err = s.ship(question, st, b)
		} else if st = s.catalog.unconfirmed(s.suspect); st != nil && !sealed {
			asked = true
			err = s.confirm(question, st)
		}
		switch {
		case err != nil && ctx.Err() == nil && s.backOff(question, st, err):
		case err != nil && ctx.Err() == nil:
			s.pause(question, b, err)
		case asked:
			s.failures = 0
			s.catalog.accepted(st)
		case sealed && !s.catalog.waits():
			return
		default:
			s.idle(ctx, again.C)
		}
	}
}

// idle waits until there may be a batch to send.
func (s *shipper) idle(ctx context.Context, again <-chan time.Time) {
	var over <-chan time.Time
	if until := s.catalog.backoffEnds(time.Now()); !until.IsZero() {
		over = time.After(time.Until(until))
	}
	select {
	case <-s.batchWaits:
	case <-over:
	case <-again:
		s.suspect = time.Now().Add(-confirmEvery)
	case <-ctx.Done():
	}
}

// confirmEvery is the interval at which the shipper asks whether the control plane still
// has the acknowledged batches of a boot that ships nothing. It also asks at the start,
// and after an outage.
const confirmEvery = time.Hour

// confirm sends the newest acknowledged batch of a boot again, which changes nothing
// unless the control plane has forgotten it.
func (s *shipper) confirm(ctx context.Context, st *stream) error {
	newest := s.retention.newest(st) // 0 if it expired a moment ago
	body, ok := s.retention.body(st, newest)
	if ok {
		a, err := s.post(ctx, body)
		if err != nil {
			return err
		}
		if a.verdict == gap && a.watermark < newest {
			return s.fill(ctx, st, a.watermark+1, newest+1)
		}
	}
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	st.confirmed = time.Now()
	return nil
}

// drain makes the next batches of a sealed journal, and reports whether any batch waits.
// If it reports false, no click is left, or batches cannot be made and their clicks
// remain for the next start.
func (s *shipper) drain() bool {
	if err := s.batcher.advanceNow(true); err != nil {
		s.diskFailed("cannot make batches of clicks: their clicks stay in the journal", err)
	}
	_, _, ok := s.catalog.oldest(time.Now())
	return ok
}

// ship sends one batch and acts on the answer. An error means that the batch stays.
func (s *shipper) ship(ctx context.Context, st *stream, b waitingBatch) error {
	file := st.batch(b.seq, fixed)
	f, err := readBatch(s.dir, file)
	if err != nil {
		if !unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
			s.counts.diskErrors.Add(1)
			return err
		}
		if err := s.putAway(st, quarantineDir, file); err != nil {
			return err
		}
		s.counts.quarantined.Add(1)
		s.log.Error("quarantined a batch of clicks that cannot be read",
			"batch", file.String(), "clicks", b.clicks, "error", err)
		return nil
	}
	failpoint.Hit("send batch: begun")
	a, err := s.post(ctx, f.body)
	if err != nil {
		return err
	}
	failpoint.Hit("send batch: answered")
	switch {
	case a.verdict == refused || a.verdict == taken && a.deadLetter:
		if err := s.putAway(st, deadDir, file); err != nil {
			return err
		}
		s.counts.dead.Add(b.clicks)
		s.log.ErrorContext(ctx, "put a batch of clicks away as a dead letter, because the control plane does not count it",
			"batch", file.String(), "clicks", b.clicks, "answer", a.detail)
		return nil
	case a.watermark >= b.seq:
		s.counts.shipped.Add(b.clicks)
		s.catalog.acknowledge(st, true)
		return nil
	case a.verdict == gap && a.watermark+1 < b.seq:
		return s.fill(ctx, st, a.watermark+1, b.seq)
	}
	return fmt.Errorf("the control plane answered batch %d with watermark %d", b.seq, a.watermark)
}

// putAway keeps a batch for the operator and continues as if it were acknowledged. It
// links the file instead of moving it, because its boot may still need the checkpoint.
func (s *shipper) putAway(st *stream, dir string, file name) error {
	err := os.Link(s.dir.path(file.String()), s.dir.path(filepath.Join(dir, file.String())))
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		s.counts.diskErrors.Add(1)
		return fmt.Errorf("put a batch of clicks away: %w", err)
	}
	s.catalog.acknowledge(st, false)
	return nil
}

// fill sends batches again that were acknowledged or put away, and that the control plane
// no longer knows: the sequences from first to before end. It sends an empty batch in
// place of one that is no longer retained or that the control plane would not count.
func (s *shipper) fill(ctx context.Context, st *stream, first, end uint64) error {
	s.log.WarnContext(ctx, "sending batches of clicks again, or empty ones in their places, because the control plane lost them or would not count them",
		"boot", st.boot.String(), "first", first, "batches", end-first)
	var voids uint64
	defer func() {
		if voids > 0 {
			s.log.Error("cannot send clicks again that the control plane lost: their batches are no longer retained",
				"boot", st.boot.String(), "batches", voids)
		}
	}()
	for seq := first; seq < end; seq++ {
		if body, ok := s.retention.body(st, seq); ok {
			a, err := s.post(ctx, body)
			switch {
			case err != nil:
				return err
			case a.verdict == taken && a.watermark >= seq && !a.deadLetter:
				s.counts.resent.Add(1)
				continue
			case a.verdict == gap:
				return fmt.Errorf("the control plane asks for batch %d and refuses it as one beyond watermark %d", seq, a.watermark)
			case a.verdict == taken && a.watermark >= seq:
				continue
			}
		}
		a, err := s.post(ctx, s.batcher.empty(st, seq))
		if err != nil {
			return err
		}
		if a.verdict != taken || a.watermark < seq {
			return fmt.Errorf("the control plane does not take an empty batch for sequence %d: %s", seq, a.detail)
		}
		voids++
		s.counts.voided.Add(1)
	}
	return nil
}

// backOff lets the boots of a node wait if the control plane refuses its clicks, and
// leaves other nodes alone. It reports whether that is the error.
func (s *shipper) backOff(ctx context.Context, st *stream, err error) bool {
	if r, ok := errors.AsType[*retryError](err); !ok || r.status != http.StatusForbidden {
		return false
	}
	refusals := s.catalog.backOff(st, func(refusals int) time.Duration { return s.wait(refusals, err) })
	if bits.OnesCount(uint(refusals)) == 1 {
		s.log.WarnContext(ctx, "cannot ship a node's clicks, because the control plane refuses them: they wait, and delay no others",
			"node", st.node, "failures", refusals, "error", err)
	}
	return true
}

// pause waits before the next try. It logs the first failure, the second, the fourth, and
// so on.
func (s *shipper) pause(ctx context.Context, b waitingBatch, err error) {
	s.failures++
	s.suspect = time.Now()
	wait := s.wait(s.failures, err)
	if bits.OnesCount(uint(s.failures)) == 1 {
		s.log.WarnContext(ctx, "cannot ship clicks: they wait",
			"seq", b.seq, "failures", s.failures, "error", err)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// wait returns the pause after that many failures in a row.
func (s *shipper) wait(failures int, err error) time.Duration {
	const longest = time.Minute
	wait := s.cfg.MinBackoff << min(failures-1, 20)
	if wait <= 0 || wait > s.cfg.MaxBackoff {
		wait = s.cfg.MaxBackoff
	}
	wait = wait/2 + rand.N(wait/2+1)
	if r, ok := errors.AsType[*retryError](err); ok {
		wait = max(wait, min(r.after, longest))
	}
	return wait
}

// post sends a batch, and counts it when it has to be sent again.
func (s *shipper) post(ctx context.Context, body []byte) (answer, error) {
	a, err := s.client.post(ctx, body)
	r, answered := errors.AsType[*retryError](err)
	switch {
	case err == nil, ctx.Err() != nil:
	case !answered:
		s.counts.unanswered.Add(1)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		s.counts.refused.Add(1)
	default:
		s.counts.unavailable.Add(1)
	}
	return a, err
}
