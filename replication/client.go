package replication

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
func (c *client) connect(ctx context.Context, path string, query url.Values, at waypost.Position) (*sourceConn, error) {
	defer c.status.admitted()
	for {
		d, err := c.dial(ctx, path, query, at)
		refused, ok := errors.AsType[*busyError](err)
		if !ok {
			return d, err
		}
		c.status.busy()
		if err := sleep(ctx, jitter(2*refused.after)); err != nil {
			return nil, err
		}
	}
}

// dial makes one connection and reads its hello.
func (c *client) dial(ctx context.Context, path string, query url.Values, at waypost.Position) (_ *sourceConn, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &sourceConn{client: c, ctx: ctx, cancel: cancel, silence: c.cfg.Silence, slots: path != PathStream}
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
func (c *client) readHello(d *sourceConn) error {
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
	if err := trust.meet(head.Cluster, d.key); err != nil {
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
	d.hello = head
	c.status.heard(head)
	return nil
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
