package clicks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"waypost"
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
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 30 * time.Second}
	}
	if c.MinBackoff <= 0 {
		c.MinBackoff = 200 * time.Millisecond
	}
	if c.MaxBackoff <= 0 {
		c.MaxBackoff = failpoint.Limit("clicks are sent again within", 10*time.Second)
	}
	return c, nil
}

// Ship sends the journal's batches until ctx ends, the journal is closed, or it is
// sealed and everything has been shipped. Boots come one after the other, the oldest
// first, and the batches of a boot in their order, each again and again until it is
// acknowledged. A boot of a name that the control plane does not take from this edge waits, and others come first. An error means that the configuration is wrong; nothing that the
// control plane does ends it. Of several callers all but one wait.
func (j *Journal) Ship(ctx context.Context, cfg ShipConfig) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return fmt.Errorf("ship clicks to the control plane: %w", err)
	}
	select {
	case j.ship <- struct{}{}:
		defer func() { <-j.ship }()
	case <-ctx.Done():
		return nil
	case <-j.closing:
		return nil
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch.Go(func() {
		select {
		case <-j.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	s := &shipper{j: j, cfg: cfg, client: newClient(cfg), suspect: time.Now()}
	s.run(ctx)
	return nil
}

// shipper sends batches, one at a time.
type shipper struct {
	j        *Journal
	cfg      ShipConfig
	client   *client
	failures int       // in a row
	suspect  time.Time // lanes that were confirmed before may have been forgotten
}

func (s *shipper) run(ctx context.Context) {
	again := time.NewTicker(confirmEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		// Looked at first: what is fixed before the journal is sealed is found below.
		sealed := false
		select {
		case <-s.j.sealed:
			sealed = true
		default:
		}
		l, b, ok := s.j.oldest(time.Now())
		if !ok && sealed && s.j.drain() {
			continue
		}
		var err error
		asked := ok
		if ok {
			err = s.ship(ctx, l, b)
		} else if l = s.unconfirmed(); l != nil && !sealed {
			asked = true
			err = s.confirm(ctx, l)
		}
		switch {
		case err != nil && ctx.Err() == nil && s.standBack(l, err):
		case err != nil && ctx.Err() == nil:
			s.pause(ctx, b, err)
		case asked:
			s.failures = 0
			s.j.comeForward(l)
		case sealed && !s.j.waits():
			return
		default:
			s.idle(ctx, again.C)
		}
	}
}

// idle waits until there may be something to send.
func (s *shipper) idle(ctx context.Context, again <-chan time.Time) {
	var over <-chan time.Time
	if until := s.j.setAside(time.Now()); !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		over = t.C
	}
	select {
	case <-s.j.wake:
	case <-over:
	case <-again:
		s.suspect = time.Now().Add(-confirmEvery)
	case <-ctx.Done():
	}
}

// confirmEvery is how often the control plane is asked whether it still has what it has
// acknowledged of a boot that ships nothing. It is also asked at the start, and when it was
// away.
const confirmEvery = time.Hour

// unconfirmed gives a boot of which the control plane should be asked, if there is one.
func (s *shipper) unconfirmed() *lane {
	now := time.Now()
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	for _, l := range s.j.lanes {
		if len(l.kept) > 0 && len(l.waiting) == 0 && l.confirmed.Before(s.suspect) && !l.aside.After(now) {
			return l
		}
	}
	return nil
}

// confirm sends the newest acknowledged batch of a boot once more, which changes nothing
// unless it was forgotten.
func (s *shipper) confirm(ctx context.Context, l *lane) error {
	var newest uint64
	s.j.mu.Lock()
	if n := len(l.kept); n > 0 { // or it was kept for long enough a moment ago
		newest = l.kept[n-1].last
	}
	s.j.mu.Unlock()
	body, ok := s.j.keptBody(l, newest)
	if ok {
		a, err := s.post(ctx, body)
		if err != nil {
			return err
		}
		if a.verdict == gap && a.watermark < newest {
			return s.fill(ctx, l, a.watermark+1, newest+1)
		}
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	l.confirmed = time.Now()
	return nil
}

// drain makes the next batches of what a sealed journal has; false when there is nothing,
// or it cannot be done, and is the next start's.
func (j *Journal) drain() bool {
	j.fixing.Lock()
	err := j.tendAll(true)
	j.fixing.Unlock()
	if err != nil {
		j.diskFailed("batches of clicks could not be made: their clicks stay in the journal", err)
	}
	_, _, ok := j.oldest(time.Now())
	return ok
}

// void gives the body of an empty batch.
func (j *Journal) void(l *lane, seq uint64) []byte {
	j.fixing.Lock()
	defer j.fixing.Unlock()
	b := j.newBatchFile(&waypost.ClickBatch{Node: l.node, Boot: l.boot.id, Seq: seq}, 0, cover{})
	return bytes.Clone(b.body)
}

// ship sends one batch and does what the answer asks for. An error means that the
// batch stays.
func (s *shipper) ship(ctx context.Context, l *lane, b waitingBatch) error {
	file := l.batch(b.seq, fixed)
	f, err := readBatch(s.j.dir, file)
	if err != nil {
		if !unreadable(err) && !errors.Is(err, fs.ErrNotExist) {
			s.j.counts.diskErrors.Add(1)
			return err
		}
		s.j.counts.quarantined.Add(1)
		s.j.log.Error("a batch of clicks cannot be read and is quarantined",
			slog.String("batch", file.String()), slog.Uint64("clicks", b.clicks), slog.Any("error", err))
		return s.putAside(l, quarantineDir, file)
	}
	failpoint.Hit("send batch: begun")
	a, err := s.post(ctx, f.body)
	if err != nil {
		return err
	}
	failpoint.Hit("send batch: answered")
	switch {
	case a.verdict == refused || a.verdict == taken && a.deadLetter:
		s.j.counts.dead.Add(b.clicks)
		s.j.log.Error("the control plane does not count a batch of clicks; it is kept apart",
			slog.String("batch", file.String()), slog.Uint64("clicks", b.clicks), slog.String("answer", a.detail))
		return s.putAside(l, deadDir, file)
	case a.watermark >= b.seq:
		s.j.counts.shipped.Add(b.clicks)
		s.j.acknowledge(l, true)
		return nil
	case a.verdict == gap && a.watermark+1 < b.seq:
		return s.fill(ctx, l, a.watermark+1, b.seq)
	}
	return fmt.Errorf("the control plane answered batch %d with watermark %d", b.seq, a.watermark)
}

// putAside keeps a batch for the operator and goes on as if it were acknowledged.
// It is linked and not moved, because its boot may still need what it says about
// the segments.
func (s *shipper) putAside(l *lane, dir string, file name) error {
	err := os.Link(s.j.dir.path(file.String()), s.j.dir.path(filepath.Join(dir, file.String())))
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		s.j.counts.diskErrors.Add(1)
		return fmt.Errorf("keep a batch of clicks apart: %w", err)
	}
	s.j.acknowledge(l, false)
	return nil
}

// fill sends batches once more that were acknowledged, or kept apart, and of which the
// control plane no longer knows: those from first to before end. For what is gone, and what it
// would not count, it sends empty ones.
func (s *shipper) fill(ctx context.Context, l *lane, first, end uint64) error {
	s.j.log.Warn("the control plane has lost batches of clicks, or would not count them: they are sent again, or empty ones in their places",
		slog.String("boot", l.boot.String()), slog.Uint64("first", first), slog.Uint64("batches", end-first))
	var voids uint64
	defer func() {
		if voids > 0 {
			s.j.log.Error("clicks that the control plane has lost are lost: their batches are no longer kept",
				slog.String("boot", l.boot.String()), slog.Uint64("batches", voids))
		}
	}()
	for seq := first; seq < end; seq++ {
		if body, ok := s.j.keptBody(l, seq); ok {
			a, err := s.post(ctx, body)
			switch {
			case err != nil:
				return err
			case a.verdict == taken && a.watermark >= seq && !a.deadLetter:
				s.j.counts.resent.Add(1)
				continue
			case a.verdict == gap:
				return fmt.Errorf("the control plane asks for batch %d and takes it for one beyond watermark %d", seq, a.watermark)
			case a.verdict == taken && a.watermark >= seq:
				continue
			}
		}
		a, err := s.post(ctx, s.j.void(l, seq))
		if err != nil {
			return err
		}
		if a.verdict != taken || a.watermark < seq {
			return fmt.Errorf("the control plane does not take an empty batch for sequence %d: %s", seq, a.detail)
		}
		voids++
		s.j.counts.voided.Add(1)
	}
	return nil
}

// pause waits before the next try. The log hears of the first failure, the second,
// the fourth, and so on.
func (s *shipper) pause(ctx context.Context, b waitingBatch, err error) {
	s.failures++
	s.suspect = time.Now()
	wait := s.wait(s.failures, err)
	if bits.OnesCount(uint(s.failures)) == 1 {
		s.j.log.Warn("clicks could not be shipped and wait", slog.Uint64("seq", b.seq), slog.Int("failures", s.failures), slog.Any("error", err))
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// wait gives the pause after so many failures in a row.
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
		s.j.counts.unanswered.Add(1)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		s.j.counts.refused.Add(1)
	default:
		s.j.counts.unavailable.Add(1)
	}
	return a, err
}
