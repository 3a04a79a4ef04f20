package clicks_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/logtest"
)

// shipped opens a journal whose clicks are shipped at once.
func shipped(t *testing.T, control *controlPlane) (click func(), registry *prometheus.Registry, end func()) {
	t.Helper()
	registry = prometheus.NewPedanticRegistry()
	cfg := config(t.TempDir())
	cfg.FlushInterval, cfg.Metrics = time.Millisecond, registry
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	click = func() { record(t, j, "abcd", 1) }
	return click, registry, func() { shipAll(t, j, control) }
}

// counted waits until that many clicks have been counted.
func (c *controlPlane) awaitClicks(t *testing.T, n uint64) {
	t.Helper()
	c.await(t, "clicks are counted", func() bool { _, sum := c.totals(); return sum >= n })
	_, sum := c.totals()
	require.Equal(t, n, sum)
}

func TestShip_BatchWhoseAcknowledgementIsLostCountsOnce(t *testing.T) {
	control := newControlPlane(t)
	var lost int
	control.fault = func(_ *waypost.ClickBatch, _ http.ResponseWriter, count func()) bool {
		if lost == 3 {
			return false
		}
		lost++
		count()
		panic(http.ErrAbortHandler)
	}
	click, registry, end := shipped(t, control)
	click()
	control.await(t, "it is sent again", func() bool { return len(control.counts()) == 1 && control.requestCount() >= 4 })
	click()
	control.awaitClicks(t, 2)
	end()
	require.EqualValues(t, 3, metric(t, registry, "waypost_clicks_ship_failures_total"))
	require.EqualValues(t, 2, metric(t, registry, "waypost_clicks_shipped_total"))
}

func (c *controlPlane) requestCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

func TestShip_AnswerThatSaysNothingKeepsTheBatch(t *testing.T) {
	for name, say := range map[string]func(b *waypost.ClickBatch, w http.ResponseWriter){
		"503":            func(_ *waypost.ClickBatch, w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"401":            func(_ *waypost.ClickBatch, w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
		"404":            func(_ *waypost.ClickBatch, w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"413 of a proxy": func(_ *waypost.ClickBatch, w http.ResponseWriter) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
		"a redirect": func(_ *waypost.ClickBatch, w http.ResponseWriter) {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusFound)
		},
		"200 of a proxy":            func(_ *waypost.ClickBatch, w http.ResponseWriter) { _, _ = w.Write([]byte("<p>welcome")) },
		"200 without a watermark":   func(_ *waypost.ClickBatch, w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) },
		"200 with a watermark back": func(b *waypost.ClickBatch, w http.ResponseWriter) { answer(w, 200, b.Seq-1, false) },
		"409 for the next one":      func(b *waypost.ClickBatch, w http.ResponseWriter) { answer(w, 409, b.Seq-1, false) },
		"200 with too long a text": func(_ *waypost.ClickBatch, w http.ResponseWriter) {
			_, _ = w.Write(append(make([]byte, 1<<20), `{"watermark":1}`...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			control := newControlPlane(t)
			var told int
			control.fault = func(b *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
				if told++; told > 3 {
					return false
				}
				say(b, w)
				return true
			}
			click, _, end := shipped(t, control)
			click()
			control.awaitClicks(t, 1)
			end()
			require.Equal(t, []string{"edge-1/1"}, control.counts())
		})
	}
}

func TestShip_WrongTokenKeepsTheBatchesForARightOne(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	j := open(t, config(dir))
	record(t, j, "abcd", 3)
	require.NoError(t, j.Seal())
	wrong := control.shipping()
	wrong.Token = "wrong"
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if err := j.Ship(ctx, wrong); err != nil {
			t.Error(err)
		}
	})
	control.await(t, "it is tried again", func() bool { return control.requestCount() > 3 })
	cancel()
	work.Wait()
	shipAll(t, j, control)
	control.awaitClicks(t, 3)
}

func TestShip_BatchesThatAFailoverForgotAreReplacedByEmptyOnes(t *testing.T) {
	control := newControlPlane(t)
	click, registry, end := shipped(t, control)
	for n := range uint64(5) {
		click()
		control.awaitClicks(t, n+1)
	}
	control.forget(2)
	click()
	control.awaitClicks(t, 6)
	end()
	require.Equal(t, []string{
		"edge-1/1", "edge-1/2", "edge-1/3", "edge-1/4", "edge-1/5", "edge-1/3", "edge-1/4", "edge-1/5", "edge-1/6",
	}, control.counts())
	require.EqualValues(t, 3, metric(t, registry, "waypost_clicks_voided_batches_total"))
}

func TestShip_PoisonBatchIsPutAwayAndTheQueueMovesOn(t *testing.T) {
	for name, say := range map[string]func(b *waypost.ClickBatch, w http.ResponseWriter){
		"it can never be taken": func(_ *waypost.ClickBatch, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
		},
		"it is kept as dead already": func(b *waypost.ClickBatch, w http.ResponseWriter) { answer(w, 200, b.Seq, true) },
	} {
		t.Run(name, func(t *testing.T) {
			control, log := newControlPlane(t), &logtest.Buffer{}
			cfg := config(t.TempDir())
			registry := prometheus.NewPedanticRegistry()
			cfg.Logger, cfg.Metrics, cfg.FlushInterval = log.Logger(), registry, time.Millisecond
			j := open(t, cfg)
			shipInBackground(t, j, control.shipping())
			record(t, j, "good", 1)
			control.awaitClicks(t, 1)
			control.setFault(func(b *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
				poison := len(b.Links) > 0 && b.Links[0].Code == "evil"
				if poison {
					say(b, w)
				}
				return poison
			})
			record(t, j, "evil", 7)
			// All seven, which may be in more than one batch: the next one must have none of them.
			require.Eventually(t, func() bool { return metric(t, registry, "waypost_clicks_dead_total") == 7 }, 60*time.Second, time.Millisecond)
			require.Eventually(t, func() bool {
				return len(files(t, filepath.Join(cfg.Dir, "dead"), "batch")) > 0
			}, 60*time.Second, time.Millisecond)
			record(t, j, "good", 1)
			control.awaitClicks(t, 2)
			shipAll(t, j, control)
			require.EqualValues(t, 7, metric(t, registry, "waypost_clicks_dead_total"))
			require.Contains(t, log.String(), "put a batch of clicks away as a dead letter")
			require.Contains(t, log.String(), "clicks=")
		})
	}
}

func TestShip_ClicksOfEarlierStartsAreShippedFirstAndUnderTheirOwnNames(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	for _, node := range []string{"edge-c", "edge-a", "edge-b"} {
		cfg := config(dir)
		cfg.Node = node
		j := open(t, cfg)
		record(t, j, "abcd", 2)
		dir = image(t, dir, func() {}) // it is killed
		require.NoError(t, j.Close())
	}
	j := open(t, config(dir))
	record(t, j, "abcd", 1)
	shipAll(t, j, control)
	require.Equal(t, []string{"edge-c/1", "edge-a/1", "edge-b/1", "edge-1/1"}, control.counts())
	control.awaitClicks(t, 7)
	require.Len(t, control.counted, 4)
}

func TestShip_ClicksOfANameThatIsNotTakenWaitAndHoldUpNoOthers(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	for _, node := range []string{"edge-c", "edge-a"} {
		cfg := config(dir)
		cfg.Node = node
		j := open(t, cfg)
		record(t, j, "abcd", 2)
		dir = image(t, dir, func() {}) // it is killed
		require.NoError(t, j.Close())
	}
	refused := func(b *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
		if b.Node == "edge-c" {
			w.WriteHeader(http.StatusForbidden)
		}
		return b.Node == "edge-c"
	}
	control.fault = refused
	cfg := config(dir)
	cfg.FlushInterval = time.Millisecond
	j := open(t, cfg)
	require.ElementsMatch(t, []string{"edge-c", "edge-a", "edge-1"}, j.Nodes())
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = j.Ship(ctx, control.shipping()) })
	for n := range uint64(3) {
		record(t, j, "abcd", 1)
		control.awaitClicks(t, 3+n)
	}
	require.NotContains(t, control.counts(), "edge-c/1")
	cancel()
	work.Wait()
	control.setFault(nil)
	shipAll(t, j, control)
	control.awaitClicks(t, 7)
}

// It is asked for no more often than anything else that fails, and whether what others'
// boots have shipped is still counted is asked too.
func TestShip_ClicksOfANameThatIsNotTakenHoldUpNoQuestions(t *testing.T) {
	control := newControlPlane(t)
	cfg, _ := keeping(t.TempDir())
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	clickEach(t, j, control, 8)
	settle(t, j)
	require.NoError(t, j.Close())
	other, _ := keeping(cfg.Dir)
	other.Node = "edge-c"
	j = open(t, other)
	record(t, j, "theirs", 1)
	require.NoError(t, j.Close())
	control.failOver(3)
	refusals := 0
	control.setFault(func(b *waypost.ClickBatch, w http.ResponseWriter, _ func()) bool {
		if b.Node == "edge-c" {
			refusals++
			w.WriteHeader(http.StatusForbidden)
		}
		return b.Node == "edge-c"
	})
	next, _ := keeping(cfg.Dir)
	j = open(t, next)
	shipping := control.shipping()
	shipping.MinBackoff, shipping.MaxBackoff = time.Hour, time.Hour
	shipInBackground(t, j, shipping)
	control.await(t, "what was forgotten is counted again", func() bool { _, sum := control.totals(); return sum == 8 })
	clickEach(t, j, control, 5)
	control.mu.Lock()
	defer control.mu.Unlock()
	require.Equal(t, 1, refusals)
}

func TestShip_EdgeThatIsCutOffKeepsTotalsAndNotATrickleOfBatches(t *testing.T) {
	control := newControlPlane(t)
	cfg := config(t.TempDir())
	cfg.FlushInterval, cfg.SegmentBytes = time.Millisecond, 1<<20
	j := open(t, cfg)
	record(t, j, "abcd", 1)
	require.Eventually(t, func() bool { return len(files(t, cfg.Dir, "batch")) == 1 }, 60*time.Second, time.Millisecond)
	var n uint64 = 1
	for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until) && n < 10_000; n++ {
		record(t, j, "abcd", 1)
	}
	require.Len(t, files(t, cfg.Dir, "batch"), 1)
	shipAll(t, j, control)
	control.awaitClicks(t, n)
	require.Equal(t, []string{"edge-1/1", "edge-1/2"}, control.counts())
}
