package node

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/controlplane"
	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
)

// keyMemory is the file in which a control plane remembers which keys were issued.
type keyMemory struct{ dir *datadir.Dir }

func (m keyMemory) path() string { return m.dir.Path("keys.witness") }

func (m keyMemory) Load() ([]byte, error) {
	b, err := os.ReadFile(m.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (m keyMemory) Save(document []byte) error { return atomicfile.Write(m.path(), document, 0o600) }

func (m keyMemory) SetAside() error { return atomicfile.SetAside(m.path()) }

// keyPool shows how all regions stand for keys. While the database is out of
// reach it shows nothing, so that no alert points to the wrong cause.
type keyPool struct{ store controlplane.RangeStore }

var (
	poolSize       = prometheus.NewDesc("kgs_pool_size", "Unissued counters of the region's live ranges.", []string{"region"}, nil)
	poolMinutes    = prometheus.NewDesc("kgs_pool_exhaustion_minutes", "Time in which the region's pool is used up at the rate of the last hour; +Inf while nothing is issued.", []string{"region"}, nil)
	freePrefixes   = prometheus.NewDesc("kgs_free_prefixes", "Prefixes that were never used. A region that runs low takes one.", nil, nil)
	keyPrefixSize  = prometheus.NewDesc("kgs_prefix_size", "Counters in a prefix.", nil, nil)
	keysHeld       = prometheus.NewDesc("waypost_keys_held", "1 while no key is issued until an operator runs 'waypost ranges resume'.", nil, nil)
	scrapeDeadline = time.Second
)

func (p keyPool) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolSize, poolMinutes, freePrefixes, keyPrefixSize, keysHeld} {
		ch <- d
	}
}

func (p keyPool) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeDeadline)
	defer cancel()
	space, err := p.store.KeySpace(ctx)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range space.Supplies() {
		gauge(poolSize, float64(s.Unissued), string(s.Region))
		minutes, issues := s.MinutesLeft()
		if !issues {
			minutes = math.Inf(1)
		}
		gauge(poolMinutes, minutes, string(s.Region))
	}
	gauge(freePrefixes, float64(space.FreePrefixes))
	gauge(keyPrefixSize, float64(space.PrefixSize))
	held := 0.0
	if space.Held != "" {
		held = 1
	}
	gauge(keysHeld, held)
}
