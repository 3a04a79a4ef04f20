package replication

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// Errors that do not go away when a follower tries again: somebody has to change
// something. [FollowConfig].Fatal decides whether they end the follower.
var (
	// ErrUnauthorized says that the source refused the credential (401 or 403).
	ErrUnauthorized = errors.New("the source refused the token")
	// ErrOtherCluster says that the source serves another installation.
	ErrOtherCluster = errors.New("the source belongs to another cluster")
	// ErrProtocol says that the source speaks another version of the protocol.
	ErrProtocol = errors.New("the source speaks another version of the protocol")
)

var (
	errNoRoute   = errors.New("the source does not know the route: is its URL right?")
	errRefused   = errors.New("the source answered 503")
	errSilent    = errors.New("the source fell silent")
	errBye       = errors.New("the source said bye")
	errOlder     = errors.New("the source is in an older history than the replica")
	errDivided   = errors.New("the source is in another history than the replica, and neither is the newer one")
	errLoop      = errors.New("the source has its changelog through this node")
	errBehindUs  = errors.New("the peer is not where this replica is, or is behind it")
	errMisplaced = errors.New("the frame does not follow on what was received")
)

// resetError is a reset frame: the follower needs a snapshot.
type resetError struct {
	reason ResetReason
	text   string
}

func (e *resetError) Error() string {
	return fmt.Sprintf("the source wants a snapshot taken (%s): %s", e.reason, e.text)
}

// busyError says that the source serves as many snapshots as it may, and when to ask
// again.
type busyError struct{ after time.Duration }

func (*busyError) Error() string { return "the source serves as many snapshots as it may" }

// client makes a follower's connections to its source, and judges the source at each
// hello. Its fields do not change.
type client struct {
	cfg    *FollowConfig
	base   string // URL of the source, without the route
	http   *http.Client
	status *statusBoard
}

// connect asks for path and reads the hello. While the source is busy it asks again. All
// waiting on the source, from the first byte of a request on, is bounded by the silence.
func (c *client) connect(ctx context.Context, path string, query url.Values, at waypost.Position) (*conn, error) {
	defer c.status.admitted()
	return c.connectQuietly(ctx, path, query, at, c.status.busy)
}

// connectQuietly is connect for a request that the status does not mention: busy is
// called at each refusal.
func (c *client) connectQuietly(ctx context.Context, path string, query url.Values, at waypost.Position, busy func()) (*conn, error) {
	for {
		d, err := c.dial(ctx, path, query, at)
		refused, ok := errors.AsType[*busyError](err)
		if !ok {
			return d, err
		}
		busy()
		if err := sleep(ctx, jitter(2*refused.after)); err != nil {
			return nil, err
		}
	}
}

// dial makes one connection and reads its hello.
func (c *client) dial(ctx context.Context, path string, query url.Values, at waypost.Position) (_ *conn, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &conn{client: c, ctx: ctx, cancel: cancel, silence: c.cfg.Silence, slots: path != PathStream}
	d.heard()
	d.timer = time.AfterFunc(d.silence, func() { cancel(errSilent) })
	defer func() {
		if err != nil {
			d.close()
		}
	}()

	asked := query.Encode()
	if c.cfg.Blocks != nil {
		asked += "&" + queryBlocks + "=" + blocksDigest(c.cfg.Blocks)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+asked, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Accept", ContentType)
	req.Header.Set(HeaderNode, c.cfg.Node)
	req.Header.Set(HeaderRegion, string(c.cfg.Region))
	if !at.IsZero() {
		req.Header.Set(HeaderPosition, at.String())
	}
	if testimony := c.cfg.Trust.Testimony(); testimony != "" {
		req.Header.Set(HeaderTestimony, testimony)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	res, err := c.http.Do(req) //nolint:bodyclose // conn.close does
	if err != nil {
		return nil, d.explain(fmt.Errorf("connect: %w", err))
	}
	d.body = res.Body
	if err := checkAnswer(res); err != nil {
		return nil, err
	}
	if d.frames, err = newFrameReader(d); err != nil {
		return nil, err
	}
	via := parseVia(res.Header.Get(HeaderVia))
	if c.cfg.Node != "" && slices.Contains(via, c.cfg.Node) {
		return nil, fmt.Errorf("%w: %s", errLoop, strings.Join(via, ", "))
	}
	c.status.via(via)
	if err := c.readHello(d); err != nil {
		return nil, err
	}
	if d.records, err = strconv.ParseUint(res.Header.Get(HeaderRecords), 10, 62); err != nil {
		d.records, err = 0, nil
	}
	d.busy = res.Header.Get(HeaderBusy) != ""
	return d, nil
}

func checkAnswer(res *http.Response) error {
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w (HTTP %d): %s", ErrUnauthorized, res.StatusCode, refusalText(res))
	case http.StatusNotFound:
		return errNoRoute
	case http.StatusServiceUnavailable:
		text := refusalText(res) // which leaves the connection usable
		if res.Header.Get(HeaderBusy) != "" {
			return &busyError{retryAfter(res)}
		}
		return fmt.Errorf("%w: %s", errRefused, text)
	default:
		return fmt.Errorf("the source answered %d: %s", res.StatusCode, refusalText(res))
	}
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || t != ContentType {
		return fmt.Errorf("the source answered with %q instead of a stream: is its URL right?", res.Header.Get("Content-Type"))
	}
	return nil
}

// retryAfter reads the Retry-After of a refusal, within bounds.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil {
		seconds = 1
	}
	return time.Duration(min(max(seconds, 1), 60)) * time.Second
}

// readHello judges the source before anything else from it is believed.
func (c *client) readHello(d *conn) error {
	t, _, payload, err := d.next()
	if err != nil {
		return fmt.Errorf("read the hello: %w", err)
	}
	if t != frameHello {
		return fmt.Errorf("%w: a %s where a hello must be", errFrame, t)
	}
	h, err := decodeHello(payload)
	if err != nil {
		return err
	}
	if h.protocol != ProtocolVersion {
		return fmt.Errorf("%w: it speaks %d, this node %d", ErrProtocol, h.protocol, ProtocolVersion)
	}
	head, sink, trust := h.head, c.cfg.Sink, c.cfg.Trust
	if own, ok := sink.Cluster(); ok && own != head.Cluster {
		return fmt.Errorf("%w: %x, the replica holds %x", ErrOtherCluster, head.Cluster, own)
	}
	switch its, own := head.Position.Epoch, sink.Position().Epoch; {
	case its.Ordinal < own.Ordinal:
		return fmt.Errorf("%w: epoch %d, the replica is in %d", errOlder, its.Ordinal, own.Ordinal)
	case its.Ordinal == own.Ordinal && its.ID != own.ID:
		return fmt.Errorf("%w: epoch %d is %v there, and %v here", errDivided, its.Ordinal, its.ID, own.ID)
	}
	head.Signature = d.signed
	if err := trust.meet(head.Cluster, d.key, c.cfg.Peer); err != nil {
		return err
	}
	if err := trust.checkHead(&head, d.testimony); err != nil {
		return fmt.Errorf("the hello: %w", err)
	}
	if d.slots {
		if err := trust.notBefore(&head, sink); err != nil {
			return err
		}
	}
	if c.cfg.Peer {
		if err := c.status.judgePeer(&head, sink.Position()); err != nil {
			return err
		}
	}
	d.hello = head
	c.status.heard(head)
	return nil
}

// conn is one HTTP connection to the source, after its hello. One goroutine uses it.
type conn struct {
	client    *client
	body      io.ReadCloser
	frames    *frameReader
	hello     Head
	signed    Signature // that came before the present frame; zero: none
	testimony []byte    // that came before the present frame; nil: none
	key       []byte    // that the source announced
	slots     bool      // the request reads slots, and not the stream
	records   uint64    // about how many a snapshot has; 0: not known
	busy      bool      // as many snapshots are under way at the source as may be

	// The timer ends ctx when the source falls silent.
	ctx     context.Context //nolint:containedctx // of the request
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	silence time.Duration
	left    time.Duration // of the silence
	part    int           // bytes of a frame since left was the silence
}

// framePart is the part of a frame that must come within the silence, in bytes. A source
// drops a follower that is slower than twice that (writeChunk).
const framePart = 64 << 10

// Read reads from the source, and fails when neither a whole frame nor a further part of
// one has come for the silence. Mere bytes are no sign of life, because a reader at the
// wrong place takes heartbeats for parts of a large frame. The clock runs only here,
// because a slow replica is not the source's fault.
func (d *conn) Read(p []byte) (int, error) {
	began := time.Now()
	d.timer.Reset(d.left)
	n, err := d.body.Read(p)
	d.timer.Stop()
	d.left = max(d.left-time.Since(began), 0)
	if d.part += n; d.part >= framePart {
		d.heard()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.explain(err)
	}
	return n, err
}

// heard restarts the silence.
func (d *conn) heard() { d.left, d.part = d.silence, 0 }

// explain puts the cause in place of "context canceled".
func (d *conn) explain(err error) error {
	if cause := context.Cause(d.ctx); cause != nil {
		return cause
	}
	return err
}

func (d *conn) close() {
	d.timer.Stop()
	d.cancel(context.Canceled)
	if d.body != nil {
		_ = d.body.Close() // nothing more is wanted from it
	}
	if d.frames != nil {
		d.frames.close()
	}
}

// next returns the next frame that the caller has to judge. Bye and reset become errors,
// and unknown types are skipped.
func (d *conn) next() (frameType, byte, []byte, error) {
	d.signed, d.testimony = Signature{}, nil
	for {
		t, flags, payload, err := d.frames.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a source that ends a stream says why
		}
		if err != nil {
			return 0, 0, nil, err
		}
		d.heard()
		switch t {
		case frameBye:
			if len(payload) > 0 {
				return 0, 0, nil, fmt.Errorf("%w: %s", errBye, strings.Map(oneLine, string(payload[:min(len(payload), maxResetText)])))
			}
			return 0, 0, nil, errBye
		case frameReset:
			reason, text, err := decodeReset(payload)
			if err != nil {
				return 0, 0, nil, err
			}
			return 0, 0, nil, &resetError{reason: reason, text: text}
		case frameSignature:
			if d.signed, err = decodeSignature(payload); err != nil {
				return 0, 0, nil, err
			}
		case frameTestimony:
			d.testimony = bytes.Clone(payload)
		case frameKey:
			d.key = bytes.Clone(payload)
		case frameBlocks:
			if err := d.client.takeBlocks(payload); err != nil {
				return 0, 0, nil, err
			}
		case frameHello, frameBatch, frameHeartbeat, frameSlots, frameEnd, frameReport, frameSums:
			return t, flags, payload, nil
		}
	}
}

// takeBlocks takes the blocks of a frame. Those that the pinned key has not signed are
// left out: a relay may hold some of an earlier key, and all others must have effect.
func (c *client) takeBlocks(payload []byte) error {
	all, err := decodeBlocks(payload)
	if err != nil || c.cfg.Blocks == nil {
		return err
	}
	var refused error
	sound := all[:0]
	for i := range all {
		if err := c.cfg.Trust.CheckBlock(&all[i]); err != nil {
			refused = err
			continue
		}
		sound = append(sound, all[i])
	}
	if _, err := c.cfg.Blocks.Take(sound...); err != nil || refused != nil {
		c.cfg.Logger.Error("cannot take a block from the source", "error", errors.Join(refused, err))
	}
	return nil
}

// heartbeat decodes a heartbeat and verifies its signature.
func (d *conn) heartbeat(payload []byte) (Head, error) {
	h, err := decodeHeartbeat(payload)
	if err != nil {
		return h, err
	}
	if h.Cluster != d.hello.Cluster {
		return h, fmt.Errorf("%w: a heartbeat of another cluster", errFrame)
	}
	h.Signature = d.signed
	if err := d.client.cfg.Trust.checkHead(&h, d.testimony); err != nil {
		return h, err
	}
	d.client.status.heard(h)
	return h, nil
}

// batch decodes a batch that must follow on p, and verifies its signature if a key is
// pinned. A source that passes a signed batch on cannot cut it, so that one may begin
// before p; only the rest is kept. A batch that does not follow on p is the connection's
// fault and not the replica's: a new connection is enough.
func (d *conn) batch(payload []byte, b *Batch, p waypost.Position) error {
	b.Frame, b.Signature = d.frames.raw(), Signature{}
	if err := decodeBatch(payload, b); err != nil {
		return err
	}
	signed, err := d.client.cfg.Trust.checkBatch(d.hello.Cluster, b, payload, &d.signed)
	if err != nil {
		return err
	}
	if signed {
		b.Signature = d.signed
	}
	b.skip(p)
	if b.Epoch != p.Epoch || b.Transactions[0].Seq != p.Seq+1 {
		return fmt.Errorf("%w: sequence %d of epoch %d came after %d of epoch %d", errMisplaced,
			b.Transactions[0].Seq, b.Epoch.Ordinal, p.Seq, p.Epoch.Ordinal)
	}
	return nil
}

// takeSlots passes the slots of the connection to take, until its end. It reports
// progress once a range is complete.
func (d *conn) takeSlots(take func(part *slotsPart, last bool) error) (progress bool, err error) {
	var part slotsPart
	received := uint64(0)
	for {
		t, flags, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			if _, err := d.heartbeat(payload); err != nil {
				return progress, err
			}
		case frameSlots:
			if err := decodeSlots(payload, &part); err != nil {
				return progress, err
			}
			last := flags&flagLastPart != 0
			if err := take(&part, last); err != nil {
				return progress, err
			}
			received += uint64(len(part.records))
			progress = progress || last
		case frameEnd:
			stated, err := decodeEnd(payload)
			if err == nil && stated != received {
				err = fmt.Errorf("%w: the snapshot ended after %d records of %d", errFrame, received, stated)
			}
			return progress, err
		default:
			return progress, fmt.Errorf("%w: a %s in a snapshot", errFrame, t)
		}
	}
}

// takeSums passes the sums of the connection to take, until its end.
func (d *conn) takeSums(take func(*sumsPart) error) error {
	var part sumsPart
	for {
		t, _, payload, err := d.next()
		if err != nil {
			return err
		}
		switch t {
		case frameHeartbeat:
			_, err = d.heartbeat(payload)
		case frameSums:
			if err = decodeSums(payload, &part); err == nil {
				err = take(&part)
			}
		case frameEnd:
			_, err = decodeEnd(payload)
			return err
		default:
			err = fmt.Errorf("%w: a %s among sums", errFrame, t)
		}
		if err != nil {
			return err
		}
	}
}

// Probe describes a source.
type Probe struct {
	Head   Head // its own
	Origin Head // the origin's, as the source has heard of it
	Via    []string
	Busy   bool // a snapshot cannot begin at once
}

// Look connects to the source of cfg like a follower, and leaves again. It fails when a
// follower would not stay there either.
func Look(ctx context.Context, cfg FollowConfig) (p Probe, err error) {
	f, err := NewFollower(cfg)
	if err != nil {
		return p, err
	}
	if cfg.Client == nil {
		defer f.source.http.CloseIdleConnections()
	}
	at := cfg.Sink.Position()
	d, err := f.source.connect(ctx, PathStream, url.Values{"after": {at.String()}}, at)
	if err != nil {
		return p, err
	}
	defer d.close()
	p.Head, p.Origin, p.Via, p.Busy = d.hello, d.hello, f.Status().Via, d.busy
	if at.IsZero() { // a reset comes next, and no heartbeat
		return p, nil
	}
	t, _, payload, err := d.next()
	if err == nil && t != frameHeartbeat {
		err = fmt.Errorf("%w: a %s where a heartbeat must be", errFrame, t)
	}
	if err == nil {
		p.Origin, err = decodeHeartbeat(payload)
	}
	return p, err
}

// readBuffer is the size of one read from a connection, in bytes.
const readBuffer = 64 << 10

// NewClient makes the HTTP client of a follower; secure is for https, nil for the
// defaults. It has no limit for a whole request, because a stream lasts. It follows no
// redirects, which would take the token elsewhere, and speaks HTTP/1.1, so that each
// stream has a connection of its own.
func NewClient(secure *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			TLSClientConfig:     secure,
			DisableCompression:  true,
			ReadBufferSize:      readBuffer,
			ForceAttemptHTTP2:   false,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
