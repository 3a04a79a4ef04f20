package replication

import (
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

	// Trust holds the key that this node has pinned. Nil: signatures are not looked at.
	Trust *Trust

	// Peer says that the source is a replica like this one, which counts only while it is
	// of the same history and not behind: see hello.go.
	Peer bool
	// Before is the status of the sink's last follower, so that what was heard of the origin is
	// not forgotten with it.
	Before Status

	// Asked is called, by the goroutine that applies, when the source wants to know where the
	// replica stands on disk, all that was applied before included. It must not block. Nil:
	// the source is not told.
	Asked func()

	Client *http.Client // without an overall timeout; nil: one made for streams
	Logger *slog.Logger

	// Fatal decides whether an error that repeating does not heal (ErrUnauthorized,
	// ErrOtherCluster, ErrProtocol, or any other) ends the follower. Nil: none does;
	// it tries on and reports through Status.
	Fatal func(error) bool

	Silence            time.Duration // without a byte until the source counts as dead; 5 s
	BackoffMin         time.Duration // between connections; 100 ms
	BackoffMax         time.Duration // 5 s
	SnapshotBackoffMin time.Duration // between the beginnings of snapshots; 1 s
	SnapshotBackoffMax time.Duration // 1 min
	HoldRetry          time.Duration // until what is held back is tried again; 1 min
}

func (c FollowConfig) withDefaults() FollowConfig {
	setDefault(&c.Logger, slog.Default())
	setDefault(&c.Silence, 5*time.Second)
	setDefault(&c.BackoffMin, 100*time.Millisecond)
	setDefault(&c.BackoffMax, 5*time.Second)
	setDefault(&c.SnapshotBackoffMin, time.Second)
	setDefault(&c.SnapshotBackoffMax, time.Minute)
	setDefault(&c.HoldRetry, time.Minute)
	return c
}

// Follower keeps a sink in step with a source over HTTP.
type Follower struct {
	cfg    FollowConfig
	base   string
	speaks []uint16 // versions of the protocol
	client *http.Client

	// Owned by Run.
	diverged      error         // why the next connection must be a repair or a snapshot
	beyondRepair  bool          // it must be a snapshot
	repairs       int           // that failed in a row
	snapshotPause time.Duration // until the snapshot, or repair, after the next
	snapshotAt    time.Time     // when the last one began

	accepted chan struct{} // gets a token when what is held is to be tried again

	mu     sync.Mutex
	status Status
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
	f := &Follower{cfg: cfg, base: strings.TrimRight(cfg.URL, "/"), speaks: spoken, client: cfg.Client, status: cfg.Before, accepted: make(chan struct{}, 1)}
	f.status.Connected, f.status.Restoring, f.status.Repairing, f.status.Failures, f.status.Wait = false, false, false, 0, Wait{}
	if f.client == nil {
		f.client = NewClient(nil)
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

// Run follows until ctx ends, whose error it returns, or until an error that
// FollowConfig.Fatal picks, which it returns. It is called once.
func (f *Follower) Run(ctx context.Context) error {
	if f.cfg.Client == nil {
		defer f.client.CloseIdleConnections()
	}
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
		f.noteEnd(err, failures)
		if held, ok := errors.AsType[*Held](err); ok { // by a repair or a snapshot
			f.noteHeld(held)
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

// jitter spreads a herd: between half and all of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// logEnd says the first failure, and then each that is twice as many.
func (f *Follower) logEnd(err error, failures int) {
	level := slog.LevelWarn
	if failures&(failures-1) != 0 {
		level = slog.LevelDebug
	}
	f.cfg.Logger.Log(context.Background(), level, "the stream ended; following again", "error", err, "failures", failures)
}

// session is one connection, or one repair or snapshot, which alone end without an error.
// It is fruitful when something came of it, so that the next may be tried soon.
func (f *Follower) session(ctx context.Context) (fruitful bool, err error) {
	p := f.cfg.Sink.Position()
	if f.diverged == nil && !p.IsZero() && !f.midRepair() {
		return f.stream(ctx, p)
	}
	if err := f.pace(ctx); err != nil {
		return false, err
	}
	if f.repairable(p) {
		fruitful, err := f.repair(ctx)
		if !errors.Is(err, errBeyondRepair) {
			return fruitful, err
		}
		f.cfg.Logger.Warn("the replica is beyond repair, or a repair is not worth it", "error", err)
		f.beyondRepair = true
	}
	return f.snapshot(ctx)
}

// stream applies what the source sends, until something ends it.
func (f *Follower) stream(ctx context.Context, p waypost.Position) (fruitful bool, err error) {
	d, err := f.connect(ctx, PathStream, url.Values{"after": {p.String()}}, p)
	if err != nil {
		return false, err
	}
	defer d.close()
	f.noteConnected(p)
	var b Batch
	for {
		t, _, payload, err := d.next()
		if err != nil {
			if reset, ok := errors.AsType[*resetError](err); ok && !f.knowsBetter(d, reset, p) {
				f.diverged = reset
			}
			return fruitful, err
		}
		switch t {
		case frameBatch:
			err = f.applyBatch(ctx, d, payload, &b, p, f.cfg.Sink.Apply)
			p = f.cfg.Sink.Position()
			if held, ok := heldBy(err); ok {
				f.noteHeld(held)
				return true, f.whileHeld(d)
			}
			if err == nil {
				f.cfg.Trust.settled(p)
				f.noteApplied()
			}
		case frameHeartbeat:
			err = f.beat(payload, d)
		case frameAsk:
			if f.cfg.Asked != nil {
				f.cfg.Asked()
			}
		default:
			err = fmt.Errorf("%w: a %s on the stream", errFrame, t)
		}
		if errors.Is(err, ErrDiverged) {
			f.diverged = err
		}
		if err != nil {
			return false, err // it may well be the same again
		}
		fruitful = true
		f.notePosition(p)
	}
}

// applyBatch hands on a batch that follows on p. One that does not is the
// connection's fault and not the replica's: a new connection is enough.
func (f *Follower) applyBatch(ctx context.Context, d *dial, payload []byte, b *Batch, p waypost.Position,
	apply func(context.Context, *Batch) error,
) error {
	if err := f.takeBatch(d, payload, b, p); err != nil {
		return err
	}
	if b.Epoch != p.Epoch || b.Transactions[0].Seq != p.Seq+1 {
		return fmt.Errorf("%w: sequence %d of epoch %d came after %d of epoch %d", errMisplaced,
			b.Transactions[0].Seq, b.Epoch.Ordinal, p.Seq, p.Epoch.Ordinal)
	}
	if err := apply(ctx, b); err != nil {
		return fmt.Errorf("apply sequence %d to %d: %w", b.Transactions[0].Seq, b.Last().Seq, err)
	}
	return nil
}

func (f *Follower) beat(payload []byte, d *dial) error {
	h, err := f.takeHeartbeat(d, payload)
	if err != nil {
		return err
	}
	return f.cfg.Sink.Heartbeat(h)
}

// takeHeartbeat decodes a heartbeat, and takes its word when it is signed as it must be.
func (f *Follower) takeHeartbeat(d *dial, payload []byte) (Head, error) {
	h, err := decodeHeartbeat(payload)
	if err != nil {
		return h, err
	}
	if h.Cluster != d.hello.Cluster {
		return h, fmt.Errorf("%w: a heartbeat of another cluster", errFrame)
	}
	h.Signature = d.signed
	if err := f.cfg.Trust.checkHead(&h, d.word); err != nil {
		return h, err
	}
	f.noteHead(h)
	return h, nil
}

// takeBatch decodes a batch that must be signed, if a key is pinned. Of a signed one that
// reaches back further than p only what follows is to be applied: a source that did not
// sign it cannot cut it.
func (f *Follower) takeBatch(d *dial, payload []byte, b *Batch, p waypost.Position) error {
	b.Frame, b.Signature = d.frames.raw(), Signature{}
	if err := decodeBatch(payload, b); err != nil {
		return err
	}
	signed, err := f.cfg.Trust.checkBatch(d.hello.Cluster, b, payload, &d.signed)
	if err != nil {
		return err
	}
	if signed {
		b.Signature = d.signed
	}
	b.skip(p)
	return nil
}
