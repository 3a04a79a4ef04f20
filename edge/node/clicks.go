package node

import (
	"context"
	"encoding/hex"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/unknown"
	"waypost/replication"
	"waypost/rules/agents"
)

// recorder records clicks in the journal, which is opened before the first redirect. If
// that fails, redirects go on, clicks are lost and counted as missed, and opening is
// tried again.
type recorder struct {
	config  clicks.Config
	url     string // of the control plane
	log     *slog.Logger
	through func(*http.Transport) http.RoundTripper // to the control plane
	geoDB   *audience.GeoDB                         // the server's too; nil: countries and cities are not known
	agents  *agents.Classifier                      // the server's too
	replica replicated                              // set by bindStore

	journal atomic.Pointer[clicks.Journal]
	missed  atomic.Uint64
	shipped chan struct{} // closed when ship has returned
}

func newRecorder(cfg *Config, through func(*http.Transport) http.RoundTripper, log *slog.Logger, meters prometheus.Registerer) *recorder {
	c := &recorder{
		config: clicks.Config{MaxBytes: cfg.ClickJournal, Logger: log, Metrics: meters}, url: cfg.Control.URLs[0], log: log, through: through,
		agents:  cfg.Server.Agents,
		shipped: make(chan struct{}),
	}
	meters.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "waypost_clicks_missed_total", Help: "Clicks that were not recorded, because the journal could not be opened.",
	}, func() float64 { return float64(c.missed.Load()) }))
	if cfg.GeoIP != "" {
		c.geoDB = audience.OpenGeoDB(audience.GeoDBConfig{File: cfg.GeoIP, Logger: log, Metrics: meters})
	}
	return c
}

// bindStore connects the recorder with the replica, which names the cluster and holds the
// salts of visitors. It comes before open.
func (c *recorder) bindStore(store *store) {
	c.replica = store
	c.config.Profiler = audience.New(audience.Config{Salts: store, GeoDB: c.geoDB, Agents: c.agents})
}

// placesBuilt returns the build time of the GeoIP database, zero without a database.
func (c *recorder) placesBuilt() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.geoDB.Built()
}

// watchGeoDB loads a new GeoIP database when the file changes, until ctx ends.
func (c *recorder) watchGeoDB(ctx context.Context) {
	if c.geoDB != nil {
		c.geoDB.Run(ctx)
	}
}

// Record implements [server.Clicks].
func (c *recorder) Record(click waypost.Click) {
	if j := c.journal.Load(); j != nil {
		j.Record(click)
		return
	}
	c.missed.Add(1)
}

// progress returns the number of clicks that are not counted yet, -1 when it is unknown,
// and the time up to which all are counted.
func (c *recorder) progress() (pending int64, until time.Time) {
	j := c.journal.Load()
	if j == nil {
		return -1, time.Time{}
	}
	p := j.Progress()
	return int64(min(p.Pending, math.MaxInt64)), p.Until
}

// newUnknown makes the counter of unknown addresses.
func (c *recorder) newUnknown(salts audience.Salts, boot waypost.BootID, meters prometheus.Registerer) *unknown.Recorder {
	return unknown.New(unknown.Config{
		Profiler: audience.New(audience.Config{Salts: salts, Agents: c.agents}),
		URL:      c.url, Boot: boot, Logger: c.log, Metrics: meters,
		Client: &http.Client{Transport: c.through(&http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		})},
	})
}

// names returns the node names of the clicks that wait.
func (c *recorder) names() []string {
	if j := c.journal.Load(); j != nil {
		return j.Nodes()
	}
	return nil
}

// open opens the journal. If that fails, ship tries again.
func (c *recorder) open(dir, node string) {
	c.config.Dir, c.config.Node = dir, node
	c.openJournal()
}

func (c *recorder) openJournal() {
	j, err := clicks.Open(c.config)
	if err != nil {
		c.log.Error("cannot open the click journal; clicks are lost", "error", err, "missed", c.missed.Load())
		return
	}
	c.journal.Store(j)
}

// ship sends recorded clicks to the control plane until ctx ends.
func (c *recorder) ship(ctx context.Context) error {
	defer close(c.shipped)
	for c.journal.Load() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
			c.openJournal()
		}
	}
	return c.journal.Load().Ship(ctx, clicks.ShipConfig{
		URL: c.url,
		Client: &http.Client{Timeout: shipTimeout, Transport: historyStamp{c.replica, c.through(&http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, ResponseHeaderTimeout: 10 * time.Second,
		})}},
	})
}

const (
	shipTimeout = 30 * time.Second // for one batch
	dialTimeout = 2 * time.Second  // then the next control plane is asked
)

// replicated describes the history of a replica.
type replicated interface {
	Cluster() (replication.Cluster, bool)
	Position() waypost.Position
}

// historyStamp adds the replica's cluster and position to every request, and sends none
// before there is a replica. The control plane of another cluster would count the clicks
// as clicks of unknown links, and a control plane of an older epoch would count them in a
// database that was replaced.
type historyStamp struct {
	replica replicated
	next    http.RoundTripper
}

func (s historyStamp) RoundTrip(r *http.Request) (*http.Response, error) {
	cluster, known := s.replica.Cluster()
	if !known {
		return nil, errNoReplica
	}
	r = r.Clone(r.Context())
	r.Header.Set(clickbatch.HeaderCluster, hex.EncodeToString(cluster[:]))
	r.Header.Set(clickbatch.HeaderPosition, s.replica.Position().String())
	return s.next.RoundTrip(r)
}

// seal follows the last redirect: it makes batches of all clicks and, if wait, lets ship
// send them for a moment. The next start sends the rest.
func (c *recorder) seal(wait bool) {
	j := c.journal.Load()
	if j == nil {
		return
	}
	if err := j.Seal(); err != nil {
		c.log.Error("cannot seal the click journal; the next start takes it over", "error", err)
	}
	if wait {
		select {
		case <-c.shipped:
		case <-time.After(time.Second):
		}
	}
}

// close closes the journal after ship has returned.
func (c *recorder) close() error {
	if j := c.journal.Load(); j != nil {
		return j.Close()
	}
	return nil
}
