package client_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
)

func TestACreateWhoseAnswerIsLostIsSentAgainUnderTheSameName(t *testing.T) {
	var keys []string
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 {
			panic(http.ErrAbortHandler)
		}
		require.Equal(t, "all", r.URL.Query().Get("wait"))
		require.Equal(t, "0.5", r.URL.Query().Get("wait_timeout"))
		w.Header().Set("Waypost-Applied", "all; edges=2")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"short_code":"abc"}`))
	})
	l, receipt, err := c.Links.Make(t.Context(), client.NewLink{OriginalURL: "https://example.com"},
		client.Write{Wait: "all", Timeout: 500 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, "abc", l.ShortCode)
	require.Equal(t, "all; edges=2", receipt.Applied)
	require.False(t, receipt.Found)
	require.Len(t, keys, 2)
	require.NotEmpty(t, keys[0])
	require.Equal(t, keys[0], keys[1])
}

func TestACreateThatIsRefusedIsNotSentAgain(t *testing.T) {
	sent := 0
	c := serve(t, "", func(w http.ResponseWriter, _ *http.Request) {
		sent++
		w.WriteHeader(http.StatusConflict)
	})
	_, _, err := c.Links.Make(t.Context(), client.NewLink{OriginalURL: "https://example.com"}, client.Write{Key: "mine"})
	require.Error(t, err)
	require.Equal(t, 1, sent)
}
