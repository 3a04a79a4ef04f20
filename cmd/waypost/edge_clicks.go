package main

import (
	"context"
	"encoding/hex"
	"log/slog"
	"math"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/internal/config"
	"waypost/replication"
)

// edgeClicks is the click journal of an edge, which is opened as soon as there is
// a directory for it: before the first redirect can be answered. Should that fail,
// redirects go on, clicks are lost and loudly so, and it is tried again.
type edgeClicks struct {
	cfg     config.Edge
	log     *slog.Logger
	meters  prometheus.Registerer
	journal atomic.Pointer[clicks.Journal]
	missed  atomic.Uint64
	cluster func() (replication.Cluster, bool) // of the replica
	places  *audience.Places                   // nil: countries and cities are not known
	who     *audience.Audience
	beside  *os.File                                // lock of a predecessor's journal; nil: there is none
	through func(*http.Transport) http.RoundTripper // to the control plane
	place   chan journalPlace                       // has the directory, once
	opened  chan struct{}                           // closed when there is a journal
}

// adopt takes over what other processes left, of which none is running any more.
func (c *edgeClicks) adopt() {
	if j := c.journal.Load(); j != nil {
		if err := j.Adopt(); err != nil {
			c.log.Error("clicks of another process are not taken over; the next start does it", "error", err)
		}
	}
}

type journalPlace struct{ dir, node string }

func newEdgeClicks(cfg config.Edge, through func(*http.Transport) http.RoundTripper, log *slog.Logger, meters prometheus.Registerer) *edgeClicks {
	c := &edgeClicks{cfg: cfg, through: through, log: log, meters: meters, place: make(chan journalPlace, 1), opened: make(chan struct{})}
	meters.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "waypost_clicks_missed_total", Help: "Clicks that were not recorded, because the journal could not be opened.",
	}, func() float64 { return float64(c.missed.Load()) }))
	if cfg.GeoIP != "" {
		c.places = audience.OpenPlaces(audience.PlacesConfig{File: cfg.GeoIP, Logger: log, Metrics: meters})
	}
	return c
}

// know says of which cluster the clicks are, and by which salts visitors are told
// apart. It comes before open.
func (c *edgeClicks) know(store *edgeStore) {
	c.cluster = store.Cluster
	c.who = audience.New(audience.Config{Salts: store, Places: c.places, Logger: c.log, Metrics: c.meters})
}

// watchPlaces takes another GeoIP database when there is one, until ctx ends.
func (c *edgeClicks) watchPlaces(ctx context.Context) {
	if c.places != nil {
		c.places.Run(ctx)
	}
}

// Record implements [edge.Clicks].
func (c *edgeClicks) Record(click waypost.Click) {
	if j := c.journal.Load(); j != nil {
		j.Record(click)
		return
	}
	c.missed.Add(1)
}

// progress tells how many clicks are not counted yet, and up to when all are.
func (c *edgeClicks) progress() (pending int64, until time.Time) {
	j := c.journal.Load()
	if j == nil {
		return -1, time.Time{}
	}
	p := j.Progress()
	return int64(min(p.Pending, math.MaxInt64)), p.Until
}

// names gives those under which clicks were recorded that are still there.
func (c *edgeClicks) names() []string {
	j := c.journal.Load()
	if j == nil {
		return nil
	}
	return j.Nodes()
}

// open is called when the edge's directory is there, again after each time that
// the replica in it could not be opened.
func (c *edgeClicks) open(dir, node string) {
	if c.journal.Load() != nil || c.tryOpen(dir, node) {
		return
	}
	select {
	case c.place <- journalPlace{dir, node}:
	default:
	}
}

func (c *edgeClicks) tryOpen(dir, node string) bool {
	room, err := config.ParseClickJournal(c.cfg.ClickJournal)
	if err != nil {
		c.log.Error("clicks are not recorded: edge.click_journal is wrong", "error", err)
		return false
	}
	beside := c.beside
	c.beside = nil // which Open takes
	j, err := clicks.Open(clicks.Config{Dir: dir, Node: node, MaxBytes: room, Beside: beside, Audience: c.who, Logger: c.log, Metrics: c.meters})
	if err != nil {
		c.log.Error("clicks are not recorded: the journal cannot be opened", "error", err, "missed", c.missed.Load())
		return false
	}
	c.journal.Store(j)
	close(c.opened)
	return true
}

// ship sends what is recorded until ctx ends.
func (c *edgeClicks) ship(ctx context.Context) error {
	const again = 10 * time.Second
	var place journalPlace
	var retry <-chan time.Time
	for c.journal.Load() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-c.opened:
		case place = <-c.place:
			retry = time.After(again)
		case <-retry:
			if !c.tryOpen(place.dir, place.node) {
				retry = time.After(again)
			}
		}
	}
	return c.journal.Load().Ship(ctx, clicks.ShipConfig{
		URL: c.cfg.ControlURL,
		Client: &http.Client{Timeout: shipTimeout, Transport: clusterStamp{c.cluster, c.through(&http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		})}},
	})
}

const shipTimeout = 30 * time.Second // for one batch

// headerCluster names the cluster whose links were clicked. Another cluster's
// control plane would take the clicks for those of unknown links.
const headerCluster = "Waypost-Cluster"

// clusterStamp puts the replica's cluster on every request, and sends none before
// there is a replica.
type clusterStamp struct {
	cluster func() (replication.Cluster, bool)
	next    http.RoundTripper
}

func (s clusterStamp) RoundTrip(r *http.Request) (*http.Response, error) {
	cluster, known := s.cluster()
	if !known {
		return nil, errNoReplica
	}
	r = r.Clone(r.Context())
	r.Header.Set(headerCluster, hex.EncodeToString(cluster[:]))
	return s.next.RoundTrip(r)
}

// finish is for after the last redirect: what was recorded becomes batches, which
// are shipped if that is quick, and otherwise at the next start. End ends ship.
func (c *edgeClicks) finish(shipped <-chan struct{}, end context.CancelFunc) error {
	defer end()
	j := c.journal.Load()
	if j == nil {
		return nil
	}
	if err := j.Seal(); err != nil {
		c.log.Error("the click journal is not sealed; the next start takes it over", "error", err)
	}
	select {
	case <-shipped:
	case <-time.After(time.Second):
	}
	end()
	<-shipped
	return j.Close()
}
