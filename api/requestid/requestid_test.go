package requestid_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api/requestid"
)

func TestHandler_TakesValidIdsOnlyAndLogsThem(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(requestid.Log(slog.NewJSONHandler(&log, nil))).With("node", "one")
	h := requestid.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		logger.WarnContext(r.Context(), "said")
	}))
	seen := map[string]bool{}
	for _, c := range []struct {
		sent  []string
		taken bool
	}{
		{[]string{"abc.DEF_0-9"}, true},
		{[]string{strings.Repeat("x", 64)}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{strings.Repeat("x", 65)}, false},
		{[]string{"a b"}, false},
		{[]string{"a\nb"}, false},
		{[]string{`a"b`}, false},
		{[]string{"é"}, false},
		{[]string{"one", "two"}, false},
	} {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header[requestid.Header] = c.sent
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var line map[string]string
		require.NoError(t, json.Unmarshal(log.Bytes(), &line))
		id := line["request_id"]
		require.Equal(t, id, w.Header().Get(requestid.Header))
		require.Equal(t, "one", line["node"])
		if c.taken {
			require.Equal(t, c.sent[0], id)
			continue
		}
		require.Regexp(t, `^[0-9a-f]{32}$`, id, "%q", c.sent)
		require.False(t, seen[id])
		seen[id] = true
	}
}

func TestMark_SendsTheIdAlong(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	requestid.Mark(r)
	require.Empty(t, r.Header)
	r = r.WithContext(requestid.New(t.Context()))
	requestid.Mark(r)
	require.Equal(t, requestid.From(r.Context()), r.Header.Get(requestid.Header))
}
