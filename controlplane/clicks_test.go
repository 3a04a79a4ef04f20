package controlplane_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/httpapi/httpapitest"
)

// cutting loses answers, by cutting the connection instead, as long as lose says so.
type cutting struct {
	http.Handler
	lose atomic.Bool
}

func (c *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	c.Handler.ServeHTTP(answer, r)
	if c.lose.Load() {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func TestClicks_ClicksOfABatchWhoseAnswerWasLostAreCountedOnceAndShown(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish(custom("spring")))
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("summer"),
		func(n *controlplane.NewLink) { n.ExpiresAt = time.Now().Add(time.Hour) }))
	require.NoError(t, err)
	clicked := time.Now().Truncate(time.Millisecond).UTC()
	plain := clickbatch.Append(nil, &waypost.ClickBatch{
		Node: "edge-1", Boot: waypost.BootID{1}, Seq: 1, Exact: true, Profiles: []waypost.ClickProfile{{}, {Bot: true}},
		Links: []waypost.LinkClicks{
			{Domain: 1, Code: "spring", Last: clicked.UnixMilli(), Rows: []waypost.ClickRow{
				{At: clicked.UnixMilli(), Count: 1}, {At: clicked.UnixMilli(), Profile: 1, Count: 2},
			}},
			{Domain: 1, Code: "summer", Last: clicked.UnixMilli(), Rows: []waypost.ClickRow{{At: clicked.UnixMilli(), Count: 4}}},
		},
	})
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	body := z.EncodeAll(plain, nil)
	require.NoError(t, z.Close())

	ingest := &cutting{Handler: httpapi.Ingest(s.db, nil, nil)}
	ingest.lose.Store(true)
	server := httptest.NewServer(ingest)
	t.Cleanup(server.Close)
	send := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/vnd.waypost.clicks")
		req.Header.Set("Content-Encoding", "zstd")
		res, err := server.Client().Do(req)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(res.Body)
		require.NoError(t, res.Body.Close())
		return string(text), err
	}
	_, err = send()
	require.Error(t, err, "counted, but the edge does not learn of it")
	ingest.lose.Store(false)
	text, err := send()
	require.NoError(t, err)
	require.JSONEq(t, `{"watermark": 1}`, text)

	s.now.Store(time.Now().Add(2 * time.Hour).UnixMilli())
	_, err = s.Links.Find(t.Context(), actor, "", "summer")
	require.Equal(t, waypost.EGone, waypost.CodeOf(err))
	expired, err := s.Clicks.Stats(t.Context(), actor, "summer")
	require.NoError(t, err, "an expired link has statistics")
	require.EqualValues(t, 4, expired.Clicks)
	for _, code := range []string{"unknown", "x"} {
		_, err = s.Clicks.Stats(t.Context(), actor, code)
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	}
	_, err = s.Clicks.Stats(t.Context(), controlplane.Actor{Workspace: 2}, "spring")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "another workspace's")

	api := httpapi.New(httpapi.Config{
		Services: httpapitest.Services(t, s.db, s.minter, s.Services), BaseURL: "https://go.example.com",
		Anonymous: &controlplane.Actor{
			Workspace: actor.Workspace, Scopes: []controlplane.Scope{controlplane.ScopeAnalytics},
		},
	})
	res := httptest.NewRecorder()
	api.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v1/urls/spring/stats", nil))
	var stats map[string]any
	require.NoError(t, json.Unmarshal(res.Body.Bytes(), &stats), res.Body)
	for name, want := range map[string]any{
		"short_code": "spring", "original_url": l.OriginalURL, "clicks": 3.0, "bot_clicks": 2.0, "total_clicks": 3.0,
		"created_at": l.CreatedAt.Format(time.RFC3339Nano), "last_accessed_at": clicked.Format(time.RFC3339Nano),
	} {
		require.Equal(t, want, stats[name], name)
	}
}
