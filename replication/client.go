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
	"strconv"
	"strings"
	"time"

	"waypost"
)

// Errors that a follower may meet for good: trying again does not help until
// somebody changes something. [FollowConfig].Fatal decides whether they end it.
var (
	// ErrUnauthorized says that the source refused the credential (401 or 403).
	ErrUnauthorized = errors.New("the source refused the token")
	// ErrOtherCluster says that the source serves another installation.
	ErrOtherCluster = errors.New("the source belongs to another cluster")
	// ErrProtocol says that the source speaks no version of the protocol that the follower does.
	ErrProtocol = errors.New("the source speaks another version of the protocol")
)

var (
	errNoRoute   = errors.New("the source does not know the route: is its URL right, and its version not older?")
	errBusy      = errors.New("the source answered 503")
	errSilent    = errors.New("the source fell silent")
	errBye       = errors.New("the source said bye")
	errOlder     = errors.New("the source is in an older history than the replica")
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

// dial is one HTTP connection to the source, past its hello.
type dial struct {
	body    io.ReadCloser
	frames  *frameReader
	hello   Head
	signed  Signature // that came before the present frame; zero: there was none
	key     []byte    // that the source announced
	whole   bool      // slots are asked for, and not the tail
	word    []byte    // testimony that came before the present frame; nil: there was none
	records uint64    // about how many a snapshot has; 0: not known
	busy    bool      // as many snapshots are under way at the source as may be
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	silence time.Duration
}

// connect asks for path and reads the hello. While the source is busy it asks again. All
// waiting on the source, from the first byte of a request on, is bounded by the silence.
func (f *Follower) connect(ctx context.Context, path string, query url.Values, at waypost.Position) (*dial, error) {
	defer f.noteTurn()
	return f.connectWhile(ctx, path, query, at, f.noteWaiting)
}

// connectWhile is connect with a function that is called at each refusal.
func (f *Follower) connectWhile(ctx context.Context, path string, query url.Values, at waypost.Position, wait func()) (*dial, error) {
	for {
		d, err := f.dial(ctx, path, query, at)
		busy, ok := errors.AsType[*busyError](err)
		if !ok {
			return d, err
		}
		wait()
		if err := sleep(ctx, jitter(2*busy.after)); err != nil {
			return nil, err
		}
	}
}

// busyError says that the source serves as many snapshots as it may, and when to ask again.
type busyError struct{ after time.Duration }

func (*busyError) Error() string { return "the source serves as many snapshots as it may" }

// retryAfter reads the Retry-After of a refusal, within bounds.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil {
		seconds = 1
	}
	return time.Duration(min(max(seconds, 1), 60)) * time.Second
}

// dial makes one connection.
func (f *Follower) dial(ctx context.Context, path string, query url.Values, at waypost.Position) (_ *dial, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &dial{ctx: ctx, cancel: cancel, silence: f.cfg.Silence, whole: path != PathStream}
	d.timer = time.AfterFunc(d.silence, func() { cancel(errSilent) })
	defer func() {
		if err != nil {
			d.close()
		}
	}()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Accept", ContentType)
	req.Header.Set(HeaderProtocol, versionList(f.speaks))
	req.Header.Set(HeaderNode, f.cfg.Node)
	req.Header.Set(HeaderRegion, string(f.cfg.Region))
	if !at.IsZero() {
		req.Header.Set(HeaderPosition, at.String())
	}
	if witness := f.cfg.Trust.Witness(); witness != "" {
		req.Header.Set(HeaderWitness, witness)
	}
	if f.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+f.cfg.Token)
	}
	res, err := f.client.Do(req) //nolint:bodyclose // dial.close does
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
	if err := f.noteVia(parseVia(res.Header.Get(HeaderVia))); err != nil {
		return nil, err
	}
	if err := f.readHello(d); err != nil {
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
		if res.Header.Get(HeaderBusy) != "" {
			return &busyError{retryAfter(res)}
		}
		return fmt.Errorf("%w: %s", errBusy, refusalText(res))
	case http.StatusNotAcceptable:
		if res.Header.Get(HeaderProtocol) != "" {
			return fmt.Errorf("%w: %s", ErrProtocol, refusalText(res))
		}
		fallthrough
	default:
		return fmt.Errorf("the source answered %d: %s", res.StatusCode, refusalText(res))
	}
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || t != ContentType {
		return fmt.Errorf("the source answered with %q instead of a stream: is its URL right?", res.Header.Get("Content-Type"))
	}
	return nil
}

// Read reads from the source, and gives up once nothing has come for the silence.
// The clock runs only here: a replica that takes its time is not the source's fault.
func (d *dial) Read(p []byte) (int, error) {
	d.timer.Reset(d.silence)
	n, err := d.body.Read(p)
	d.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.explain(err)
	}
	return n, err
}

// explain puts the cause in place of "context canceled".
func (d *dial) explain(err error) error {
	if cause := context.Cause(d.ctx); cause != nil {
		return cause
	}
	return err
}

func (d *dial) close() {
	d.timer.Stop()
	d.cancel(context.Canceled)
	if d.body != nil {
		_ = d.body.Close() // nothing more is wanted from it
	}
	if d.frames != nil {
		d.frames.close()
	}
}

// next gives the next frame that the caller has to judge: bye and reset have
// become errors, and types that are not known are passed over.
func (d *dial) next() (frameType, byte, []byte, error) {
	d.signed, d.word = Signature{}, nil
	for {
		t, flags, payload, err := d.frames.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // whoever ends a stream says why
		}
		if err != nil {
			return 0, 0, nil, err
		}
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
			d.word = bytes.Clone(payload)
		case frameKey:
			d.key = bytes.Clone(payload)
		case frameHello, frameBatch, frameHeartbeat, frameSlots, frameEnd, frameAsk, frameSums:
			return t, flags, payload, nil
		}
	}
}

// readBuffer is what a follower takes off a connection at once, in bytes.
const readBuffer = 64 << 10

// NewClient makes the client of a follower; secure is for https, nil for the defaults.
// It has no limit for a whole request: a stream lasts. It follows no
// redirects, which would take the token elsewhere, and speaks HTTP/1.1, so that
// each stream has a connection of its own.
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
