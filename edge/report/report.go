// Package report sends the control plane a report once a second: that the edge is alive,
// the position of its replica, and how many clicks wait to be counted. When a caller
// waits for a change to arrive, the control plane asks for a report, and has it at once.
//
// It is for the fleet view alone. Nothing that the edge serves depends on it: a
// report that does not get through is dropped, and the next one says more. The
// replica's stream and the clicks have connections of their own. A disk that does not
// answer delays no report, or the control plane would take the edge for silent.
package report

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/api"
	"waypost/api/edgepost"
	"waypost/api/requestid"
)

// Config configures a Reporter. The fields up to Logger are required.
type Config struct {
	URL string // of the control plane, scheme and host
	// Through wraps the transport of the requests, and adds the edge's credential.
	Through func(*http.Transport) http.RoundTripper

	Node   string
	Region waypost.Region
	Role   string         // edge or relay
	Boot   waypost.BootID // this start of the edge

	// Position and Age return the edge's present state, and must not wait for a disk.
	Position func() waypost.Position
	Synced   func() waypost.Position // what of the position a crash cannot take back
	Age      func() time.Duration    // since the replica was last known to be at the head

	// Clicks returns how many clicks are in the journal and not acknowledged (-1: unknown),
	// and the time up to which all are (zero: unknown). It may wait for a disk: then reports
	// repeat the answer before.
	Clicks func() (pending int64, until time.Time)

	// State returns the state of the replica, with the change that it holds back, if any,
	// and the load of the edge. The fields up to AdminAddr come from the fields here.
	State func() api.EdgeState

	// Order is called with each order of the control plane, at every report until it has
	// been answered. It must not block.
	Order func(api.EdgeOrder)

	// Sync makes the position durable before a report that was asked for, and may wait for
	// a disk. Reports that are due meanwhile are sent. After a failure Synced returns an
	// older position.
	Sync func()

	Logger *slog.Logger

	// Certificates returns at most most of the edge's certificates, the most important
	// first, and whether these are all. Nil: they are not reported.
	Certificates func(most int) (hosts []api.HostCertificate, complete bool)

	// Blocks holds the blocks of codes, which are compared with the control plane's
	// blocks. Nil: no comparison.
	Blocks Blocks

	Continues waypost.BootID        // boot of the program before in this process; zero: none
	Addr      string                // HOST:PORT of the redirects; may be ""
	AdminAddr string                // HOST:PORT of the admin listener; may be ""
	Version   string                // of the software; may be ""
	Metrics   prometheus.Registerer // nil: metrics are not registered

	Interval time.Duration // default 1 s
	Pause    time.Duration // between reports that are asked for; default 20 ms
	Timeout  time.Duration // for one report; default 1.5 s

	CertificatesInterval time.Duration // between reports of certificates; default 5 s
}

// Reporter sends the reports of one edge.
type Reporter struct {
	cfg     Config
	started time.Time
	client  *http.Client
	asked   chan struct{} // gets a token when a report is asked for
	synced  chan struct{} // gets a token when the position is durable for that report
	sent    *prometheus.CounterVec
	unheard atomic.Bool // a farewell did not get through

	differ    bool      // blocks differ from those of the control plane; Run owns it
	certified time.Time // when certificates were last reported; Run owns it

	clicks atomic.Pointer[clicksSeen]
}

// clicksSeen is an answer of Config.Clicks.
type clicksSeen struct {
	pending int64
	until   time.Time
}

// New makes a reporter. It sends nothing before Run.
func New(cfg Config) (*Reporter, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("report to %q: no URL such as http://10.0.0.1:8080", cfg.URL)
	}
	if !waypost.ValidNode(cfg.Node) || cfg.Region == "" || cfg.Boot == (waypost.BootID{}) {
		return nil, errors.New("report: node, region and boot are required")
	}
	if cfg.Through == nil || cfg.Role == "" || cfg.Position == nil || cfg.Synced == nil || cfg.Age == nil || cfg.Clicks == nil ||
		cfg.State == nil || cfg.Order == nil || cfg.Sync == nil || cfg.Logger == nil {
		return nil, errors.New("report: a part of the edge is missing")
	}
	cfg.Pause = cmp.Or(cfg.Pause, 20*time.Millisecond)
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	cfg.CertificatesInterval = cmp.Or(cfg.CertificatesInterval, 5*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 1500*time.Millisecond)
	r := &Reporter{
		cfg:     cfg,
		started: time.Now(),
		asked:   make(chan struct{}, 1),
		synced:  make(chan struct{}, 1),
		client: &http.Client{
			Transport: cfg.Through(&http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
				MaxConnsPerHost:     1,
				MaxIdleConnsPerHost: 1,
				IdleConnTimeout:     time.Minute,
			}),
			// A report, with its token, goes nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sent: sentCounter(cfg.Metrics),
	}
	r.clicks.Store(&clicksSeen{pending: -1})
	return r, nil
}

// sentCounter is shared by all reporters of an edge.
func sentCounter(metrics prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waypost_fleet_reports_total",
		Help: "Reports about this edge to control planes.",
	}, []string{"result"})
	if metrics == nil {
		return c
	}
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](metrics.Register(c)); ok {
		if shared, ok := there.ExistingCollector.(*prometheus.CounterVec); ok {
			return shared
		}
	}
	return c
}

// Ask makes the reporter report soon, once the changes applied by now are durable. It
// does not block, and any goroutine may call it.
func (r *Reporter) Ask() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// Announce reports once, before the edge answers its first request, so that no caller is
// told that all edges have a change while this one serves the state before it. It returns
// the position up to which the edge must have everything before it serves: while it was
// off, no change waited for it. The position is zero when the report has not got through
// within the limit; then the edge goes on without.
func (r *Reporter) Announce(ctx context.Context, limit time.Duration) (catchUp waypost.Position) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx = requestid.New(ctx)
	r.lookAtClicks()
	answer, err := r.send(ctx, moment{starting: true})
	if err == nil && answer.CatchUp != "" {
		catchUp, err = waypost.ParsePosition(answer.CatchUp)
	}
	if err != nil {
		r.cfg.Logger.InfoContext(ctx, "cannot announce this edge to the control plane; serving without", "error", err)
	}
	return catchUp
}

// moment is the moment of a report in the life of an edge.
type moment struct{ starting, leaving bool }

// Run reports until ctx ends. It never fails: whether reports get through is in the log,
// when that changes, and in the metrics.
func (r *Reporter) Run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	var disk sync.WaitGroup
	defer disk.Wait()
	disk.Go(func() { r.useDisk(ctx) })
	// Edges that were started together do not report together. The boot that this one
	// continues counts as silent until the first report.
	first := rand.N(r.cfg.Interval)
	if r.cfg.Continues != (waypost.BootID{}) {
		first = 0
	}
	next := time.NewTimer(first)
	defer next.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-r.synced:
		}
		began := time.Now()
		ctx := requestid.New(ctx)
		_, err := r.send(ctx, moment{})
		switch {
		case err == nil && failing:
			r.cfg.Logger.InfoContext(ctx, "reached the control plane with reports again", "url", r.cfg.URL)
		case err != nil && !failing && ctx.Err() == nil:
			r.cfg.Logger.WarnContext(ctx, "cannot reach the control plane with reports; its fleet view is not current",
				"url", r.cfg.URL, "error", err)
		}
		if failing = err != nil; !failing {
			r.blocks(ctx)
			r.certificates(ctx)
		}
		next.Reset(max(r.cfg.Interval-time.Since(began), 0))
	}
}

// useDisk does until ctx ends what may wait for a disk: it syncs the position for reports
// that are asked for, and looks at the clicks.
func (r *Reporter) useDisk(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.Interval)
	defer ticker.Stop()
	var last time.Time // when a sync began
	for {
		r.lookAtClicks()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			continue
		case <-r.asked:
		}
		if !sleep(ctx, r.cfg.Pause-time.Since(last)) {
			return
		}
		last = time.Now()
		r.cfg.Sync()
		select {
		case r.synced <- struct{}{}:
		default:
		}
	}
}

func (r *Reporter) lookAtClicks() {
	pending, until := r.cfg.Clicks()
	r.clicks.Store(&clicksSeen{pending, until})
}

// Farewell reports, after Run has ended, that the edge leaves. A later farewell counts
// the clicks shipped since the one before; it does nothing when an earlier farewell did
// not get through.
func (r *Reporter) Farewell(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	if !r.unheard.Load() {
		r.lookAtClicks()
		_, err := r.send(requestid.New(ctx), moment{leaving: true})
		r.unheard.Store(err != nil)
	}
}

// sleep reports whether a time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// send makes one report within the timeout, counts it, and returns the answer. An answer
// that cannot be read, such as a proxy's, is empty.
func (r *Reporter) send(ctx context.Context, at moment) (answer api.EdgeOrders, err error) {
	limited, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	text, err := r.exchange(limited, api.PathEdgeReports, r.report(at))
	switch {
	case err == nil:
		r.sent.WithLabelValues("sent").Inc()
	case ctx.Err() == nil: // otherwise it was cut off by the end of the edge
		r.sent.WithLabelValues("failed").Inc()
	}
	if err != nil || at.leaving {
		return answer, err
	}
	if len(text) > 0 && json.Unmarshal(text, &answer) != nil {
		answer = api.EdgeOrders{}
	}
	r.order(&answer)
	return answer, nil
}

// exchange posts a value as JSON to a path and returns the answer.
func (r *Reporter) exchange(ctx context.Context, path string, what any) ([]byte, error) {
	res, err := edgepost.Send(ctx, r.client, r.cfg.URL, path, what, maxAnswer, false)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, &statusError{res.StatusCode, res.Status}
	}
	return res.Body, nil
}

func (r *Reporter) report(at moment) api.EdgeReport {
	c := &r.cfg
	clicks := r.clicks.Load()
	b := api.EdgeReport{
		EdgeState: c.State(),
		Boot:      hex.EncodeToString(c.Boot[:]), StartedAt: r.started.UTC(),
		AgeSeconds:    max(c.Age(), 0).Seconds(),
		ClicksPending: max(clicks.pending, -1), ClicksUntil: clicks.until.UTC(), Leaving: at.leaving, Starting: at.starting,
	}
	b.Node, b.Region, b.Role, b.Version, b.Addr, b.AdminAddr = c.Node, string(c.Region), c.Role, c.Version, c.Addr, c.AdminAddr
	b.HeldWhy, b.Conditions = plain(b.HeldWhy, maxWhy), plainConditions(b.Conditions)
	if c.Continues != (waypost.BootID{}) {
		b.Continues = hex.EncodeToString(c.Continues[:])
	}
	if c.Blocks != nil {
		b.Blocks = new(c.Blocks.Digest())
	}
	// In this order, or a report could claim that more is durable than applied.
	synced := c.Synced()
	if p := c.Position(); !p.IsZero() {
		b.Position = p.String()
	}
	if !synced.IsZero() {
		b.Synced = synced.String()
	}
	return b
}
