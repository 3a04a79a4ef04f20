package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"waypost"
)

// Listener answers operators: health, readiness, metrics and profiles. It has no
// authentication, so its address must not be public.
type Listener struct {
	// Addr is the address that Serve listens on as the operator wrote it, HOST:PORT.
	Addr string

	// Ready reports whether the process can serve, with details that are shown as JSON.
	// It must return soon.
	Ready func(ctx context.Context) (detail any, ready bool)

	// Metrics answers GET /metrics.
	Metrics prometheus.Gatherer

	// Members answers GET /members with the members that gossip knows; nil: no gossip.
	Members http.Handler

	Logger *slog.Logger
}

// Serve answers on ln until ctx ends, and closes ln.
func (l Listener) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		Handler:           l.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes its time
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(l.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- server.Close() })
	err := server.Serve(ln)
	if stop() {
		return err // nothing has asked it to stop
	}
	if err2 := <-closed; err2 != nil || !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, err2)
	}
	return nil
}

func (l Listener) handler() http.Handler {
	self, _ := os.Hostname() // without one it has no name
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		l.answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		detail, ready := l.Ready(r.Context())
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		l.answer(w, status, detail)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(l.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(l.Logger.Handler(), slog.LevelError),
		// One number that cannot be read must not take the others with it, and "up" with them.
		ErrorHandling: promhttp.ContinueOnError,
	}))
	if l.Members != nil {
		mux.Handle("GET /members", l.Members)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	names := []string{"localhost", waypost.HostName(self), waypost.HostName(l.Addr)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(waypost.HostName(r.Host), names) {
			http.Error(w, "ask this listener by an address, localhost, this machine's name or the name in admin_addr", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// known reports whether a host is an address, one of some names, or a name without a dot.
// Any other name may be an attacker's that points to this listener, so that a page of
// that name reads it through the browser of an operator (DNS rebinding).
func known(host string, names []string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || slices.Contains(names, host) || !strings.Contains(host, ".")
}

func (l Listener) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		l.Logger.Debug("cannot answer on the admin listener", "error", err)
	}
}
