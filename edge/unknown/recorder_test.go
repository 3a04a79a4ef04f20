package unknown_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/edge/unknown"
	"waypost/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// byAddress takes each address for a visitor, and one agent for a bot.
type byAddress struct{}

func (byAddress) Visitor(agent []byte, from netip.Addr, _ int64) (uint64, bool) {
	if !from.IsValid() {
		return 0, false
	}
	b := from.As16()
	return uint64(b[12])<<56 | uint64(b[13])<<48 | uint64(b[14])<<40 | uint64(b[15])<<32, strings.Contains(string(agent), "bot")
}

// control is a control plane that notes reports.
type control struct {
	mu      sync.Mutex
	reports []api.EdgeUnknown
	refuse  int // of the next ones
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var report api.EdgeUnknown
	err := json.NewDecoder(r.Body).Decode(&report)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, report)
	if err != nil || c.refuse > 0 {
		c.refuse--
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (c *control) all() []api.EdgeUnknown {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]api.EdgeUnknown{}, c.reports...)
}

// counts adds the visits of people up by path, and the visitors.
func (c *control) counts() (people map[string]uint64, visitors map[string]int) {
	people, visitors = map[string]uint64{}, map[string]int{}
	for _, r := range c.all() {
		for _, a := range r.Addresses {
			people[a.Path] += a.People
			visitors[a.Path] += len(a.Visitors)
		}
	}
	return people, visitors
}

// recorder is a recorder that runs.
type recorder struct {
	*unknown.Recorder
	metrics *prometheus.Registry
	stop    func()
}

func start(t testing.TB, c *control, interval time.Duration) *recorder {
	t.Helper()
	metrics := prometheus.NewRegistry()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	r := unknown.New(unknown.Config{
		Profiler: byAddress{}, URL: server.URL, Client: server.Client(), Boot: waypost.BootID{1}, Logger: slog.New(slog.DiscardHandler),
		Metrics: metrics, Interval: interval, Tick: time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, "edge-1") })
	return &recorder{r, metrics, func() { cancel(); running.Wait() }}
}

// await waits until as many visits are counted or dropped.
func (r *recorder) await(t *testing.T, visits int) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := r.metrics.Gather()
		require.NoError(t, err)
		sum := 0.0
		for _, m := range all[0].GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		return int(sum) == visits
	}, time.Minute, time.Millisecond/2)
}

func visit(from, path string) waypost.UnknownVisit {
	return waypost.UnknownVisit{
		Domain: 7, Path: []byte(path), Agent: []byte("Firefox"), From: netip.MustParseAddr(from), At: time.Now().UnixMilli(),
	}
}

func TestRecorder_ReportsEachVisitOnceAtAStop(t *testing.T) {
	c := &control{}
	r := start(t, c, time.Hour)
	r.Record(visit("192.0.2.1", "%68r"))
	r.Record(visit("192.0.2.2", "hr"))
	r.Record(visit("192.0.2.2", "hr"))
	bot := visit("192.0.2.3", "hr")
	bot.Agent = []byte("a bot")
	r.await(t, 3)
	r.Record(bot)
	bot = visit("192.0.2.3", "only-bots")
	bot.Agent = []byte("a bot")
	r.Record(bot)
	nobodys := visit("192.0.2.4", "of-no-visitor")
	nobodys.From = netip.Addr{}
	r.Record(nobodys)
	r.stop()
	require.Len(t, c.all(), 1)
	report := c.all()[0]
	require.Equal(t, "edge-1", report.Node)
	require.EqualValues(t, 1, report.Seq)
	require.Len(t, report.Addresses, 1)
	got := report.Addresses[0]
	require.Len(t, got.Visitors, 2)
	got.Visitors = nil
	require.Equal(t, api.EdgeUnknownAddress{
		Domain: 7, Day: time.Now().UTC().Format(time.DateOnly), Path: "hr", People: 3, Bots: 1,
	}, got)
}

func TestRecorder_RepeatsAReportUnchanged(t *testing.T) {
	c := &control{refuse: 2}
	r := start(t, c, 10*time.Millisecond)
	r.Record(visit("192.0.2.1", "hr"))
	require.Eventually(t, func() bool { return len(c.all()) >= 2 }, time.Minute, time.Millisecond)
	r.Record(visit("192.0.2.2", "hr"))
	require.Eventually(t, func() bool { return len(c.all()) >= 4 }, time.Minute, time.Millisecond)
	r.stop()
	all := c.all()
	require.Equal(t, all[0], all[1])
	require.Equal(t, all[0], all[2])
	require.EqualValues(t, 2, all[3].Seq)
	require.EqualValues(t, 1, all[3].Addresses[0].People)
	require.Len(t, all[3].Addresses[0].Visitors, 1, "only visitors that are new")
	require.NotEqual(t, all[0].Addresses[0].Visitors, all[3].Addresses[0].Visitors)
}

func TestRecorder_OutlastsAFloodOfOneNetwork(t *testing.T) {
	c := &control{}
	r := start(t, c, 100*time.Millisecond)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	flood := visit("198.51.100.9", "")
	for i := range 1_000_000 {
		flood.Path = fmt.Appendf(flood.Path[:0], "random-%d", i)
		r.Record(flood)
		if i%100_000 == 0 {
			for n := range 6 {
				r.Record(visit(fmt.Sprintf("192.0.2.%d", n), "wanted"))
			}
			r.await(t, i+1+6*(i/100_000+1))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4<<20), "bytes")
	r.stop()
	people, visitors := c.counts()
	require.LessOrEqual(t, len(people), 33, "32 new addresses of the network, and the one that people want")
	require.GreaterOrEqual(t, visitors["wanted"], waypost.UnknownVisitors)
}

func BenchmarkRecord(b *testing.B) {
	for name, from := range map[string]func(i int) netip.Addr{
		"one network":   func(int) netip.Addr { return netip.MustParseAddr("192.0.2.1") },
		"many networks": func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) },
	} {
		b.Run(name, func(b *testing.B) {
			r := start(b, &control{}, time.Hour)
			defer r.stop()
			v := visit("192.0.2.1", "an-address-that-nobody-has-made-a-link-of")
			addresses := make([]netip.Addr, 1<<16)
			for i := range addresses {
				addresses[i] = from(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				v.From = addresses[i&(1<<16-1)]
				r.Record(v)
			}
		})
	}
}
