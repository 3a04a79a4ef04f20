package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"waypost"
)

// FollowConfig configures a [Follower]. Zero fields mean the default.
type FollowConfig struct {
	URL    string // required: base URL of the source, http or https, without the route
	Token  string // sent as a bearer token; none when empty
	Node   string // this node's name, for the source's log
	Region waypost.Region
	Sink   Sink // required

	// Trust holds the key that this node has pinned. Nil: signatures are not verified.
	Trust *Trust

	// Blocks takes the blocks of codes that come from the source and hold by Trust. Nil:
	// they are ignored.
	Blocks *BlockSet

	// Before is the status of the sink's last follower, so that its news of the origin is
	// kept.
	Before Status

	// Asked is called, by the goroutine that applies, when the source wants to know where
	// the replica stands on disk, including everything applied before. It must not block.
	// Nil: the request is ignored.
	Asked func()

	Client *http.Client // without an overall timeout; nil: one made for streams
	Logger *slog.Logger

	// Fatal decides whether an error that does not go away by repeating (ErrUnauthorized,
	// ErrOtherCluster, ErrProtocol, or any other) ends the follower. Nil: none does, and the
	// follower tries on and reports the error in its Status.
	Fatal func(error) bool

	Silence            time.Duration // without a frame, or a further 64 KiB of one, until the source counts as dead; 5 s
	BackoffMin         time.Duration // between connections; 100 ms
	BackoffMax         time.Duration // 5 s
	SnapshotBackoffMin time.Duration // between the beginnings of snapshots; 1 s
	SnapshotBackoffMax time.Duration // 1 min
	HoldRetry          time.Duration // until what is held back is tried again; 1 min
}

func (c FollowConfig) withDefaults() FollowConfig {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Silence = cmp.Or(c.Silence, 5*time.Second)
	c.BackoffMin = cmp.Or(c.BackoffMin, 100*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 5*time.Second)
	c.SnapshotBackoffMin = cmp.Or(c.SnapshotBackoffMin, time.Second)
	c.SnapshotBackoffMax = cmp.Or(c.SnapshotBackoffMax, time.Minute)
	c.HoldRetry = cmp.Or(c.HoldRetry, time.Minute)
	return c
}

// Follower keeps a sink in step with a source over HTTP.
type Follower struct {
	cfg    FollowConfig
	source *client
	status *statusBoard

	accepted chan struct{} // has a token when what is held back is to be tried again

	// The goroutine of Run owns the rest.
	diverged     error    // the reason for a repair or a snapshot; nil: the stream comes next
	beyondRepair bool     // a snapshot is needed
	repairs      int      // that failed in a row
	cooldown     cooldown // of repairs and snapshots
}

// NewFollower checks the configuration. Nothing happens until Run.
func NewFollower(cfg FollowConfig) (*Follower, error) {
	if cfg.Sink == nil {
		return nil, errors.New("follow: a sink is required")
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("follow: %q must be a base URL such as https://control.example.com", cfg.URL)
	}
	cfg = cfg.withDefaults()
	f := &Follower{
		cfg: cfg, accepted: make(chan struct{}, 1),
		cooldown: cooldown{least: cfg.SnapshotBackoffMin, most: cfg.SnapshotBackoffMax},
	}
	base := strings.TrimRight(cfg.URL, "/")
	f.status = newStatusBoard(cfg.Before, base, cfg.Logger)
	f.source = &client{cfg: &f.cfg, base: base, http: cfg.Client, status: f.status}
	if f.source.http == nil {
		f.source.http = NewClient(nil)
	}
	return f, nil
}

// Follow runs a new [Follower] until ctx ends or an error is fatal.
func Follow(ctx context.Context, cfg FollowConfig) error {
	f, err := NewFollower(cfg)
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

// Status returns a copy of the present status. Any goroutine may call it.
func (f *Follower) Status() Status { return f.status.get() }

// Run follows until ctx ends or FollowConfig.Fatal picks an error. It returns ctx's error
// or the picked one. It is called once.
func (f *Follower) Run(ctx context.Context) error {
	if f.cfg.Client == nil {
		defer f.source.http.CloseIdleConnections()
	}
	var saving sync.WaitGroup
	defer saving.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	saving.Go(func() { f.cfg.Trust.saveUntil(ctx, f.cfg.Logger) })
	backoff := f.cfg.BackoffMin
	failures := 0
	for {
		fruitful, err := f.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fruitful {
			backoff, failures = f.cfg.BackoffMin, 0
		} else {
			failures++
		}
		if err == nil {
			continue // the replica is whole again, the stream is next
		}
		f.status.disconnected(err, failures, f.cfg.Sink.Position())
		if held, ok := errors.AsType[*Held](err); ok { // by a repair or a snapshot
			f.status.held(held)
			if err := f.awaitAcceptance(ctx); err != nil {
				return err
			}
			continue
		}
		if f.cfg.Fatal != nil && f.cfg.Fatal(err) {
			return err
		}
		f.logEnd(err, failures)
		if err := sleep(ctx, jitter(backoff)); err != nil {
			return err
		}
		backoff = min(2*backoff, f.cfg.BackoffMax)
	}
}

// jitter spreads a herd: it returns between half and all of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// logEnd logs a failure as a warning if its number is a power of two.
func (f *Follower) logEnd(err error, failures int) {
	level := slog.LevelWarn
	if failures&(failures-1) != 0 {
		level = slog.LevelDebug
	}
	f.cfg.Logger.Log(context.Background(), level, "the stream ended; following again", "error", err, "failures", failures)
}

// session is one connection, or one repair or snapshot; only these end without an error.
// It is fruitful when it brought something, so that the next may be tried soon.
func (f *Follower) session(ctx context.Context) (fruitful bool, err error) {
	p := f.cfg.Sink.Position()
	if f.diverged == nil && !p.IsZero() && !f.midRepair() {
		return f.stream(ctx, p)
	}
	if err := f.cooldown.wait(ctx); err != nil {
		return false, err
	}
	if f.repairable(p) {
		fruitful, err := f.repair(ctx)
		if !errors.Is(err, errBeyondRepair) {
			return fruitful, err
		}
		f.cfg.Logger.Warn("cannot repair the replica, or a repair is not worth it", "error", err)
		f.beyondRepair = true
	}
	return f.snapshot(ctx)
}

// stream applies the frames of the source until one of them, or the connection, ends it.
func (f *Follower) stream(ctx context.Context, p waypost.Position) (fruitful bool, err error) {
	d, err := f.source.connect(ctx, PathStream, url.Values{"after": {p.String()}}, p)
	if err != nil {
		return false, err
	}
	defer d.close()
	f.status.connected(p)
	var b Batch
	for {
		t, _, payload, err := d.next()
		if err != nil {
			if reset, ok := errors.AsType[*resetError](err); ok {
				f.diverged = reset
			}
			return fruitful, err
		}
		switch t {
		case frameBatch:
			err = applyBatch(ctx, d, payload, &b, p, f.cfg.Sink.Apply)
			p = f.cfg.Sink.Position()
			if held, ok := heldBy(err); ok {
				f.status.held(held)
				return true, f.readWhileHeld(d)
			}
			if err == nil {
				f.cfg.Trust.settled(p)
				f.status.applied()
			}
		default:
			err = f.takeOther(d, t, payload)
		}
		if errors.Is(err, ErrDiverged) {
			f.diverged = err
		}
		if err != nil {
			return false, err // the next connection may well end alike
		}
		fruitful = true
		f.status.moved(p)
	}
}

// takeOther takes a frame of the stream that is not a batch.
func (f *Follower) takeOther(d *sourceConn, t frameType, payload []byte) error {
	switch t {
	case frameHeartbeat:
		h, err := d.heartbeat(payload)
		if err != nil {
			return err
		}
		return f.cfg.Sink.Heartbeat(h)
	case frameReport:
		if f.cfg.Asked != nil {
			f.cfg.Asked()
		}
		return nil
	default:
		return fmt.Errorf("%w: a %s on the stream", errFrame, t)
	}
}

// applyBatch applies a batch that follows on p.
func applyBatch(ctx context.Context, d *sourceConn, payload []byte, b *Batch, p waypost.Position,
	apply func(context.Context, *Batch) error,
) error {
	if err := d.batch(payload, b, p); err != nil {
		return err
	}
	if err := apply(ctx, b); err != nil {
		return fmt.Errorf("apply sequence %d to %d: %w", b.Transactions[0].Seq, b.Last().Seq, err)
	}
	return nil
}

// stretch is a part of the changelog that a snapshot or a repair needs after its slots,
// which were read at various positions: from the lowest of these to past the highest.
type stretch struct {
	lowest, highest waypost.Position
	digest          uint64 // at highest, then at the tail's end
}

// read notes that slots were read at a head; false when the head is not of the stretch's
// history.
func (s *stretch) read(h *Head) bool {
	at := h.Position
	if at.Epoch != s.lowest.Epoch || at.Seq < s.lowest.Seq || at.Seq == s.lowest.Seq && at != s.lowest {
		return false
	}
	if at.Seq > s.highest.Seq {
		s.highest, s.digest = at, h.Digest
	}
	return true
}

// tail applies a stretch of the changelog, and takes the applied batches off it.
func (f *Follower) tail(ctx context.Context, s *stretch, apply func(context.Context, *Batch) error) (progress bool, err error) {
	p := s.lowest
	d, err := f.source.connect(ctx, PathStream, url.Values{"after": {p.String()}}, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	var b Batch
	for p.Seq < s.highest.Seq {
		t, _, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			if _, err := d.heartbeat(payload); err != nil {
				return progress, err
			}
		case frameBatch:
			if err := applyBatch(ctx, d, payload, &b, p, apply); err != nil {
				if errors.Is(err, errMisplaced) || errors.Is(err, errFrame) || errors.Is(err, ErrSignature) {
					return progress, err
				}
				return progress, fmt.Errorf("%w: %w", errLocal, err)
			}
			p = b.Last()
			s.lowest, s.digest = p, b.Transactions[len(b.Transactions)-1].Digest
			progress = true
		case frameReport: // an unfinished replica has no position to report
		default:
			return progress, fmt.Errorf("%w: a %s on the stream", errFrame, t)
		}
	}
	return progress, nil
}

var (
	// errLocal marks an error of the replica, which another connection cannot heal.
	errLocal = errors.New("the replica")
	// errHistory says that the parts of a snapshot belong to different histories.
	errHistory = errors.New("the source changed its history during the snapshot")
)

// hopeless is an error that does not go away by repeating.
type hopeless struct{ error }

func (e *hopeless) Unwrap() error { return e.error }

// resumes bounds how often in a row a snapshot or a repair goes on after a cut that
// brought nothing.
const resumes = 5

// retry repeats a step that a cut connection may have ended, as long as it makes
// progress.
func (f *Follower) retry(ctx context.Context, what string, step func(context.Context) (bool, error)) error {
	for idle := 0; ; {
		progress, err := step(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if never, ok := errors.AsType[*hopeless](err); ok {
			return never.error
		}
		if _, reset := errors.AsType[*resetError](err); reset || errors.Is(err, errLocal) || errors.Is(err, errHistory) {
			return err
		}
		if progress {
			idle = 0
		}
		if idle++; idle > resumes && !errors.Is(err, errRefused) {
			return err
		}
		f.cfg.Logger.Warn("the "+what+" was cut; going on", "error", err)
		if err := sleep(ctx, jitter(min(f.cfg.BackoffMin<<min(idle-1, 16), f.cfg.BackoffMax))); err != nil {
			return err
		}
	}
}

// cooldown spaces repairs and snapshots. A repair or snapshot soon after another waits
// twice as long, because a source and a replica that never agree must not use up the
// network.
type cooldown struct {
	least, most time.Duration
	pause       time.Duration // before the next
	began       time.Time     // the last one; zero: none did
}

func (c *cooldown) wait(ctx context.Context) error {
	if !c.began.IsZero() && time.Since(c.began) > 2*c.most {
		c.pause = 0 // the last one held
	}
	if c.pause > 0 {
		return sleep(ctx, jitter(c.pause)-time.Since(c.began))
	}
	return nil
}

func (c *cooldown) begun(at time.Time) {
	c.began = at
	c.pause = min(max(2*c.pause, c.least), c.most)
}

func reasonOf(err error) string {
	if err == nil {
		return "the replica is empty"
	}
	return err.Error()
}
