package clicks

import (
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
		c.MaxBackoff = 10 * time.Second
	}
	return c, nil
}

// Ship sends the journal's batches until ctx ends, the journal is closed, or it is
// sealed and everything has been shipped. Boots come one after the other, the oldest
// first, and the batches of a boot in their order, each again and again until it is
// acknowledged. An error means that the configuration is wrong; nothing that the
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
	s := &shipper{j: j, cfg: cfg, client: newClient(cfg)}
	s.run(ctx)
	return nil
}

// shipper sends batches, one at a time.
type shipper struct {
	j        *Journal
	cfg      ShipConfig
	client   *client
	failures int // in a row
}

func (s *shipper) run(ctx context.Context) {
	for ctx.Err() == nil {
		// Looked at first: what is fixed before the journal is sealed is found below.
		sealed := false
		select {
		case <-s.j.sealed:
			sealed = true
		default:
		}
		l, b, ok := s.j.oldest()
		switch {
		case ok:
			if err := s.ship(ctx, l, b); err != nil && ctx.Err() == nil {
				s.pause(ctx, b, err)
			} else {
				s.failures = 0
			}
		case sealed:
			return
		default:
			select {
			case <-s.j.wake:
			case <-ctx.Done():
			}
		}
	}
}

// oldest gives the batch to send next.
func (j *Journal) oldest() (*lane, waitingBatch, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lanes {
		if len(l.waiting) > 0 {
			return l, l.waiting[0], true
		}
	}
	return nil, waitingBatch{}, false
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
	a, err := s.post(ctx, f.body)
	if err != nil {
		return err
	}
	switch {
	case a.verdict == refused || a.verdict == taken && a.deadLetter:
		s.j.counts.dead.Add(b.clicks)
		s.j.log.Error("the control plane does not count a batch of clicks; it is kept apart",
			slog.String("batch", file.String()), slog.Uint64("clicks", b.clicks), slog.String("answer", a.detail))
		return s.putAside(l, deadDir, file)
	case a.watermark >= b.seq:
		s.j.counts.shipped.Add(b.clicks)
		s.j.acknowledge(l)
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
	s.j.acknowledge(l)
	return nil
}

// fill sends empty batches for the sequences from first to before end: they were
// acknowledged, or kept apart, and the control plane no longer knows of them.
func (s *shipper) fill(ctx context.Context, l *lane, first, end uint64) error {
	s.j.log.Error("the control plane has lost batches of clicks, or would not count them: empty ones take their places",
		slog.String("boot", l.boot.String()), slog.Uint64("first", first), slog.Uint64("batches", end-first))
	for seq := first; seq < end; seq++ {
		void := newBatchFile(s.j.zstd, &waypost.ClickBatch{Node: l.node, Boot: l.boot.id, Seq: seq}, 0, cover{})
		a, err := s.post(ctx, void.body)
		if err != nil {
			return err
		}
		if a.verdict != taken || a.watermark < seq {
			return fmt.Errorf("the control plane does not take an empty batch for sequence %d: %s", seq, a.detail)
		}
		s.j.counts.voided.Add(1)
	}
	return nil
}

// pause waits before the next try. The log hears of the first failure, the second,
// the fourth, and so on.
func (s *shipper) pause(ctx context.Context, b waitingBatch, err error) {
	s.failures++
	const longest = time.Minute
	wait := s.cfg.MinBackoff << min(s.failures-1, 20)
	if wait <= 0 || wait > s.cfg.MaxBackoff {
		wait = s.cfg.MaxBackoff
	}
	wait = wait/2 + rand.N(wait/2+1)
	if r, ok := errors.AsType[*retryError](err); ok {
		wait = max(wait, min(r.after, longest))
	}
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
