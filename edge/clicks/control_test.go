package clicks_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/edge/clicks"
)

const token = "the-edge-token"

// controlPlane takes batches by the protocol and counts each identity once.
type controlPlane struct {
	url string

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, when a request was answered
	counted  map[boot]*counted
	clicks   map[string]uint64
	bots     map[string]uint64
	last     map[string]int64
	answers  map[string]uint64 // clicks by link, rule and variant: see answerOf
	order    []string          // NODE/sequence of what was counted, in order
	requests int
	lean     bool                                                                  // there are too many batches to remember
	fault    func(b *waypost.ClickBatch, w http.ResponseWriter, count func()) bool // true: it has answered
}

type boot struct {
	node string
	id   waypost.BootID
}

type counted struct {
	watermark uint64
	hashes    map[uint64][32]byte
	batches   map[uint64]*waypost.ClickBatch
}

func newControlPlane(t *testing.T) *controlPlane {
	c := &controlPlane{
		changed: make(chan struct{}), counted: map[boot]*counted{},
		clicks: map[string]uint64{}, bots: map[string]uint64{}, last: map[string]int64{}, answers: map[string]uint64{},
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// clone returns another control plane that has counted the same.
func (c *controlPlane) clone(t *testing.T) *controlPlane {
	n := newControlPlane(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	n.clicks = maps.Clone(c.clicks)
	for b, of := range c.counted {
		n.counted[b] = &counted{of.watermark, maps.Clone(of.hashes), maps.Clone(of.batches)}
	}
	return n
}

func (c *controlPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	defer func() {
		close(c.changed)
		c.changed = make(chan struct{})
	}()
	body, ok := decode(w, r)
	if !ok {
		return
	}
	b, err := clickbatch.Decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	if c.fault == nil || !c.fault(&b, w, func() { c.count(&b, body, httptest.NewRecorder()) }) {
		c.count(&b, body, w)
	}
}

func decode(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.Method != http.MethodPost || r.URL.Path != "/clicks/v1/batches" ||
		r.Header.Get("Content-Type") != "application/vnd.waypost.clicks" || r.Header.Get("Content-Encoding") != "zstd" {
		http.Error(w, "no such thing", http.StatusNotFound)
		return nil, false
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return nil, false
	}
	z, err := zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer z.Close()
	body, err := io.ReadAll(io.LimitReader(z, clickbatch.MaxBytes+1))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return nil, false
	}
	return body, true
}

func (c *controlPlane) count(b *waypost.ClickBatch, body []byte, w http.ResponseWriter) {
	of := c.counted[boot{b.Node, b.Boot}]
	if of == nil {
		of = &counted{hashes: map[uint64][32]byte{}, batches: map[uint64]*waypost.ClickBatch{}}
		c.counted[boot{b.Node, b.Boot}] = of
	}
	switch {
	case b.Seq > of.watermark+1:
		answer(w, http.StatusConflict, of.watermark, false)
	case b.Seq <= of.watermark:
		answer(w, http.StatusOK, of.watermark, of.hashes[b.Seq] != sha256.Sum256(body))
	default:
		of.watermark, of.hashes[b.Seq] = b.Seq, sha256.Sum256(body)
		if !c.lean {
			of.batches[b.Seq] = b
		}
		c.order = append(c.order, fmt.Sprintf("%s/%d", b.Node, b.Seq))
		for i := range b.Links {
			l := &b.Links[i]
			link := fmt.Sprintf("%d/%s", l.Domain, l.Code)
			n, bots := b.Clicks(l)
			c.clicks[link] += n
			if bots > 0 {
				c.bots[link] += bots
			}
			c.last[link] = max(c.last[link], l.Last)
			for _, r := range l.Rows {
				p := &b.Profiles[r.Profile]
				c.answers[answerOf(link, p.Rule, p.Variant)] += r.Count
			}
		}
		answer(w, http.StatusOK, of.watermark, false)
	}
}

func answer(w http.ResponseWriter, status int, watermark uint64, dead bool) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := map[string]any{"watermark": watermark}
	if dead {
		body["dead_letter"] = true
	}
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

// empty makes it one that has counted nothing.
func (c *controlPlane) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counted)
	clear(c.clicks)
	clear(c.bots)
	clear(c.last)
	clear(c.answers)
}

// forget takes the counted batches of all boots back to a watermark, as a failover
// to an older copy would.
func (c *controlPlane) forget(watermark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.counted {
		of.watermark = min(of.watermark, watermark)
	}
}

// failOver goes back to a copy of the database that has only the batches up to a
// watermark, and their clicks.
func (c *controlPlane) failOver(watermark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.counted {
		for ; of.watermark > watermark; of.watermark-- {
			b := of.batches[of.watermark]
			for i := range b.Links {
				n, _ := b.Clicks(&b.Links[i])
				c.clicks[fmt.Sprintf("%d/%s", b.Links[i].Domain, b.Links[i].Code)] -= n
			}
		}
	}
}

func (c *controlPlane) setFault(f func(b *waypost.ClickBatch, w http.ResponseWriter, count func()) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// totals returns the clicks of every link that has some, and all together.
func (c *controlPlane) totals() (map[string]uint64, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum uint64
	for n := range maps.Values(c.clicks) {
		sum += n
	}
	return maps.Clone(c.clicks), sum
}

// answerOf names the clicks of a link that had one rule and variant.
func answerOf(link string, rule, variant uint8) string {
	return fmt.Sprintf("%s by %d/%d", link, rule, variant)
}

// answered returns the clicks of one rule and variant of a link.
func (c *controlPlane) answered(link string, rule, variant uint8) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[answerOf(link, rule, variant)]
}

func (c *controlPlane) counts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

// await waits for a state of the control plane.
func (c *controlPlane) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-late:
			require.FailNow(t, "timed out", what)
		}
	}
}

func (c *controlPlane) shipping() clicks.ShipConfig {
	return clicks.ShipConfig{URL: c.url, Token: token, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond}
}

// asked is the number of requests.
func (c *controlPlane) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}
