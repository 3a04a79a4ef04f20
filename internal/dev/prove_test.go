package dev

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
)

// Without that, no command could find the API to resume through.
func TestASystemWhoseKeysAreHeldBackIsReadyAllTheSame(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/v1/urls":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "GET /api/admin/ranges":
			_, _ = io.WriteString(w, `{"held": "nobody remembers"}`)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer api.Close()
	c, err := client.New(api.URL, "")
	require.NoError(t, err)
	defer c.Close()
	say := time.NewTicker(time.Hour)
	defer say.Stop()
	var log strings.Builder
	p := &prover{api: c, log: slog.New(slog.NewTextHandler(&log, nil)), say: say}
	require.NoError(t, p.prove(t.Context(), nil, nil))
	require.Contains(t, log.String(), "no key is issued")
	require.Contains(t, log.String(), "nobody remembers")
}
