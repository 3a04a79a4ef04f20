package report_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane/fleet"
	"waypost/controlplane/httpapi"
	"waypost/edge/report"
	"waypost/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noOrders has no orders.
type noOrders struct{}

func (noOrders) For(string) []api.EdgeOrder { return nil }

// desk takes reports as the control plane does.
type desk chan fleet.EdgeReport

func (d desk) Report(_ context.Context, r fleet.EdgeReport) (catchUp waypost.Position, err error) {
	d <- r
	return catchUp, nil
}

// serve puts h on a listener until the test ends.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// never is an interval that does not pass.
const never = 10_000 * time.Hour

// complete adds the parts of an edge that a test does not look at.
func complete(cfg report.Config) report.Config {
	cfg.Role, cfg.Logger = "edge", slog.New(slog.DiscardHandler)
	if cfg.Through == nil {
		cfg.Through = func(t *http.Transport) http.RoundTripper { return t }
	}
	if cfg.Position == nil {
		cfg.Position = func() waypost.Position { return waypost.Position{} }
	}
	if cfg.Synced == nil {
		cfg.Synced = func() waypost.Position { return waypost.Position{} }
	}
	if cfg.Clicks == nil {
		cfg.Clicks = func() (int64, time.Time) { return -1, time.Time{} }
	}
	if cfg.Order == nil {
		cfg.Order = func(api.EdgeOrder) {}
	}
	if cfg.Sync == nil {
		cfg.Sync = func() {}
	}
	cfg.Age = func() time.Duration { return 0 }
	cfg.State = func() api.EdgeState { return api.EdgeState{} }
	return cfg
}

// run runs a reporter; stop ends it and waits.
func run(t *testing.T, cfg report.Config) (r *report.Reporter, stop func()) {
	t.Helper()
	cfg.Node, cfg.Region, cfg.Boot = "edge-a", "us-east-1", waypost.BootID{1, 2}
	r, err := report.New(complete(cfg))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return r, stop
}

// withSecret adds a credential to requests.
func withSecret(t *http.Transport) http.RoundTripper { return secretTransport{t} }

type secretTransport struct{ *http.Transport }

func (s secretTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return s.Transport.RoundTrip(r)
}

func TestTheControlPlaneUnderstandsWhatAnEdgeReports(t *testing.T) {
	arrived := make(desk, 1000)
	mux := http.NewServeMux()
	handler := httpapi.EdgeReports(arrived, noOrders{}, nil, slog.New(slog.DiscardHandler))
	mux.HandleFunc("POST "+api.PathEdgeReports, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer secret" {
			handler.ServeHTTP(w, r)
		}
	})
	var seq atomic.Uint64
	position := func() waypost.Position {
		if seq.Load() == 0 {
			return waypost.Position{}
		}
		return waypost.Position{Epoch: waypost.Epoch{Ordinal: 2, ID: waypost.EpochID{3}}, Seq: seq.Load(), Stamp: 9}
	}
	counted := time.Date(2031, 5, 6, 7, 8, 7, 0, time.UTC)
	before, metrics := time.Now(), prometheus.NewRegistry()
	r, stop := run(t, report.Config{
		Interval: never, Timeout: time.Minute, Metrics: metrics,
		URL: serve(t, mux) + "/", Through: withSecret, Addr: "10.0.0.2:8081", AdminAddr: "10.0.0.2:9081", Version: "1.2.3",
		Position: position, Clicks: func() (int64, time.Time) { return 12, counted },
	})

	r.Ask()
	first := <-arrived
	require.WithinRange(t, first.StartedAt, before.Add(-time.Millisecond), time.Now())
	first.StartedAt = time.Time{}
	require.Equal(t, waypost.BootID{1, 2}, first.Boot)
	require.Equal(t, api.EdgeReport{
		EdgeState: api.EdgeState{
			Node: "edge-a", Region: "us-east-1", Role: "edge", Addr: "10.0.0.2:8081", AdminAddr: "10.0.0.2:9081", Version: "1.2.3",
			Conditions: []api.NodeCondition{},
		},
		Boot: "01020000000000000000000000000000", ClicksPending: 12, ClicksUntil: counted,
	}, first.EdgeReport)
	seq.Store(77)
	r.Ask()
	require.Equal(t, position(), (<-arrived).Position)
	require.Eventually(t, func() bool { return result(t, metrics, "sent") == 2 }, 60*time.Second, time.Millisecond)

	stop()
	require.Empty(t, arrived, "a successor may report")
	r.Farewell(t.Context())
	require.True(t, (<-arrived).Leaving)
}

func TestReportsGoOnWhenTheControlPlaneIsSlowOrBroken(t *testing.T) {
	arrived := make(chan struct{}, 10_000)
	var calls atomic.Int64
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body) // an error means that the reporter has given up
		switch calls.Add(1) {
		case 1:
			<-r.Context().Done() // until the reporter's time is over
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		default:
			if err == nil {
				arrived <- struct{}{}
			}
		}
	}))
	metrics := prometheus.NewRegistry()
	_, stop := run(t, report.Config{URL: url, Interval: 10 * time.Millisecond, Timeout: 200 * time.Millisecond, Metrics: metrics})
	<-arrived
	require.Eventually(t, func() bool { return result(t, metrics, "sent") > 0 }, 60*time.Second, time.Millisecond)
	stop()
	require.GreaterOrEqual(t, result(t, metrics, "failed"), int64(4), "and what the machine holds up for too long")
	require.LessOrEqual(t, result(t, metrics, "sent"), 1+int64(len(arrived)), "nothing else counts as sent")
}

// result reads how many reports ended that way.
func result(t *testing.T, metrics *prometheus.Registry, result string) int64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == result {
			return int64(m.GetCounter().GetValue())
		}
	}
	return 0
}

func TestAReporterNeedsToKnowWhoReportsToWhom(t *testing.T) {
	good := complete(report.Config{URL: "http://127.0.0.1:1", Node: "edge-a", Region: "us-east-1", Boot: waypost.BootID{1}})
	_, err := report.New(good)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*report.Config){
		"no URL":          func(c *report.Config) { c.URL = "" },
		"another scheme":  func(c *report.Config) { c.URL = "ftp://127.0.0.1" },
		"no node":         func(c *report.Config) { c.Node = "" },
		"no region":       func(c *report.Config) { c.Region = "" },
		"no boot":         func(c *report.Config) { c.Boot = waypost.BootID{} },
		"a spaced-out id": func(c *report.Config) { c.Node = "a b" },
		"no position":     func(c *report.Config) { c.Position = nil },
		"no role":         func(c *report.Config) { c.Role = "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			spoil(&c)
			_, err := report.New(c)
			require.Error(t, err)
		})
	}
}

func TestAnEdgeThatIsAskedMakesWhatItHasDurableAndReportsAtOnce(t *testing.T) {
	arrived := make(desk, 1000)
	url := serve(t, httpapi.EdgeReports(arrived, noOrders{}, nil, slog.New(slog.DiscardHandler)))
	var applied, synced atomic.Uint64
	at := func(seq *atomic.Uint64) func() waypost.Position {
		return func() waypost.Position {
			return waypost.Position{Epoch: waypost.Epoch{Ordinal: 2, ID: waypost.EpochID{3}}, Seq: seq.Load(), Stamp: 9}
		}
	}
	r, err := report.New(complete(report.Config{
		URL: url, Node: "edge-a", Region: "us-east-1", Boot: waypost.BootID{1, 2}, Interval: never, Timeout: time.Minute,
		Position: at(&applied), Synced: at(&synced), Sync: func() { synced.Store(applied.Load()) },
	}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for seq := uint64(7); seq < 10; seq++ {
		applied.Store(seq)
		r.Ask()
		got := <-arrived
		require.Equal(t, seq, got.Position.Seq)
		require.Equal(t, seq, got.Synced.Seq)
	}
}

// A disk that does not answer would otherwise make the control plane take the edge for
// silent, and leave it out of what "all" edges have.
func TestReporter_WaitsForNoDisk(t *testing.T) {
	arrived := make(desk, 1000)
	url := serve(t, httpapi.EdgeReports(arrived, noOrders{}, nil, slog.New(slog.DiscardHandler)))
	at := waypost.Position{Epoch: waypost.Epoch{Ordinal: 2, ID: waypost.EpochID{3}}, Seq: 7, Stamp: 9}
	for what, config := range map[string]func(hang func()) report.Config{
		"sync": func(hang func()) report.Config { return report.Config{Sync: hang} },
		"clicks": func(hang func()) report.Config {
			return report.Config{Clicks: func() (int64, time.Time) { hang(); return 1, time.Time{} }}
		},
	} {
		t.Run(what, func(t *testing.T) {
			hung, mended := make(chan struct{}, 1000), make(chan struct{})
			cfg := config(func() { hung <- struct{}{}; <-mended })
			cfg.URL, cfg.Interval, cfg.Timeout = url, 10*time.Millisecond, time.Minute
			cfg.Position = func() waypost.Position { return at }
			r, _ := run(t, cfg)
			t.Cleanup(func() { close(mended) }) // before stop waits
			r.Ask()
			<-hung
			for len(arrived) > 0 {
				<-arrived
			}
			for range 5 {
				select {
				case got := <-arrived:
					require.Equal(t, at, got.Position)
					require.Zero(t, got.Synced, "the disk has not answered")
				case <-time.After(time.Minute):
					t.Fatal("no report comes")
				}
			}
		})
	}
}
