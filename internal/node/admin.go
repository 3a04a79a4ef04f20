package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin is the listener for operators: it says how the process is and lets it be
// measured. It has no authentication, so it must not be public.
type Admin struct {
	// Ready judges whether the node can serve, and tells details that are shown as
	// JSON. It must return soon.
	Ready func(ctx context.Context) (detail any, ready bool)

	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer

	// Members answers GET /members, what is known by gossip; nil: there is none.
	Members http.Handler

	Logger *slog.Logger
}

// Serve answers on ln, which it closes, until ctx ends.
func (a Admin) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes its time
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(a.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- server.Close() })
	err := server.Serve(ln)
	if stop() {
		return err // it failed by itself
	}
	if err2 := <-closed; err2 != nil || !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, err2)
	}
	return nil
}

func (a Admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		a.answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		detail, ready := a.Ready(r.Context())
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		a.answer(w, status, detail)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(a.Logger.Handler(), slog.LevelError),
	}))
	if a.Members != nil {
		mux.Handle("GET /members", a.Members)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func (a Admin) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		a.Logger.Debug("answer on the admin listener", "error", err)
	}
}
