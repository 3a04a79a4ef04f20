package dev

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
)

// proverOf returns a prover that asks an API, and its log.
func proverOf(t *testing.T, api http.HandlerFunc) (*prover, *strings.Builder) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	say := time.NewTicker(time.Hour)
	t.Cleanup(say.Stop)
	var log strings.Builder
	return &prover{api: c, log: slog.New(slog.NewTextHandler(&log, nil)), say: say}, &log
}

// Without that, no command could find the API to resume through.
func TestProver_IsDoneWhileKeysAreHeldBack(t *testing.T) {
	p, log := proverOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/urls":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "GET /api/admin/ranges":
			_, _ = io.WriteString(w, `{"held": "nobody remembers"}`)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	require.NoError(t, p.prove(t.Context(), nil, nil))
	require.Contains(t, log.String(), "no key is issued")
	require.Contains(t, log.String(), "nobody remembers")
}

func TestProver_StopsWhenItsKeyIsRefused(t *testing.T) {
	p, _ := proverOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	require.ErrorIs(t, p.prove(t.Context(), nil, nil), errKeyRefused)
}

// An edge that comes late never redirects a link that has expired.
func TestProver_TakesAnotherLinkWhenOneExpires(t *testing.T) {
	var created, deleted atomic.Int64
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/code1", deleted.Load() > 0:
			w.WriteHeader(http.StatusGone)
		default:
			w.Header().Set("Location", "https://example.com/waypost-dev")
			w.WriteHeader(http.StatusFound)
		}
	}))
	defer edge.Close()
	var lives sync.Map
	p, _ := proverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted.Add(1)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		body, _ := io.ReadAll(r.Body) // an empty one fails the test
		lives.Store(string(body), true)
		_, _ = fmt.Fprintf(w, `{"short_code":"code%d"}`, created.Add(1))
	})
	p.life = time.Second
	require.NoError(t, p.prove(t.Context(), nil, []string{edge.URL}))
	require.EqualValues(t, 2, created.Load())
	lives.Range(func(body, _ any) bool { require.Contains(t, body, `"expires_in_seconds":1`); return true })
}
